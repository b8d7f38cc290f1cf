package client

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// Client asks one mounted Lustre. It is safe for use by several goroutines.
type Client struct {
	// Mount is where the file system is mounted, Name its name (fsname).
	Mount, Name string

	k     kernel
	root  int // the open directory Mount, or, when inner, another one of the file system
	inner bool
	// instance is this mount among those of the same file system: "ffff888122441800".
	instance string
	program  lfs
	// noPoolQuotas is set when the client or a server did not know the request for quotas of pools.
	noPoolQuotas *atomic.Bool
}

var (
	_ lustre.Layouts = (*Client)(nil)
	_ lustre.Quotas  = (*Client)(nil)
	_ lustre.Usage   = (*Client)(nil)
)

// Open opens a mounted Lustre by the directory that it is mounted on. It is
// errors.ErrUnsupported when something else is mounted there: the storage of a server, for
// one, has the type lustre, too.
func Open(mount string) (*Client, error) {
	k := linux{}
	root, err := k.openat(unix.AT_FDCWD, mount, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: mount, Err: err}
	}
	c, err := open(k, root, mount)
	if err != nil {
		return nil, errors.Join(err, k.close(root))
	}
	return c, nil
}

// At is Open by any open directory of the file system, for a process that may not open
// the one that it is mounted on. The default layout of the file system is then what the
// servers' parameters say, and not what an administrator gave its root.
func At(dir int, mount string) (*Client, error) {
	k := linux{}
	root, err := k.openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: mount, Err: err}
	}
	c, err := open(k, root, mount)
	if err != nil {
		return nil, errors.Join(err, k.close(root))
	}
	c.inner = true
	return c, nil
}

// open is Open with an open directory, which is the client's from then on.
func open(k kernel, root int, mount string) (*Client, error) {
	name, err := ioctlText(k, root, uapi.IocLOVName, sizeName)
	if err != nil {
		return nil, fmt.Errorf("ask %s for the name of its Lustre: %w", mount, unsupported(err))
	}
	// lab-clilov-ffff888122441800; a file system's name has no '-'.
	fsname, instance, ok := strings.Cut(name, "-clilov-")
	if !ok || !validName(fsname) || !validName(instance) {
		return nil, fmt.Errorf("%s calls itself %q: it is no mount of a Lustre client: %w", mount, name, errors.ErrUnsupported)
	}
	return &Client{Mount: mount, Name: fsname, k: k, root: root, instance: instance, program: lfs{}, noPoolQuotas: new(atomic.Bool)}, nil
}

// Close lets go of the file system.
func (c *Client) Close() error { return c.k.close(c.root) }

// Version is that of the client's module: "2.17.57".
func (c *Client) Version() (string, error) {
	b, err := readParameter(c.k.files(), "sys/fs/lustre/version")
	if err != nil {
		return "", fmt.Errorf("find the version of this Lustre client: %w", err)
	}
	return parseVersion(b), nil
}

// parseVersion takes the number out of "2.17.57" or, as of 2.10 and before, "lustre: 2.10.8".
func parseVersion(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return strings.TrimSpace(strings.TrimPrefix(first, "lustre:"))
}

// sizeName is the size of what IocLOVName answers (MAX_OBD_NAME).
const sizeName = 128

func ioctlText(k kernel, fd int, request uint, size int) (string, error) {
	b := make([]byte, size)
	if _, err := k.ioctl(fd, request, b); err != nil {
		return "", err
	}
	text, _, _ := strings.Cut(string(b), "\x00")
	return text, nil
}

// validName reports whether s can be part of a path below proc.
func validName(s string) bool {
	return s != "" && path.Base(s) == s && s != "." && s != ".." && len(s) < sizeName
}

// isBase reports whether s names something in a directory, and nothing elsewhere.
func isBase(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

// unsupported makes an answer of a kernel that does not know a request
// errors.ErrUnsupported: ENOTTY is not by itself.
func unsupported(err error) error {
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

// fresh opens what is open as fd anew: a descriptor of Lustre was seen to answer with the
// project and the default stripes that it had when it was opened. What a client knows of a
// file it renews when it is asked for its attributes, and not when a file that is open
// already is opened again: that stat comes first is half of it. Nothing is restored.
func (c *Client) fresh(fd int) (int, error) {
	mode, err := c.k.stat(fd)
	if err != nil {
		return -1, err
	}
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return c.k.openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	return c.k.openat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|uapi.DelayCreate, 0)
}

// isDir reports whether fd is a directory.
func (c *Client) isDir(fd int) bool {
	mode, err := c.k.stat(fd)
	return err == nil && mode&unix.S_IFMT == unix.S_IFDIR
}
