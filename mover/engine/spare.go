package engine

import (
	"context"
	"iter"
	"strings"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
)

// spare leaves out of a plan the removal of directories in which something lies that a filter leaves out: that stays, and they with it.
// The uppermost directory that goes is listed once more for it, and the names of directories that stay in one of these are held.
func (p *pair) spare(ctx context.Context, actions iter.Seq2[plan.Action, error]) iter.Seq2[plan.Action, error] {
	if p.request.Filter == nil {
		return actions
	}
	return func(yield func(plan.Action, error) bool) {
		top, held := "", map[string]bool(nil)
		for a, err := range actions {
			if err == nil && a.Op == plan.Remove && a.Target.Kind == mover.Dir {
				if name := a.Target.Name; top == "" || !mover.Within(name, top) {
					top, held = name, p.holding(ctx, name)
				}
				if held[a.Target.Name] {
					continue
				}
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

// holding returns a directory of the target and those below it in which the filter leaves something out. Of errors the walk of the plan tells.
func (p *pair) holding(ctx context.Context, top string) map[string]bool {
	var mu sync.Mutex
	held := map[string]bool{}
	skip := func(name string, kind mover.Kind) bool {
		if !p.request.Filter.Skip(name, kind) {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		for dir := name; dir != top && dir != ""; {
			dir, _ = mover.Parent(dir)
			dir = strings.TrimRight(dir, "/") // of a key that is no name
			held[dir] = true
		}
		return true
	}
	for range p.target.Walk(ctx, mover.WalkOptions{Dir: top, Skip: skip, Lazy: true}) {
		// what it leaves out is told to skip
	}
	return held
}
