package hop

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/mover/local"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// Tier is what one folder has, and what retention says of it.
type Tier struct {
	*Folder
	Verdicts []checkpoint.Verdict
	saves    map[string]string // by name
}

// Judge says what would stay in folders that have checkpoints of one run, and what not.
func Judge(ctx context.Context, folders []*Folder, k checkpoint.Keep) ([]Tier, error) {
	tiers, held := make([]Tier, len(folders)), make([][]checkpoint.Held, len(folders))
	where := map[string]int{} // by name and save: in how many folders it is verified
	for i, f := range folders {
		tiers[i] = Tier{Folder: f, saves: map[string]string{}}
		for found, err := range checkpoint.Each(ctx, f, f.Profile) {
			if err != nil {
				return nil, err
			}
			if !found.Complete {
				continue // it may be on its way
			}
			h := checkpoint.Held{Name: found.Name, Step: found.Step, Saved: found.Current, Verified: found.Commit != nil && found.Commit.Verified(),
				Tagged: found.Commit != nil && len(found.Commit.Tags) > 0, Named: found.View.Names(found.Name)}
			tiers[i].saves[found.Name] = SaveOf(found)
			if h.Verified {
				where[found.Name+"\x00"+SaveOf(found)]++
			}
			held[i] = append(held[i], h)
		}
	}
	for i := range folders {
		for j := range held[i] {
			held[i][j].Second = where[held[i][j].Name+"\x00"+tiers[i].saves[held[i][j].Name]] > 1
		}
		tiers[i].Verdicts = k.Judge(held[i], len(folders) > 1)
	}
	return tiers, nil
}

// still finds a checkpoint of which retention has said that it goes, if it is the same one still.
func (t Tier) still(ctx context.Context, name string) (found checkpoint.Found, is bool, err error) {
	found, is, err = checkpoint.Look(ctx, t, t.Profile, name)
	if err == nil && is && SaveOf(found) != t.saves[name] {
		err = &mover.Error{Op: "remove", Place: t.String(), Name: name, Err: fmt.Errorf("%w: it was saved again", mover.ErrChanged)}
	}
	return found, is, err
}

// Remove removes a checkpoint of which retention has said that it goes. It is not there from the first step on.
func (s *Site) Remove(ctx context.Context, t Tier, name string) error {
	found, is, err := t.still(ctx, name)
	if err != nil || !is {
		return err
	}
	beside := checkpoint.RecordOf(name, false)
	if t.root != nil {
		if err := t.removeWhole(name); err != nil || found.Dir {
			return err
		}
		return ignoreGone(t.root.Remove(beside))
	}
	for found.Complete && found.Mark != "" && found.Dir { // as long as something in it says that it is complete, nothing else goes
		if err := s.removeAll(ctx, t.child(mover.Join(name, found.Mark))); err != nil {
			return err
		}
		if found, is, err = checkpoint.Look(ctx, t, t.Profile, name); err != nil || !is {
			return err
		}
	}
	if err := s.removeAll(ctx, t.child(name)); err != nil || found.Dir {
		return err
	}
	return s.removeAll(ctx, t.child(beside))
}

func ignoreGone(err error) error {
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	return err
}

// removeAll removes what is there, and is content when nothing is.
func (s *Site) removeAll(ctx context.Context, l location.Location) error {
	r := s.Request
	r.Logger = s.Log
	_, err := local.RemoveAll(ctx, l, r, s.Open)
	return ignoreGone(err)
}

// removeWhole takes the name away, and then what had it.
func (f *Folder) removeWhole(name string) error {
	gone := name + leaving
	if err := f.root.RemoveAll(gone); err != nil {
		return err
	}
	if err := f.root.Rename(name, gone); err != nil {
		return err
	}
	if err := syncIn(f.root, "."); err != nil {
		return err
	}
	return f.root.RemoveAll(gone)
}
