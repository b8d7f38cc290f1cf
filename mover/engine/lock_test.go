package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// usurped is a place whose lock is lost when the first entry is published.
type usurped struct {
	*mem.Backend
	lose context.CancelCauseFunc
}

func (u *usurped) Lock(ctx context.Context, name string, o mover.WriterID) (context.Context, func() error, error) {
	ctx, unlock, err := u.Backend.Lock(ctx, name, o)
	ctx, u.lose = context.WithCancelCause(ctx)
	return ctx, unlock, err
}

func (u *usurped) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	u.lose(fmt.Errorf("lost: %w", mover.ErrHeld))
	return u.Backend.Publish(ctx, batch)
}

// TestLostLock: whoever loses the lock stops, and says so.
//
//safety:3 a run that loses its lock stops
func TestLostLock(t *testing.T) {
	files := map[string]string{}
	for n := range 2000 {
		files[fmt.Sprintf("%04d", n)] = "content"
	}
	source, target := mem.NewTree().Files(files), mem.NewTree()
	open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		if o.Write {
			return &usurped{Backend: mem.New(target, mem.Options{})}, nil
		}
		return mem.New(source, mem.Options{}), nil
	}
	r := Request{
		Work: Copy, Source: location.Location{Scheme: location.POSIX, Path: "/source"},
		Target: location.Location{Scheme: location.POSIX, Path: "/target"}, Jobs: 1, StateDir: t.TempDir(),
	}
	task, err := Start(t.Context(), r, open)
	must.Do(t, err)
	report, err := task.Wait()
	if !errors.Is(err, mover.ErrHeld) || t.Context().Err() != nil {
		t.Errorf("the run ended with %v", err)
	}
	if report.Files == int64(len(files)) {
		t.Error("the run went on to its end")
	}
}
