package engine

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
)

// versions is what each name ever held, in the source or at the target before.
type versions struct {
	mu sync.Mutex
	of map[string]map[string]bool // guarded by mu
}

func (v *versions) add(name, content string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = map[string]map[string]bool{}
	}
	if v.of[name] == nil {
		v.of[name] = map[string]bool{}
	}
	v.of[name][content] = true
}

func (v *versions) has(name, content string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.of[name][content]
}

// watched is the target of one run, looked at after each step in which something
// may have become visible or gone.
type watched struct {
	mover.Backend
	t       testing.TB
	world   *world
	told    *told
	removes bool   // the run may remove
	died    func() // called when the process of this run is killed
}

// Crash is found by the fault that kills the process.
func (w *watched) Crash() {
	w.Backend.(*mem.Backend).Crash()
	w.died()
}

func (w *watched) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	defer w.look("publish")
	return w.Backend.Publish(ctx, batch)
}

func (w *watched) Mkdir(ctx context.Context, e mover.Entry) error {
	defer w.look("mkdir")
	return w.Backend.Mkdir(ctx, e)
}

func (w *watched) Update(ctx context.Context, e mover.Entry) error {
	defer w.look("update")
	return w.Backend.Update(ctx, e)
}

func (w *watched) Remove(ctx context.Context, e mover.Entry, by mover.WriterID) error {
	defer w.look("remove")
	kind, there := w.world.inSource(e.Name)
	switch {
	case there && kind == e.Kind:
		w.t.Errorf("the source has the %v %q, and it is removed", kind, e.Name)
	case there: // of another kind: it makes room
	case !w.removes:
		w.t.Errorf("%q is removed, and nobody asked for it", e.Name)
	case w.told.doubts():
		w.t.Errorf("%q is removed after a failure", e.Name)
	}
	return w.Backend.Remove(ctx, e, by)
}

// look compares every visible file with what its name ever held.
func (w *watched) look(after string) {
	for _, e := range entries(w.t, w.world.target, w.world.targetOptions) {
		content, ok := w.world.target.Content(e.Name)
		if ok && !w.world.seen.has(e.Name, content) {
			w.t.Errorf("after %s: %q has %d bytes that it never had in the source", after, e.Name, len(content))
		}
	}
}

// entries walks a tree as somebody would who has nothing to do with the run.
func entries(t testing.TB, tree *mem.Tree, o mem.Options) (all []mover.Entry) {
	for e, err := range mem.New(tree, o).Walk(context.Background(), mover.WalkOptions{}) {
		if err != nil {
			t.Errorf("walk: %v", err)
		}
		all = append(all, e)
	}
	return all
}

// shelved is a watched bucket, with its manifest.
type shelved struct {
	*watched
	mu    sync.Mutex
	small []mover.Token // guarded by mu; drafts that a bucket does not know of before they are published
}

func (s *shelved) Unwrap() any { return s.Backend }

func (s *shelved) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := s.Backend.Draft(ctx, e, h)
	t := s.Backend.Capabilities()
	if err == nil && (e.Kind != mover.File || h.Link != "" || e.Size <= min(t.SmallBytes, t.BatchBytes)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.small = append(s.small, d.Token())
	}
	return d, err
}

// Crash takes with it what was only in the memory of the process.
func (s *shelved) Crash() {
	s.watched.Crash()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, token := range s.small {
		_ = mem.New(s.world.target, s.world.targetOptions).Drop(context.Background(), token)
	}
}

func (s *shelved) OpenManifest(ctx context.Context) (io.ReadCloser, error) {
	if _, err := s.Stat(ctx, ""); err != nil { // of a living process
		return nil, err
	}
	m := s.world.manifest.Load()
	if m == nil {
		return nil, mover.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(*m)), nil
}

func (s *shelved) PutManifest(ctx context.Context, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if _, err := s.Stat(ctx, ""); err != nil {
		return err
	}
	whole := b.Bytes()
	s.world.manifest.Store(&whole)
	return nil
}

func (s *shelved) RemoveManifest(context.Context) error {
	s.world.manifest.Store(nil)
	return nil
}
