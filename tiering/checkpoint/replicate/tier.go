package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// In opens a folder of a tier for a service that acts for another user there. It opens from the root of the tier on, and over no symbolic link.
func (s *Site) In(ctx context.Context, tier location.Location, name string, p checkpoint.Profile, makes bool) (*Folder, error) {
	l := tier
	if name != "" {
		l = tier.Child(name)
	}
	if !tier.IsPath() {
		return s.Folder(ctx, l, p, makes)
	}
	f := &Folder{Location: l, Profile: p}
	f.Location.TrailingSlash = false
	root, err := os.OpenRoot(tier.Path)
	if err == nil {
		f.root, err = below(root, name, makes)
	}
	if err == nil {
		err = f.reads()
	}
	return f.opened(ctx, err)
}

// below opens a directory below another one, step by step and over no symbolic link, and lets go of that. What is missing is made where makes says so.
func below(root *os.Root, name string, makes bool) (*os.Root, error) {
	for base := range strings.SplitSeq(name, "/") {
		if base == "" {
			continue
		}
		next, err := step(root, base, makes)
		err = errors.Join(err, root.Close())
		if err != nil {
			return nil, err
		}
		root = next
	}
	return root, nil
}

func step(root *os.Root, base string, makes bool) (*os.Root, error) {
	is, err := root.Lstat(base)
	if makes && errors.Is(err, fs.ErrNotExist) {
		if err := root.Mkdir(base, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		is, err = root.Lstat(base)
	}
	if err != nil {
		return nil, err
	}
	if !is.IsDir() {
		return nil, fmt.Errorf("%w: %s is no directory", mover.ErrConflict, mover.Printable(base))
	}
	next, err := root.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	at, err := next.Stat(".")
	if err == nil && !os.SameFile(is, at) {
		err = fmt.Errorf("%w: %s was exchanged", mover.ErrConflict, mover.Printable(base))
	}
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// Bring is Carry of a save, and the trackers that name the checkpoint after it. In a directory what has its name, and is no older copy, is kept aside. mover.ErrChanged when another save has its name by now.
func (s *Site) Bring(ctx context.Context, from *Folder, is Save, to *Folder, state func(checkpoint.State)) (Result, error) {
	found, err := from.look(ctx, is.Name)
	if err != nil {
		return Result{}, err
	}
	if SaveOf(found) != is.Save {
		return Result{}, &mover.Error{Op: "copy", Location: from.String(), Name: is.Name, Err: fmt.Errorf("%w: it was saved again", mover.ErrChanged)}
	}
	if state == nil {
		state = func(checkpoint.State) {}
	}
	c := s.carrying(from, found, to, state)
	c.brings = true
	out, err := c.run(ctx)
	if err != nil {
		return out, err
	}
	if out.Aside != "" {
		s.log().Warn("another save had the name of a checkpoint, and is kept aside", "name", mover.Printable(is.Name), "in", mover.Printable(out.Aside))
	}
	for _, p := range pointersOf(found.View, found.Tree) {
		if p.Names == is.Name {
			err = errors.Join(err, s.point(ctx, to, p))
		}
	}
	return out, err
}

// Save is a save of a checkpoint.
type Save struct{ Name, Save string }

// Expiry is a checkpoint that is to go, as it was when that was decided.
type Expiry struct {
	Save
	Relies []Save // those that stay, and because of which it may go
	Keep   string // a directory of the tier to which it is moved, where the tier is a directory
}

// Expire has a checkpoint go from a folder of a tier, if all is as it was when that was decided: else mover.ErrChanged. From the first step on it is not there.
func (s *Site) Expire(ctx context.Context, tier location.Location, folder string, e Expiry) error {
	f, err := s.In(ctx, tier, folder, "", false)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, one := range append([]Save{e.Save}, e.Relies...) {
		found, is, err := checkpoint.Look(ctx, f, f.Profile, one.Name)
		switch {
		case err != nil:
			return err
		case !is, !found.Complete, SaveOf(found) != one.Save:
			return &mover.Error{Op: "remove", Location: f.String(), Name: e.Name, Err: fmt.Errorf("%w: %s is not what it was", mover.ErrChanged, mover.Printable(one.Name))}
		case one == e.Save && found.View.Names(one.Name):
			return &mover.Error{Op: "remove", Location: f.String(), Name: e.Name, Err: fmt.Errorf("%w: a tracker names it", mover.ErrChanged)}
		case one == e.Save, found.Commit == nil, !found.Commit.Verified() && !found.Commit.Summed(): // it counts for a copy elsewhere, and its format has been looked at
			continue
		}
		why, err := s.recheck(ctx, Tier{Folder: f, saves: map[string]string{one.Name: one.Save}}, one.Name)
		if err == nil && why != "" {
			err = &mover.Error{Op: "remove", Location: f.String(), Name: e.Name, Err: fmt.Errorf("%w: %s does not count: %s", mover.ErrChanged, mover.Printable(one.Name), why)}
		}
		if err != nil {
			return err
		}
	}
	if f.root == nil {
		return s.Remove(ctx, Tier{Folder: f, saves: map[string]string{e.Name: e.Save.Save}}, e.Name)
	}
	return f.aside(tier, mover.Join(e.Keep, folder), e.Name, false)
}

// Return brings back what Expire has moved, where nothing has its name by now. mover.ErrNotExist when there is nothing.
func (s *Site) Return(ctx context.Context, tier location.Location, folder string, e Expiry) error {
	if !tier.IsPath() {
		return fs.ErrNotExist
	}
	f, err := s.In(ctx, tier, folder, checkpoint.Plain, true)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.aside(tier, mover.Join(e.Keep, folder), e.Name, true)
}

// aside moves a checkpoint to another directory of its tier, or back from there.
func (f *Folder) aside(tier location.Location, dir, name string, back bool) error {
	top, err := os.OpenRoot(tier.Path)
	if err != nil {
		return err
	}
	kept, err := below(top, dir, !back)
	if err != nil {
		return err
	}
	defer kept.Close()
	from, to := f.root, kept
	if back {
		from, to = kept, f.root
	}
	a, err := from.Open(".")
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := to.Open(".")
	if err != nil {
		return err
	}
	defer b.Close()
	if err := renameTo(a, name, b, name); err != nil {
		return err
	}
	record := checkpoint.RecordOf(name, false)
	return errors.Join(ignoreGone(renameTo(a, record, b, record)), b.Sync(), a.Sync())
}

// renameTo moves a name from one directory to another, where nothing has the new one.
func renameTo(from *os.File, old string, to *os.File, name string) error {
	a, b := int(from.Fd()), int(to.Fd())
	err := unix.Renameat2(a, old, b, name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // a file system that can not say so
		var st unix.Stat_t
		if err = unix.EEXIST; unix.Fstatat(b, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			err = unix.Renameat(a, old, b, name)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: old, New: name, Err: err}
	}
	return nil
}
