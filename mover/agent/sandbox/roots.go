package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"datamove.dev/mover"
)

// Confinement is what a process may reach in file systems: absolute paths of
// directories, with all that is below them.
//
// A file, or a link that leads nowhere, stands for the directory around it, because a
// mover opens that one, and makes its drafts there. A root of Read that does not
// exist opens up nothing. One of Write that does not exist stands for the nearest directory
// above it that does: rights can not be given later, so until the root is made, everything in
// that directory can be written, as far as the account may. A caller that wants it narrower
// makes the root first.
//
// Of List only names are seen, in the directories and below them, and no content. A root of
// List and a device that do not exist open up nothing.
type Confinement struct {
	Read    []string // source trees
	Write   []string // target trees, state directories
	List    []string // directories to list
	Devices []string // device nodes, to be read, written and asked (ioctl)
}

// grant is what is opened up of one directory or file.
type grant struct {
	path   string
	rights landlock.AccessFSSet
}

// grants resolves the roots, as the account sees them; at has the one that it is at.
func (c Confinement) grants(at *step) (grants []grant, wider []Wider, err error) {
	add := func(roots []string, rights landlock.AccessFSSet, resolve func(string) (string, error)) error {
		for _, asked := range roots {
			at.goes(asked)
			dir, err := resolve(asked)
			if err != nil {
				return &mover.Error{Op: "confine to", Location: asked, Err: reason(err)}
			}
			if dir == "" {
				continue
			}
			grants = append(grants, grant{dir, rights})
			if dir != filepath.Clean(asked) {
				wider = append(wider, Wider{asked, dir})
			}
		}
		return nil
	}
	if err := add(c.Read, readRights, readRoot); err != nil {
		return nil, nil, err
	}
	if err := add(c.Write, writeRights, writeRoot); err != nil {
		return nil, nil, err
	}
	if err := add(c.List, ll.AccessFSReadDir, readRoot); err != nil {
		return nil, nil, err
	}
	if err := add(c.Devices, deviceRights, deviceNode); err != nil {
		return nil, nil, err
	}
	at.goes("")
	return grants, wider, nil
}

// reason is err without the path that is told anyway.
func reason(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

// readRoot returns the directory that a root of Read stands for; "" is none.
func readRoot(path string) (string, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && filepath.IsAbs(path) { // a link to a file is followed, and opened in its own directory
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", err
		}
	}
	dir, err := existing(path)
	if missing(err) {
		return "", nil
	}
	return dir, err
}

// deviceNode returns the device that is at a path; "" is none.
func deviceNode(path string) (string, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("%w: it is no absolute path", mover.ErrUsage)
	}
	info, err := os.Lstat(path)
	switch {
	case missing(err):
		return "", nil
	case err == nil && info.Mode()&fs.ModeCharDevice == 0:
		return "", fmt.Errorf("%w: it is no character device", mover.ErrUsage)
	}
	return filepath.Clean(path), err
}

// writeRoot returns the directory that a root of Write stands for.
func writeRoot(path string) (string, error) {
	for {
		dir, err := existing(path)
		if !missing(err) {
			return dir, err
		}
		path = filepath.Dir(path) // "/" exists
	}
}

// existing returns path if it is a directory, and the directory around it if it is
// anything else.
func existing(path string) (string, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("%w: it is no absolute path", mover.ErrUsage)
	}
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if missing(err) {
		info, err = os.Lstat(path) // a link that leads nowhere
	}
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return filepath.Dir(path), nil
	}
	return path, nil
}

// missing also is what lies below a file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// What every Go program needs: to resolve names, to check certificates, to know
// time zones and users. Of /proc it is no more than the process itself and what the
// kernel tells of itself: root could read the environment of others there.
//
// Rules are bound to inodes: where a network manager replaces /etc/resolv.conf itself,
// and not the file that it links to, a process does not see the new one.
var (
	readable = []string{
		"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols",
		"/etc/passwd", "/etc/group", "/etc/localtime", "/usr/share/zoneinfo",
		"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
		"/dev/zero", "/dev/random", "/dev/urandom",
		"/proc/self", "/proc/sys/kernel",
		"/proc/fs/lustre", "/sys/fs/lustre", // what a Lustre client tells of itself: its version, its pools
	}
	writable = []string{"/dev/null"}
)

// essentials are the grants for them; what is not there is left out.
func essentials() (grants []grant) {
	for _, path := range slices.Concat(readable, resolverDir()) {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			grants = append(grants, grant{path, readRights})
		} else if err == nil {
			grants = append(grants, grant{path, ll.AccessFSReadFile})
		}
	}
	for _, path := range writable {
		if _, err := os.Stat(path); err == nil {
			grants = append(grants, grant{path, fileRights})
		}
	}
	return grants
}

// resolverDir is the directory below /run where a network manager keeps the resolver's
// configuration, and replaces it.
func resolverDir() []string {
	path, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if dir := filepath.Dir(path); err == nil && strings.HasPrefix(dir, "/run/") {
		return []string{dir}
	}
	return nil
}
