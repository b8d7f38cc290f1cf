package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// filled is a place that says how much room it has.
type filled struct {
	mover.Backend
	room func() int64
}

func (f filled) Room(context.Context) (mover.Room, error) {
	return mover.Room{Bytes: f.room(), Files: -1, Why: "it is full"}, nil
}

// TestPlanBehindAFullTarget: a sync with a walk that stands behind a full target ends when what it would remove at its end is all that it waits for.
func TestPlanBehindAFullTarget(t *testing.T) {
	const files, size = 2000, 10
	for _, row := range []struct {
		name     string
		extra    int           // bytes that the source does not have
		room     time.Duration // when there is room; 0 is never
		silent   bool          // the target does not say how much it has, as a bucket
		ends     bool          // by itself, for the removals
		finished bool
	}{
		{"the removals are enough", files * size, 0, false, true, false},
		{"they are not", files*size - 1, 0, false, false, false},
		{"there are none", 0, 0, false, false, false},
		{"others make room before", files * size, 20 * time.Second, false, false, true},
		{"of a bucket, they are enough", files * size, 0, true, true, false},
		{"of a bucket, they may not be", files*size - 1, 0, true, false, false},
		{"of a bucket, there are none", 0, 0, true, false, false},
		{"others make room in a bucket", files * size, 20 * time.Second, true, false, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, target := mem.NewTree(), mem.NewTree().Files(map[string]string{"zextra": strings.Repeat("e", row.extra)})
				for i := range files {
					source.Files(map[string]string{fmt.Sprintf("f%04d", i): strings.Repeat("x", size)})
				}
				begun := time.Now()
				room := func() int64 {
					if row.room == 0 || time.Since(begun) < row.room {
						return 0
					}
					return files * size
				}
				to := faulty.New(mem.New(target, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
					if c.Op == faulty.Draft && room() == 0 {
						return faulty.Full
					}
					return faulty.None
				}})
				ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
				defer stop()
				open := func(_ context.Context, l location.Location, _ OpenOptions) (mover.Backend, error) {
					if l.Bucket == "source" {
						return mem.New(source, mem.Options{}), nil
					}
					if row.silent {
						return to, nil
					}
					return filled{to, room}, nil
				}
				r := Request{
					Work: Sync, Delete: true, StateDir: t.TempDir(), Jobs: 1,
					Source: location.Location{Scheme: location.S3, Bucket: "source"}, Target: location.Location{Scheme: location.S3, Bucket: "target"},
				}
				task := must.Get(Start(ctx, r, open))(t)
				_, err := task.Wait()
				if ended := errors.Is(err, mover.ErrFull) && strings.Contains(err.Error(), removesFirst) && strings.Contains(err.Error(), "19.5 KiB are to be written"); ended != row.ends || (err == nil) != row.finished {
					t.Errorf("after %v: %v", time.Since(begun), err)
				}
			})
		})
	}
}
