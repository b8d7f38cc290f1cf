package mount

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
		return &mover.Error{Op: "mount " + mover.Printable(s.Source) + " at", Location: target, Err: err}
	}
	target, err := straight(target)
	if err != nil {
		return fail(err)
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
	err = unix.Mount(s.Source, procPath(at), s.Type, flags, strings.Join(options, ","))
	if err == unix.EINVAL && slices.Contains(options, uniqueFSID) { // a client that should know it, and does not
		options = slices.DeleteFunc(options, func(o string) bool { return o == uniqueFSID })
		err = unix.Mount(s.Source, procPath(at), s.Type, flags, strings.Join(options, ","))
	}
	return fail(hinted(err, s))
}

// straight is a target as the table of mounts has it: over no link to where it is.
func straight(target string) (string, error) {
	if err := valid(target); err != nil {
		return "", err
	}
	above, base := filepath.Split(target)
	above, err := filepath.EvalSymlinks(above)
	return filepath.Join(above, base), err
}

// uniqueFSID gives each mount of a Lustre a device number of its own. Without it all mounts of one Lustre
// look like the same to a kubelet, which takes volumes for mounted elsewhere then.
const uniqueFSID = "unique_fsid"

// hasUniqueFSID reports whether a client of Lustre of this version knows the option: from 2.15.8 on
// (kubernetes-sigs/azurelustre-csi-driver#280).
func hasUniqueFSID(version string) bool {
	var a, b, c int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &a, &b, &c); n < 3 {
		return false
	}
	return slices.Compare([]int{a, b, c}, []int{2, 15, 8}) >= 0
}

// Below is the mount of one directory of a file system alone, for one volume: path is below what s mounts. With a label,
// everything in it has that label of SELinux.
func (s Spec) Below(path, label string) (Spec, error) {
	s.Options = slices.Clone(s.Options)
	switch s.Type {
	case "lustre", "nfs", "nfs4", "ceph":
		s.Source = strings.TrimSuffix(s.Source, "/") + "/" + path
	case "btrfs":
		s.Options = append(s.Options, "subvol="+path)
	default:
		return Spec{}, fmt.Errorf("%w: of a file system of type %s no directory can be mounted alone; lustre, nfs, ceph and btrfs can", mover.ErrUnsupported, mover.Printable(s.Type))
	}
	if label == "" {
		return s, nil
	}
	if !labelForm.MatchString(label) {
		return Spec{}, fmt.Errorf("%w: %s is no label of SELinux", mover.ErrUsage, mover.Printable(label))
	}
	s.Options = append(s.Options, `context="`+label+`"`)
	return s, nil
}

// Separable reports whether Below can be had of a type.
func Separable(kind string) bool {
	_, err := Spec{Type: kind}.Below("x", "")
	return err == nil
}

// labelForm is user:role:type:level, the last one with categories. It goes into an option: no quote may be in it.
var labelForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+(:[A-Za-z0-9_.:,-]+)?$`)

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
		added := []string{"device=" + s.Source}
		if version, err := os.ReadFile("/sys/module/lustre/version"); err == nil && hasUniqueFSID(string(version)) && !slices.Contains(s.Options, uniqueFSID) {
			added = append(added, uniqueFSID)
		}
		return added, nil
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
	case err == unix.EINVAL && slices.ContainsFunc(s.Options, func(o string) bool { return strings.HasPrefix(o, "context=") }):
		return fmt.Errorf("%w: %w: it is to be mounted with a label of SELinux: is that enabled on this node?", mover.ErrUnsupported, err)
	case s.Type == "lustre" && (err == unix.EIO || err == unix.ENOENT || err == unix.EINVAL):
		return fmt.Errorf("%w: is the MGS of %s running, and does LNet reach it (lctl ping)?", err, mover.Printable(s.Source))
	case err == unix.ETIMEDOUT || err == unix.EHOSTUNREACH || err == unix.ECONNREFUSED:
		return fmt.Errorf("%w: %w", mover.ErrUnreachable, err)
	}
	return err
}
