package hop

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/mover/local"
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
			h := checkpoint.Held{Name: found.Name, Step: found.Step, Modified: found.Made(), Verified: found.Commit != nil && found.Commit.Verified(), Tagged: found.Commit != nil && len(found.Commit.Tags) > 0}
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

// Remove removes a checkpoint of which retention has said that it goes, if it is the same one still. It is not there from the first step on.
func (s *Site) Remove(ctx context.Context, t Tier, name string) error {
	found, is, err := checkpoint.Look(ctx, t, t.Profile, name)
	if err != nil || !is {
		return err
	}
	if SaveOf(found) != t.saves[name] {
		return &mover.Error{Op: "remove", Place: t.String(), Name: name, Err: fmt.Errorf("%w: it was saved again", mover.ErrChanged)}
	}
	if t.root != nil {
		return t.removeDir(name)
	}
	for _, l := range []string{mover.Join(name, checkpoint.Committed), name} {
		r := s.Request
		r.Logger = s.Log
		if _, err := local.RemoveAll(ctx, t.child(l), r, s.Open); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeDir takes the name away, and then what had it.
func (f *Folder) removeDir(name string) error {
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
