package main

import (
	"go/parser"
	"go/token"
	"slices"
	"testing"

	"datamove.dev/test/level"
	"datamove.dev/test/must"
)

// All packages of the module run on one level, each once.
func TestPlan(t *testing.T) {
	all := must.Get(list("../.."))(t)
	times := map[string]int{}
	raced := map[string]bool{}
	for _, of := range []level.Level{level.Hermetic, level.System, level.Soak} {
		batches, others, err := plan(of, all, true, false)
		must.Do(t, err)
		n := 0
		for _, b := range batches {
			n += len(b.packages)
			for _, p := range b.packages {
				times[p]++
				raced[p] = b.race
				folder := p[min(len(p), len("datamove.dev/")):]
				if starts := of != level.Hermetic || level.Builds(folder); starts != b.fresh {
					t.Errorf("%s may be cached: %v", p, !b.fresh)
				}
				if b.memory != (of == level.Hermetic && !level.Disk(folder)) {
					t.Errorf("%s has its files in memory: %v", p, b.memory)
				}
			}
		}
		if n+others != len(all) || n == 0 {
			t.Errorf("%s: %d of %d packages, and %d others", of, n, len(all), others)
		}
	}
	for _, p := range all {
		if times[p.ImportPath] != 1 {
			t.Errorf("%s runs %d times", p.ImportPath, times[p.ImportPath])
		}
	}
	for p, want := range map[string]bool{"mover/engine/transfer": true, "mover/coordinator": true, "mover/engine/plan": false, "cmd/datamove/root": false, "test/crash": false} {
		if got, ok := raced["datamove.dev/"+p]; !ok || got != want {
			t.Errorf("%s with the race detector: %v", p, got)
		}
	}
}

func TestStartsGoroutines(t *testing.T) {
	for _, row := range []struct {
		body string
		want bool
	}{
		{"go f()", true}, {"if true { var g errgroup.Group; g.Go(f) }", true}, {"time.AfterFunc(0, f)", true}, {"f()", false}, {"x.Goes()", false},
	} {
		file := must.Get(parser.ParseFile(token.NewFileSet(), "", "package p; func _() { "+row.body+" }", 0))(t)
		if got := startsGoroutines(file); got != row.want {
			t.Errorf("%s: %v", row.body, got)
		}
	}
	if slices.Contains([]level.Level{level.Of("mover/engine/plan"), level.Of("test/vmx")}, level.System) || level.Of("test/vm/guests") != level.Soak {
		t.Error("a level is inherited by the wrong folders")
	}
}
