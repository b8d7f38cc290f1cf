package gpfs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// quotas answers for filesets, which are the projects here.
type quotas struct{ mounted }

func (q quotas) Project(ctx context.Context, fd int) (lustre.Project, error) {
	f, err := q.filesetOf(ctx, fd)
	if err != nil {
		return lustre.Project{}, err
	}
	return f.project(), nil
}

func (f Fileset) project() lustre.Project {
	return lustre.Project{ID: f.ID, Name: f.Name, Inherit: true}
}

// SetProject can only find that it is so already: what a directory belongs to is decided
// where its fileset is linked.
func (q quotas) SetProject(ctx context.Context, dir int, p lustre.Project) error {
	f, err := q.filesetOf(ctx, dir)
	if err != nil {
		return err
	}
	if f.Name == p.Name {
		return nil
	}
	return fmt.Errorf("project %q: %w: a directory that exists can not be put into another fileset, it is in %q; make a new one with its fileset",
		cmp.Or(p.Name, fmt.Sprint(p.ID)), errors.ErrUnsupported, f.Name)
}

func (q quotas) Quota(ctx context.Context, _ int, p lustre.Project) (lustre.Quota, error) {
	if err := checkName("fileset", p.Name); err != nil {
		return lustre.Quota{}, err
	}
	system, err := q.asked.FileSystem(ctx, q.name)
	if err != nil {
		return lustre.Quota{}, err
	}
	found, quota, err := q.asked.FilesetQuota(ctx, q.name, p.Name)
	if err != nil {
		return lustre.Quota{}, err
	}
	if !found { // it was never limited, or it is not there
		f, err := q.asked.Fileset(ctx, q.name, p.Name)
		if err != nil {
			return lustre.Quota{}, err
		}
		quota = quotaEntry{name: f.Name, id: f.ID}.quota(time.Now())
		quota.Doubt = "the file system has no entry for it: quotas are off, or nothing was counted yet"
	}
	// Root is held only where the cluster has enforceFilesetQuotaOnRoot, which neither way tells.
	quota.Enforced = system.FilesetQuotas
	return quota, nil
}

// SetQuota believes what it reads, not the answer.
func (q quotas) SetQuota(ctx context.Context, fd int, p lustre.Project, l lustre.Limits) error {
	if err := q.asked.SetFilesetQuota(ctx, q.name, p.Name, l); err != nil {
		return err
	}
	var now lustre.Quota
	ok, err := q.eventually(ctx, func() (ok bool, err error) {
		now, err = q.Quota(ctx, fd, p)
		return fits(l, now.Limits), err
	})
	switch {
	case err != nil:
		return fmt.Errorf("limits of fileset %s were set, and are not seen yet: %w", p.Name, err)
	case !ok:
		return fmt.Errorf("limits of fileset %s: %w: they are %+v", p.Name, lustre.ErrNotApplied, now.Limits)
	}
	return nil
}

// eventually looks until what was changed is seen. The GUI answers out of what it has
// collected, which can be behind for a while; the commands do not.
func (m mounted) eventually(ctx context.Context, seen func() (bool, error)) (bool, error) {
	client, collects := m.asked.(*Client)
	for wait := firstPause; ; wait *= 2 {
		ok, err := seen()
		if err != nil || ok || !collects || wait > maxPause {
			return ok && err == nil, err
		}
		if err := client.pause(ctx, wait); err != nil {
			return false, err
		}
	}
}

// fits reports whether limits are those that were asked for: GPFS rounds bytes up to whole
// blocks of the file system.
func fits(wanted, got lustre.Limits) bool {
	return wanted.SoftFiles == got.SoftFiles && wanted.HardFiles == got.HardFiles &&
		about(whole(wanted.SoftBytes), got.SoftBytes) && about(whole(wanted.HardBytes), got.HardBytes)
}

func whole(bytes int64) int64 { return (bytes + min(1023, 1<<63-1-bytes)) &^ 1023 }

// maxRounding is how much larger a limit may come back: the largest block is 16 MiB.
const maxRounding = 16 << 20

func about(wanted, got int64) bool {
	return got == wanted || wanted > 0 && got > wanted && got-wanted < maxRounding
}

// MakeProject makes a fileset and links it as a new directory. Its name in the cluster is
// made of that of the directory and something random: two directories may have one name.
func (q quotas) MakeProject(ctx context.Context, dir int, base string, mode uint32) (lustre.Project, error) {
	name, err := filesetName(base)
	if err != nil {
		return lustre.Project{}, err
	}
	junction, within, err := q.junction(ctx, dir, base)
	if err != nil {
		return lustre.Project{}, err
	}
	n := NewFileset{Name: name, Within: within, Junction: junction, Mode: mode & 0o7777}
	if err := n.check(); err != nil {
		return lustre.Project{}, err
	}
	err = q.asked.CreateFileset(ctx, q.name, n)
	if err == nil {
		var p lustre.Project
		if p, err = q.made(ctx, dir, base, name, mode); err == nil {
			return p, nil
		}
	}
	return lustre.Project{}, errors.Join(fmt.Errorf("fileset %s at %s of %s: %w", name, junction, q.name, err), q.undo(ctx, name, errors.Is(err, ErrJobLost)))
}

// made looks at the new directory through our own descriptor, and gives it its mode.
func (q quotas) made(ctx context.Context, dir int, base, name string, mode uint32) (lustre.Project, error) {
	var f Fileset
	linked, err := q.eventually(ctx, func() (bool, error) {
		var err error
		f, err = q.asked.Fileset(ctx, q.name, name)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return f.Junction != "", err
	})
	if err != nil {
		return lustre.Project{}, err
	}
	if !linked {
		return lustre.Project{}, fmt.Errorf("%w: the fileset is not linked", lustre.ErrNotApplied)
	}
	fd, err := openBase(dir, base)
	if err != nil {
		return lustre.Project{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return lustre.Project{}, err
	}
	if st.Ino != f.RootInode {
		return lustre.Project{}, fmt.Errorf("%w: the directory is not the root of the fileset", lustre.ErrNotApplied)
	}
	if st.Mode&0o7777 != mode&0o7777 {
		if err := unix.Fchmod(fd, mode&0o7777); err != nil {
			return lustre.Project{}, fmt.Errorf("mode of the new directory: %w", err)
		}
	}
	return f.project(), nil
}

// undo takes away a fileset that we have just named, whether it was made or not, and whether
// it is linked yet or not: what the GUI has collected of it can be behind. The caller's
// context may be over. A job that was lost may make it later than this looks.
func (q quotas) undo(ctx context.Context, name string, lost bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	err := q.asked.DeleteFileset(ctx, q.name, name)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist) && !lost:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("fileset %s may be left behind: its job may go on, and it is not there yet; unlink and delete it when it is", name)
	}
	// A fileset that is linked can not be deleted.
	unlinked := q.asked.UnlinkFileset(ctx, q.name, name, true)
	if err := q.asked.DeleteFileset(ctx, q.name, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("fileset %s may be left behind: %w", name, errors.Join(unlinked, err))
	}
	return nil
}

// RemoveProject unlinks and deletes the fileset of the directory base. Where the directory is gone, an earlier
// process unlinked the fileset and did not come to delete it: RemoveProject deletes it.
func (q quotas) RemoveProject(ctx context.Context, dir int, base string, p lustre.Project) error {
	fd, err := openBase(dir, base)
	if errors.Is(err, fs.ErrNotExist) {
		return q.removeUnlinked(ctx, base, p)
	}
	if err != nil {
		return err
	}
	f, err := q.filesetOf(ctx, fd)
	var st unix.Stat_t
	err = errors.Join(err, unix.Fstat(fd, &st), unix.Close(fd)) // an open file would hold the fileset
	switch {
	case err != nil:
		return err
	case f.Name != p.Name || f.ID != p.ID || st.Ino != f.RootInode || f.ID == 0:
		return fmt.Errorf("directory %q: %w: it is not the root of project %q, but in %q", base, ErrConflict, p.Name, f.Name)
	}
	if err := q.asked.UnlinkFileset(ctx, q.name, f.Name, false); err != nil {
		return err
	}
	if err := q.asked.DeleteFileset(ctx, q.name, f.Name); err != nil {
		// An unlinked fileset that could not be deleted is linked again: without a path, its content can not be seen.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		return errors.Join(err, q.asked.LinkFileset(ctx, q.name, f.Name, f.Junction))
	}
	return nil
}

// removeUnlinked deletes a fileset by its name. fs.ErrNotExist where there is none.
func (q quotas) removeUnlinked(ctx context.Context, base string, p lustre.Project) error {
	var f Fileset
	unlinked, err := q.eventually(ctx, func() (bool, error) {
		var err error
		f, err = q.asked.Fileset(ctx, q.name, p.Name)
		return f.Junction == "", err
	})
	switch {
	case err != nil:
		return err
	case !unlinked:
		return fmt.Errorf("directory %q: %w: it is not there, and its fileset %q is at %s", base, ErrConflict, f.Name, f.Junction)
	case f.ID != p.ID || f.ID == 0:
		return fmt.Errorf("directory %q: %w: it is not there, and fileset %q is another one", base, ErrConflict, f.Name)
	}
	return q.asked.DeleteFileset(ctx, q.name, f.Name)
}

// junction is the path of a new directory, as the cluster says it, and the independent fileset
// that it will be inside.
func (q quotas) junction(ctx context.Context, dir int, base string) (junction, within string, err error) {
	if base == "" || base == "." || base == ".." || strings.Contains(base, "/") {
		return "", "", fmt.Errorf("directory %q: %w: one name", base, ErrName)
	}
	if err := unix.Faccessat(dir, base, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		return "", "", fmt.Errorf("directory %q: %w", base, fs.ErrExist)
	}
	at, err := q.whereIs(ctx, dir) // that our mount is what we think
	if err != nil {
		return "", "", err
	}
	for _, f := range at.all {
		if f.Independent && f.InodeSpace == at.fileset.InodeSpace {
			within = f.Name
		}
	}
	there, ok := rebase(at.path, q.mount, at.theirs)
	if !ok || within == "" {
		return "", "", fmt.Errorf("directory %q: %w: where it would be, as the cluster says it, is not known", base, errors.ErrUnsupported)
	}
	return path.Join(there, base), within, nil
}

func openBase(dir int, base string) (int, error) {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("directory %q: %w", base, err)
	}
	return fd, nil
}

// filesetName makes a name that a fileset can have.
func filesetName(base string) (string, error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	keep := func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '_'
	}
	name := strings.TrimLeft(strings.Map(keep, base[:min(len(base), 100)]), "-.")
	return "p-" + name + "-" + hex.EncodeToString(random[:]), nil
}
