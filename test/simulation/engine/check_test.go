package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/manifest"
)

func (w *world) sourceParallel() mover.Capabilities {
	return mem.New(w.source, w.sourceOptions).Capabilities()
}

// check looks at what one run said.
func (r *running) check() {
	w := r.world
	if r.dead() {
		return
	}
	if r.err == nil && r.told.failures() == 0 && !w.changed.Load() {
		r.equal()
	}
	if errors.Is(r.err, mover.ErrUsage) {
		w.t.Errorf("run %d: the engine misused a place: %v", r.number, r.err)
	}
	for _, res := range r.told.all {
		if errors.Is(res.err, mover.ErrUsage) {
			w.t.Errorf("run %d: the engine misused a place: %v", r.number, res.err)
		}
	}
}

// story is what happened, for the person who looks at a failure.
func (r *running) story() {
	w := r.world
	var failed []string
	for _, f := range r.told.failed {
		if !strings.Contains(f, "not removed, because") {
			failed = append(failed, f)
		}
	}
	w.t.Logf("run %d ended with %v; failures %q", r.number, r.err, failed)
	w.t.Logf("delete %v, compared by %v, level %v, jobs %d, objects %v -> %v", w.delete, w.compareBy, w.level, w.jobs,
		w.sourceOptions.ObjectStore, w.targetOptions.ObjectStore)
	w.t.Logf("source has %v", names(w.t, w.source, w.sourceOptions))
	w.t.Logf("target has %v", names(w.t, w.target, w.targetOptions))
	w.t.Logf("source %+v: %v", r.from.Capabilities(), r.from.Injected())
	w.t.Logf("target %+v: %v", r.to.Capabilities(), r.to.Injected())
}

// equal compares the trees by content and by all facts that both can keep. What the target could not have in this run is as the run
// has told of it.
func (r *running) equal() {
	w, ctx := r.world, context.Background()
	from, to := mem.New(w.source, w.sourceOptions), mem.New(w.target, w.targetOptions)
	o := plan.Options{Delete: w.delete, CompareBy: plan.ByContent, Both: w.targetOptions.ObjectStore, TargetKeeps: to.Capabilities().Keeps, Times: to.Capabilities().Times}
	var unlinked int64
	for a, err := range plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), o) {
		if err == nil && a.Op == plan.Compare {
			a, err = compare.Resolve(ctx, from, to, a, o, nil)
		}
		// A listing of objects in memory does not tell where a link leads, so it is made anew.
		if link := a.Source.Kind == mover.Symlink && (w.sourceOptions.ObjectStore || w.targetOptions.ObjectStore); link && err == nil {
			continue
		}
		switch {
		case err == nil && a.Op == plan.Keep:
			continue
		case err == nil && a.Op == plan.Link && r.unable(a.Name()): // a file of its own
			sole := a
			sole.Link = ""
			a, err = compare.Resolve(ctx, from, to, sole, o, nil)
			unlinked++
		case err == nil && a.Op == plan.Create && a.Source.Kind.Special():
			if a.Source, err = from.Stat(ctx, a.Name()); err == nil { // a listing tells less
				a = r.listed(a, o)
			}
		}
		if err != nil || a.Op != plan.Keep {
			w.t.Errorf("the run said that all is there, and %q: %v (%s) %v", a.Name(), a.Op, a.Why, err)
		}
	}
	if unlinked > r.linksLost {
		w.t.Errorf("run %d: %d hard links are files of their own, and it told of %d", r.number, unlinked, r.linksLost)
	}
}

// unable reports whether the target could not have in this run what it was to be given by a name.
func (r *running) unable(name string) bool {
	return slices.ContainsFunc(r.to.Injected(), func(i faulty.Injected) bool {
		return i.Op == faulty.Draft && i.Fault == faulty.Unsupported && i.Name == name
	})
}

// listed decides about a special file that a bucket has no object of: it is as the manifest says. TestEngine has no manifest, so each run
// of it tells of such a file again.
func (r *running) listed(a plan.Action, o plan.Options) plan.Action {
	w := r.world
	if w.targetOptions.ObjectStore && w.stateDir == "" && r.unable(a.Name()) {
		a.Op = plan.Keep
		return a
	}
	m := w.manifest.Load()
	if m == nil {
		return a
	}
	for e, err := range manifest.Entries(bytes.NewReader(*m)) {
		if err != nil {
			w.t.Errorf("the manifest: %v", err)
		} else if mover.Compare(&e, &a.Source) == 0 {
			return o.Resolve(a, a.Source, e)
		}
	}
	return a
}

// ended checks that nothing is left beside the entries.
func (w *world) ended() {
	place := mem.New(w.target, w.targetOptions)
	defer place.Close()
	for _, err := range place.Walk(context.Background(), mover.WalkOptions{Stray: func(s mover.Stray) {
		if s.Name == "" || !w.orphaned[s.Name] {
			w.t.Errorf("a draft is left: %+v", s)
		}
	}}) {
		if err != nil {
			w.t.Error(err)
		}
	}
	if _, _, err := place.Lock(context.Background(), "", mover.WriterID{Task: "after", Epoch: 1}); err != nil {
		w.t.Errorf("a lock is left: %v", err)
	}
}

// idle checks that a run after a clean one changed nothing.
func (r *running) idle() {
	for _, res := range r.told.all {
		if res.moved || res.err != nil {
			r.world.t.Errorf("a second run had to do %q again: %v", res.name, res.err)
		}
	}
}

func names(t testing.TB, tree *mem.Tree, o mem.Options) (all []string) {
	for _, e := range entries(t, tree, o) {
		all = append(all, fmt.Sprintf("%v:%s:%d", e.Kind, e.Name, e.Size))
	}
	return all
}
