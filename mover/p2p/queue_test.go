package p2p

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/test/must"
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

// TestBeside: while the source is read, no member is asked more at a time than is read.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := queue{ofAll: readsOfAll, least: readsLeast, limit: readsMost}
		l := lines{reads: &source}
		asks, answer := l.of(line{"n2", true}), make(chan bool)
		enter := func(q *queue, i int) *turn {
			turn, err := q.enter(t.Context(), i, 7)
			must.Tell(t, err)
			return turn
		}
		reads := []*turn{enter(&source, 0), enter(&source, 1)}
		var asked atomic.Int32
		for i := range 10 {
			go func() {
				defer enter(asks, i).pass()
				asked.Add(1)
				<-answer
			}()
		}
		wants := func(what string, n int32) {
			t.Helper()
			synctest.Wait()
			if asked.Load() != n {
				t.Errorf("%s: %d were asked, want %d", what, asked.Load(), n)
			}
		}
		wants("beside two reads", 2)
		answer <- true
		wants("after one answer", 3)
		for _, r := range reads {
			r.done()
		}
		answer <- true
		wants("when nothing is read", 2+asksOfAll/7)
		close(answer)
		wants("in the end", 10)
	})
}
