package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
)

// watch is the transfer.Observer of one pair: it counts for the report, tells the
// request's observer, and records what the manifest will say.
type watch struct {
	task     *run
	pair     *pair
	recorder *recorder // nil where the target needs no manifest
	ahead    *ahead    // looks at the plan while the run waits for room
}

// Result implements transfer.Observer.
func (w *watch) Result(res transfer.Result) {
	w.count(&res)
	if w.recorder != nil && !res.Skipped {
		w.recorder.add(&res)
	}
	if o := w.task.request.Observer; o != nil && (res.Op != plan.Keep && res.Entry.Name != "" || res.Err != nil) {
		o.Item(itemOf(&res))
	}
}

func itemOf(res *transfer.Result) Item {
	it := Item{Name: cmp.Or(res.Entry.Key, res.Entry.Name), Op: res.Op, Kind: res.Entry.Kind, Why: res.Why, Err: res.Err}
	if res.Entry.Kind == mover.File {
		it.Bytes = res.Entry.Size
	}
	if res.Entry.Kind == mover.File && res.Op != plan.Remove {
		it.Level = res.Level
		it.CRC, it.HasCRC = res.Entry.CRC, res.Entry.Known.Has(mover.FactCRC)
	}
	return it
}

func (w *watch) count(res *transfer.Result) {
	t := w.task
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.report
	if res.Err == nil {
		t.outward.add(res.Op, &res.Entry)
	}
	verify := t.request.Work == Verify
	if res.Err == nil && (res.Op == plan.Create || res.Op == plan.Replace || verify && res.Op == plan.Keep && res.Entry.Name != "") {
		target := w.pair.target.Capabilities()
		if w.recorder != nil || verify && target.NeedsManifest { // it becomes a manifest, or is in it
			target.Keeps |= mover.FactXattrs
		}
		t.bare.add(&res.Entry, &target)
	}
	switch {
	case res.Skipped:
		t.skipped++
		t.skippedBytes += res.Entry.Size
	case res.Err != nil:
		r.Failed++
		t.gravest = Gravest(t.gravest, res.Err)
		if len(r.Failures) < maxFailures {
			r.Failures = append(r.Failures, itemOf(res))
		}
	case res.Entry.Name == "": // the root: no plan names it
	case res.Op == plan.Keep:
		r.Kept++
	case res.Op == plan.Update:
		r.Updated++
	case res.Op == plan.Remove:
		r.Removed++
	case res.Entry.Kind == mover.File && res.Op != plan.Link:
		r.Files++
		r.Bytes += res.Entry.Size
		r.Levels[res.Level]++
	default:
		r.Others++
	}
}

// Paused implements transfer.Observer.
func (w *watch) Paused(why error) {
	switch {
	case w.ahead == nil:
	case waitsForRoom(why, &w.task.request):
		w.ahead.waits(w.pair.held)
	case why == nil:
		w.ahead.goesOn()
	}
	phase, text := pausing(why, &w.task.request)
	w.task.state(phase, text)
}

// pausing is the phase of a run that waits, and its reason: for room, or for what is to come; nil goes on.
func pausing(why error, r *Request) (phase Phase, text string) {
	switch {
	case why == nil:
		return Moving, ""
	case !errors.Is(why, mover.ErrFull):
		return Waiting, why.Error()
	case waitsForRoom(why, r):
		return Paused, why.Error() + "; what the source does not have is removed only at the end: " + removesFirst
	}
	return Paused, why.Error()
}

// Step implements transfer.Observer.
func (w *watch) Step(name string) { w.task.state(Phase(name), "") }

// finish writes the manifest, and forgets the journal when the whole of the plan is
// done and nothing failed.
func (w *watch) finish(ctx context.Context, whole bool) error {
	if w.recorder != nil {
		if err := w.pair.writeManifest(ctx, w.recorder); err != nil {
			return fmt.Errorf("write the manifest: %w", err)
		}
	}
	w.task.mu.Lock()
	clean := whole && w.task.report.Failed == 0
	w.task.mu.Unlock()
	return w.pair.completed(ctx, clean)
}
