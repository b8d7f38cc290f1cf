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

// beaten is a place of which another lead takes the lock first.
type beaten struct {
	*mem.Backend
	epoch uint64
}

func (b *beaten) Unwrap() any { return b.Backend }

func (b *beaten) Lock(ctx context.Context, name string, o mover.WriterID) (context.Context, func() error, error) {
	if b.epoch > 0 {
		first := mover.WriterID{Task: o.Task, Epoch: b.epoch}
		b.epoch = 0
		if _, _, err := b.Backend.Lock(ctx, name, first); err != nil {
			return nil, nil, err
		}
	}
	return b.Backend.Lock(ctx, name, o)
}

// TestLockOfLostLead: the lock of a lead of another task is broken when that is over, and not before.
//
//safety:3/takeover with mover/coordinator TestLinger
func TestLockOfLostLead(t *testing.T) {
	const first = 7
	for name, c := range map[string]struct {
		isOver func(context.Context, uint64) bool
		want   error
	}{
		"over":     {func(_ context.Context, epoch uint64) bool { return epoch == first }, nil},
		"not over": {func(context.Context, uint64) bool { return false }, mover.ErrHeld},
		"unknown":  {nil, mover.ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			source, target := mem.NewTree().Files(map[string]string{"f": "content"}), mem.NewTree()
			task, err := Start(t.Context(), Request{
				Work: Copy, Source: location.Location{Scheme: location.POSIX, Path: "/source"}, Target: location.Location{Scheme: location.POSIX, Path: "/target"},
				StateDir: t.TempDir(), Lead: &Coordination{Epoch: first + 1, IsOver: c.isOver},
			}, func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
				if o.Write {
					return &beaten{mem.New(target, mem.Options{}), first}, nil
				}
				return mem.New(source, mem.Options{}), nil
			})
			if err == nil {
				_, err = task.Wait()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("it ended with %v, want %v", err, c.want)
			}
		})
	}
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
