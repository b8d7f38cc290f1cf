package transfer

import (
	"context"
	"errors"
	"slices"
	"sync"

	"datamove.dev/mover"
)

// sweep drops the drafts of earlier holders of a work. Their epochs were
// refused before this helper got the work, so a late publish finds its draft gone.
func (r *run) sweep(ctx context.Context, w *Work) error {
	if len(w.Over) == 0 {
		return nil
	}
	names := map[string]bool{}
	for i := range w.Steps {
		names[w.Steps[i].Action.Name()] = true
	}
	var mu sync.Mutex
	var left []mover.Token
	stray := func(s mover.Stray) {
		theirs := s.Owner.Task == w.Task && slices.Contains(w.Over, s.Owner.Epoch)
		if theirs || s.Owner == (mover.WriterID{}) && names[s.Name] { // no other process drafts these names
			mu.Lock()
			defer mu.Unlock()
			left = append(left, s.Token)
		}
	}
	for dir := range w.dirs() {
		if err := r.look(ctx, dir, stray); err != nil {
			return err
		}
	}
	for _, t := range left {
		if err := r.target.Drop(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// dirs are the directories in which drafts of a work may lie.
func (w *Work) dirs() map[string]bool {
	dirs := map[string]bool{}
	for i := range w.Steps {
		dir, _ := mover.Parent(w.Steps[i].Action.Name())
		dirs[dir] = true
	}
	return dirs
}

// look lists one directory for drafts. One that is not there has none.
func (r *run) look(ctx context.Context, dir string, stray func(mover.Stray)) error {
	opts := mover.WalkOptions{Dir: dir, Stray: stray, Skip: func(string, mover.Kind) bool { return true }}
	for _, err := range r.target.Walk(ctx, opts) {
		if err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return nil
}
