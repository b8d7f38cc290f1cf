package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// waiting is a place that publishes when it may.
type waiting struct {
	mover.Backend
	reached, may chan struct{}
}

func (w *waiting) Unwrap() any { return w.Backend }

func (w *waiting) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	close(w.reached)
	<-w.may
	return w.Backend.Publish(ctx, batch)
}

// TestTwoInto: of two copies of files into one directory, each lets the drafts of the other be.
func TestTwoInto(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "into"), 0o755))
	begin := func(name string, open engine.Opener) *engine.Task {
		r := engine.Request{Work: engine.Copy, Source: location.Location{Scheme: location.POSIX, Path: filepath.Join(dir, name)},
			Target: location.Location{Scheme: location.POSIX, Path: filepath.Join(dir, "into"), TrailingSlash: true}, StateDir: filepath.Join(dir, "state "+name)}
		return must.Get(engine.Start(t.Context(), r, open))(t)
	}
	w := &waiting{reached: make(chan struct{}), may: make(chan struct{})}
	open := backend.Resolver{}.Open
	first := begin("a", func(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
		b, err := open(ctx, l, o)
		if err == nil && o.Write {
			w.Backend = b
			return w, nil
		}
		return b, err
	})
	<-w.reached
	must.Get(begin("b", open).Wait())(t)
	close(w.may)
	must.Get(first.Wait())(t)
	for _, name := range []string{"a", "b"} {
		if text := must.Get(os.ReadFile(filepath.Join(dir, "into", name)))(t); string(text) != name {
			t.Errorf("%s is %q", name, text)
		}
	}
}
