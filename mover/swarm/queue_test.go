package swarm

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestQueue: of a slow source few pieces are read at a time, in the order of the tree; of a quick one many.
func TestQueue(t *testing.T) {
	for _, row := range []struct {
		what        string
		took        time.Duration
		shared      bool // it takes as much longer as there are at a time
		least, most int
	}{
		{"far", time.Second, false, 8, 8},
		{"neither", 150 * time.Millisecond, false, 8, 8},
		{"quick", time.Millisecond, false, 32, readsMost},
		{"one slow link", 300 * time.Millisecond, true, 1, 2},
	} {
		t.Run(row.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queue{ofAll: readsOfAll, least: readsLeast, limit: readsMost, pace: new(pace)}
				var mu sync.Mutex
				type read struct {
					at    time.Time
					index int
				}
				var order []read
				inside := 0
				var all sync.WaitGroup
				gone, cancel := context.WithCancel(t.Context())
				for i := range 200 {
					all.Go(func() {
						ctx, index := t.Context(), 199-i
						if i%10 == 9 {
							ctx = gone
						}
						turn, err := q.enter(ctx, index, 4)
						if err != nil {
							if !errors.Is(err, context.Canceled) {
								t.Error(err)
							}
							return
						}
						mu.Lock()
						order = append(order, read{time.Now(), index})
						inside++
						took := row.took
						if row.shared {
							took *= time.Duration(inside)
						}
						mu.Unlock()
						time.Sleep(took)
						mu.Lock()
						inside--
						mu.Unlock()
						turn.done()
					})
					synctest.Wait()
				}
				cancel()
				all.Wait()
				slices.SortFunc(order, func(a, b read) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.index, b.index)) })
				if !slices.IsSortedFunc(order[8:], func(a, b read) int { return cmp.Compare(a.index, b.index) }) {
					t.Errorf("they were read in the order %v", order)
				}
				if q.inside != 0 || len(q.waiting) != 0 || q.most() < row.least || q.most() > row.most {
					t.Errorf("%d are read, %d wait, and %d may be read at a time; want %d to %d", q.inside, len(q.waiting), q.most(), row.least, row.most)
				}
			})
		})
	}
}
