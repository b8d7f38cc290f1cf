package mount

import (
	"context"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Spec is a file system that the driver mounts by itself.
type Spec struct {
	Type    string   // lustre, nfs, nfs4, ceph, or one of the kernel's own
	Source  string   // 10.0.0.1@tcp:/lab, server:/export, admin@FSID.NAME=/, /dev/nvme1n1
	Options []string // for the file system; see mount.lustre(8), nfs(5), mount.ceph(8)
}

// FileSystem mounts a file system at target. When it is there already, nothing is done.
// No program is run: what mount.lustre and mount.nfs add to the options is added here.
func FileSystem(ctx context.Context, s Spec, target string) error {
	fail := func(err error) error {
		if err == nil {
			return nil
		}
		return &mover.Error{Op: "mount " + mover.Printable(s.Source) + " at", Place: target, Err: err}
	}
	m, mounted, err := find(target)
	switch {
	case err != nil:
		return fail(err)
	case mounted && m.Source == s.Source && kindred(m.Type, s.Type):
		return nil
	case mounted:
		return fail(fmt.Errorf("%w: %s (%s) is mounted there", mover.ErrConflict, mover.Printable(m.Source), m.Type))
	}
	flags, options, err := s.options(ctx)
	if err != nil {
		return fail(err)
	}
	at, err := openTarget(target)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(at)
	return fail(hinted(unix.Mount(s.Source, procPath(at), s.Type, flags, strings.Join(options, ",")), s))
}

// kindred: what is mounted as nfs shows as nfs4 where the server speaks that.
func kindred(a, b string) bool { return strings.TrimSuffix(a, "4") == strings.TrimSuffix(b, "4") }

// generic are the options that the kernel takes as flags.
var generic = map[string]uintptr{
	"ro": unix.MS_RDONLY, "rw": 0, "noatime": unix.MS_NOATIME, "relatime": unix.MS_RELATIME, "nodiratime": unix.MS_NODIRATIME,
	"noexec": unix.MS_NOEXEC, "nosuid": 0, "nodev": 0, "lazytime": unix.MS_LAZYTIME,
}

// options are what mount(2) is given: flags, and the rest for the file system.
func (s Spec) options(ctx context.Context) (flags uintptr, rest []string, err error) {
	flags = unix.MS_NOSUID | unix.MS_NODEV
	for _, option := range s.Options {
		flag, known := generic[option]
		switch {
		case option == "suid" || option == "dev":
			return 0, nil, fmt.Errorf("%w: option %s: set-user-ID bits and devices of volumes are never honoured", mover.ErrUsage, option)
		case known:
			flags |= flag
		default:
			rest = append(rest, option)
		}
	}
	added, err := s.added(ctx)
	return flags, append(rest, added...), err
}

// added is what the mount programs of a type tell the kernel beside what they are told.
func (s Spec) added(ctx context.Context) ([]string, error) {
	switch s.Type {
	case "lustre":
		return []string{"device=" + s.Source}, nil
	case "nfs", "nfs4":
		host, _, ok := strings.Cut(s.Source, ":/")
		if !ok {
			return nil, fmt.Errorf("%w: an NFS is HOST:/EXPORT", mover.ErrUsage)
		}
		addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", strings.Trim(host, "[]"))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", mover.ErrUnreachable, err)
		}
		return []string{"addr=" + addresses[0].Unmap().String()}, nil
	}
	return nil, nil
}

// hinted says what is likely wrong when a file system can not be mounted.
func hinted(err error, s Spec) error {
	switch {
	case err == nil:
		return nil
	case err == unix.ENODEV:
		return fmt.Errorf("%w: the kernel of this node knows no file system %s: is its client installed, and its module loaded?", mover.ErrUnsupported, s.Type)
	case s.Type == "lustre" && (err == unix.EIO || err == unix.ENOENT || err == unix.EINVAL):
		return fmt.Errorf("%w: is the MGS of %s running, and does LNet reach it (lctl ping)?", err, mover.Printable(s.Source))
	case err == unix.ETIMEDOUT || err == unix.EHOSTUNREACH || err == unix.ECONNREFUSED:
		return fmt.Errorf("%w: %w", mover.ErrUnreachable, err)
	}
	return err
}
