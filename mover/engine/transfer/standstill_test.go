package transfer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/backend/throttle"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
)

// TestStandstill: an entry with calls that stand still holds back none that is finished, and none behind it.
func TestStandstill(t *testing.T) {
	flat := map[string]string{"a": "1", "b": "22", "c": "333", "d": "4444"}
	deep := map[string]string{"d/a": "1", "d/b": "22", "d/c": "333", "e": "4"}
	slow := strings.Repeat("s", 8000)
	read := func(name string) func(faulty.Call) bool {
		return func(c faulty.Call) bool { return c.Op == faulty.Read && c.Name == name }
	}
	always := func(times int, is func(faulty.Call) bool) faulty.Options {
		return faulty.Options{Script: func(c faulty.Call) faulty.Fault {
			if is(c) && c.Nth < times {
				return faulty.Stalled
			}
			return faulty.None
		}}
	}
	for name, row := range map[string]struct {
		source, target map[string]string
		from, to       func(faulty.Call) bool
		times          int
		plan           plan.Options
		rate           int64         // bytes per second; 0 is no limit
		within         time.Duration // in which all others are there
		least          int           // of them, by then
		stays          string        // what is not there at the end
	}{
		"the body of one":           {source: flat, from: read("b"), times: 1, within: 15 * time.Second, least: 3},
		"the body of one, for ever": {source: flat, from: read("b"), times: 1 << 30, within: 15 * time.Second, least: 3, stays: "b"},
		"the first of a batch":      {source: flat, from: read("a"), times: 1, within: 15 * time.Second, least: 3},
		"in a new directory":        {source: deep, from: read("d/b"), times: 1 << 30, within: 15 * time.Second, least: 3, stays: "d/b"},
		"an opening":                {source: flat, from: func(c faulty.Call) bool { return c.Op == faulty.Open && c.Name == "c" }, times: 1, within: 15 * time.Second, least: 3},
		"a draft":                   {source: flat, to: func(c faulty.Call) bool { return c.Op == faulty.Draft && c.Name == "b" }, times: 1, within: 15 * time.Second, least: 3},
		"a write":                   {source: flat, to: func(c faulty.Call) bool { return c.Op == faulty.Write && c.Name == "b" }, times: 1, within: 15 * time.Second, least: 3},
		"a comparison of contents":  {source: flat, target: map[string]string{"a": "0", "b": "00", "c": "000", "d": "0000"}, plan: plan.Options{CompareBy: plan.ByContent}, from: read("b"), times: 1, within: 15 * time.Second, least: 3},
		"all are slow":              {source: map[string]string{"a": slow, "b": slow, "c": slow, "d": slow}, rate: int64(len(slow) / 8), within: 25 * time.Second, least: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				source, target := mem.NewTree().Files(row.source), mem.NewTree().Files(row.target)
				none := func(faulty.Call) bool { return false }
				if row.from == nil {
					row.from = none
				}
				if row.to == nil {
					row.to = none
				}
				from := throttle.Source(faulty.New(mem.New(source, mem.Options{}), always(row.times, row.from)), throttle.NewBandwidth(row.rate))
				to := faulty.New(mem.New(target, mem.Options{}), always(row.times, row.to))
				told := &timely{began: time.Now(), at: map[string]time.Duration{}}
				actions := plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), row.plan)
				err := transfer.Run(ctx, from, to, actions, transfer.Options{By: by, Observer: told, Plan: row.plan, Jobs: 1})
				if (err != nil) != (row.stays != "") {
					t.Fatalf("the run ended with %v", err)
				}
				if n := told.by(row.within); len(n) < row.least {
					t.Errorf("after %v there are %q", row.within, n)
				}
				if row.stays == "" {
					same(t, source, target, mem.Options{})
				}
			})
		})
	}
}

// TestAllStandStill: where nothing moves at all, calls get their whole patience after a few.
func TestAllStandStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		source := mem.NewTree()
		for i := range 60 {
			source.Files(map[string]string{fmt.Sprintf("f%02d", i): "x"})
		}
		from := faulty.New(mem.New(source, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
			if c.Op == faulty.Read {
				return faulty.Stalled
			}
			return faulty.None
		}})
		to := mem.New(nil, mem.Options{})
		actions := plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), plan.Options{})
		err := transfer.Run(ctx, from, to, actions, transfer.Options{By: by, Jobs: 1})
		if n := len(from.Injected()); err == nil || n != 9 {
			t.Errorf("%v, and %d calls were waited for", err, n)
		}
	})
}

// timely remembers when contents were there.
type timely struct {
	results
	began time.Time
	mu    sync.Mutex
	at    map[string]time.Duration // guarded by mu
}

func (o *timely) Result(res transfer.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if res.Err == nil {
		o.at[res.Entry.Name] = time.Since(o.began)
	}
}

// by returns what was there after so long.
func (o *timely) by(within time.Duration) (names []string) {
	for name, at := range o.at {
		if at <= within && !strings.HasSuffix(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
