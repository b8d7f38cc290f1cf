package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/checkpoint"
)

// Quarantine is for how long what has been pruned can be given back, when nothing else is said: as long as what policies take away.
const Quarantine = 7 * 24 * time.Hour

const (
	pruned     = "prune-" // begins the names of directories in mover.KeptName, one for each prune
	prunedTime = "20060102T150405.000000000Z"
)

// prunedAt is when a prune began that has a directory of this name. Some have whole seconds: those of versions before this one.
func prunedAt(name string) (time.Time, error) {
	return time.Parse("20060102T150405Z", strings.TrimPrefix(name, pruned)) // it takes a fraction, too
}

// Aside is Remove, and in a directory the checkpoint is moved to where Unprune finds it. A store removes it.
func (s *Site) Aside(ctx context.Context, t Tier, name string, now time.Time) error {
	if t.root == nil {
		return s.Remove(ctx, t, name)
	}
	if _, is, err := t.still(ctx, name); err != nil || !is {
		return err
	}
	return t.aside(t.Location, asideIn(now), name, false)
}

// asideIn is the directory of what is moved aside at a time.
func asideIn(now time.Time) string {
	return mover.KeptName + "/" + pruned + now.UTC().Format(prunedTime)
}

// Unprune gives back what the last prune, or restore, has moved aside. What has got its name since stays, and so does the one that it would replace: that is fs.ErrExist.
func (f *Folder) Unprune() (names []string, err error) {
	all, err := f.prunes()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	dir := mover.KeptName + "/" + all[len(all)-1]
	entries, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), checkpoint.RecordOf("", false)) {
			continue // it comes with what it is of
		}
		if err := f.aside(f.Location, dir, e.Name(), true); err != nil {
			if errors.Is(err, fs.ErrExist) {
				err = fmt.Errorf("%w: another one has its name: move that away, and bring this one back then (%w)", mover.ErrConflict, err)
			}
			errs = append(errs, &mover.Error{Op: "bring back", Location: f.String(), Name: e.Name(), Err: err})
			continue
		}
		names = append(names, e.Name())
	}
	if len(errs) == 0 {
		return names, f.root.RemoveAll(dir)
	}
	return names, errors.Join(errs...)
}

// EndQuarantine removes what was moved aside before some time.
func (f *Folder) EndQuarantine(before time.Time) error {
	all, err := f.prunes()
	for _, name := range all {
		if when, _ := prunedAt(name); when.Before(before) {
			err = errors.Join(err, f.root.RemoveAll(mover.KeptName+"/"+name))
		}
	}
	return err
}

// prunes are the directories of prunes, the oldest first. Links are none.
func (f *Folder) prunes() (names []string, err error) {
	if f.root == nil {
		return nil, nil
	}
	if is, err := f.root.Lstat(mover.KeptName); err != nil || !is.IsDir() {
		return nil, ignoreGone(err)
	}
	entries, err := fs.ReadDir(f.root.FS(), mover.KeptName)
	for _, e := range entries {
		if _, perr := prunedAt(e.Name()); perr == nil && e.IsDir() && strings.HasPrefix(e.Name(), pruned) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		first, _ := prunedAt(a)
		second, _ := prunedAt(b)
		return first.Compare(second)
	})
	return names, err
}
