package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/throttle"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/units"
)

// maxFailures is how many failures a report lists; all are told to the observer.
const maxFailures = 1000

// run is a task at work.
type run struct {
	request  Request
	open     Opener
	log      *slog.Logger
	pairs    []*pair // one, or one for each of Request.Names
	counters transfer.Counters
	begun    time.Time
	done     chan struct{}

	mu       sync.Mutex
	planned  plan.Totals // guarded by mu, as all below
	complete bool        // planned is the whole
	report   Report
	gravest  error
	err      error
	phase    Phase // the last that is no wait
	stopped  bool  // from outside; then err says more than what failed before

	skipped, skippedBytes int64   // released files that were left out
	outward               outward // links that lead out of a tree
	bare                  bare    // objects that the target has without what it does not keep
}

func start(ctx context.Context, r Request, open Opener) (*Task, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	t := &run{request: r, open: open, log: r.Logger, begun: time.Now(), done: make(chan struct{})}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.report.Levels = map[mover.Level]int64{}
	ctx = t.telling(ctx)
	t.state(Locking, "")
	if err := t.openPairs(ctx); err != nil {
		t.closePairs()
		return nil, err
	}
	go func() {
		defer close(t.done)
		defer t.closePairs()
		err := t.all(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.err, t.stopped = err, ctx.Err() != nil
	}()
	return &Task{run: t}, nil
}

// check finds what no place is needed to see.
func (r *Request) check() error {
	usage := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", mover.ErrUsage, fmt.Sprintf(format, args...))
	}
	switch {
	case r.DeleteFirst && !r.Delete:
		return usage("what is removed first is what a sync deletes, and it is to delete nothing")
	case r.Delete && r.Work != Sync:
		return usage("only a sync can delete")
	case r.Jobs < 0 || r.Bandwidth < 0 || r.Memory < 0:
		return usage("jobs, bandwidth and memory can not be negative")
	case r.MaxDelete.Set && (r.MaxDelete.Percent < 0 || r.MaxDelete.Percent > 100 || r.MaxDelete.Entries < 0):
		return usage("the limit of removals is out of range")
	case r.AllowMissingSource && r.Work != Copy:
		return usage("only a copy may have nothing to do because its source is not there")
	case r.Follow && r.Manifest == "" && slices.ContainsFunc(slices.Concat(r.Sources, []location.Location{r.Source}), func(l location.Location) bool { return l.InStore() }):
		return usage("only links of a file system can be followed, and not those of a bucket")
	case len(r.Sources) > 0 && r.Work != Copy:
		return usage("only a copy takes several sources")
	}
	return nil
}

// limit makes what all pairs read within, unless it was given.
func (r *Request) limit() {
	if r.Limiter == nil {
		r.Limiter = throttle.NewBandwidth(r.Bandwidth)
	}
}

func (t *run) openPairs(ctx context.Context) error {
	t.request.limit()
	for i := range max(len(t.request.Sources), 1) {
		src, dst, err := t.request.ends(i)
		if err != nil {
			return err
		}
		p, err := openPair(ctx, &t.request, i, src, dst, t.open)
		if t.request.AllowMissingSource && errors.As(err, new(*lacking)) {
			t.notes("there is nothing at " + src.String())
			continue
		}
		if err != nil {
			return err
		}
		t.pairs = append(t.pairs, p)
		t.notes(p.notes...)
	}
	return nil
}

// ends returns the locations of one pair.
func (r *Request) ends(index int) (src, dst location.Location, err error) {
	if len(r.Sources) == 0 && index == 0 {
		return r.Source, r.Target, nil
	}
	if index < 0 || index >= len(r.Sources) {
		return src, dst, fmt.Errorf("%w: there is no source %d", mover.ErrUsage, index)
	}
	src = r.Sources[index]
	name := src.Base()
	for _, before := range r.Sources[:index] {
		if before.Base() == name {
			name = ""
		}
	}
	if name == "" {
		return src, dst, fmt.Errorf("%w: %s has no name of its own below %s", mover.ErrUsage, src, r.Target)
	}
	return src, r.Target.Child(name), nil
}

func (t *run) closePairs() {
	for _, p := range t.pairs {
		if err := p.close(); err != nil {
			t.log.Warn("close", "place", p.target, "err", err)
		}
	}
}

// all does the pairs one after the other.
func (t *run) all(ctx context.Context) error {
	t.state(Moving, "")
	defer t.leftOut()
	defer t.linksLost()
	defer func() { t.notes(append(t.bare.notes(), t.outward.notes()...)...) }()
	for i, p := range t.pairs {
		err := t.one(ctx, p, i == len(t.pairs)-1)
		t.noted(p.source, p.target)
		if p.humble != nil {
			if note := p.humble.note(); note != "" {
				t.notes(note)
			}
		}
		if err != nil {
			return err
		}
	}
	t.state(Finished, "")
	return nil
}

// one does one pair.
func (t *run) one(ctx context.Context, p *pair, last bool) error {
	if t.request.Work == Verify {
		return t.verify(ctx, p)
	}
	ctx = p.held
	if err := p.openJournal(ctx); err != nil {
		return err
	}
	w := &watch{task: t, pair: p}
	if p.shelf != nil {
		rec, err := newRecorder(p.spoolDir, p.target.Capabilities().FileAndDirShareName)
		if err != nil {
			return err
		}
		defer rec.Close()
		w.recorder = rec
	}
	if err := t.removeFirst(ctx, p, w); err != nil {
		return err
	}
	err := t.transfer(ctx, p, w, last)
	if err != nil && !errors.Is(err, mover.ErrRefused) { // what was not refused is done
		return err
	}
	return errors.Join(err, w.finish(ctx, err == nil))
}

// transfer does the plan of a pair.
func (t *run) transfer(ctx context.Context, p *pair, w *watch, last bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w.ahead = &ahead{pair: p, stop: stop}
	defer w.ahead.end()
	return transfer.Run(ctx, p.source, p.target, t.count(p.fit(ctx, p.diff(ctx), 0, t.tight), last), p.transferOptions(t, w))
}

// tight tells that a target has less room than is needed.
func (t *run) tight(why string) { t.state(Moving, "the run will wait for room: "+why) }

// count sums the plan while it passes.
func (t *run) count(actions iter.Seq2[plan.Action, error], last bool) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for a, err := range actions {
			if err == nil {
				t.mu.Lock()
				t.planned.Add(&a)
				t.mu.Unlock()
			}
			if !yield(a, err) {
				return
			}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.complete = last
	}
}

func (t *run) wait() (Report, error) {
	<-t.done
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Planned = t.planned
	t.report.Elapsed = time.Since(t.begun)
	if t.err != nil && t.stopped {
		return t.report, t.err
	}
	return t.report, Gravest(t.err, t.gravest)
}

func snapshotOf(c *transfer.Counters, b *throttle.Bandwidth) Snapshot {
	s := Snapshot{
		FilesDone: c.Files.Load(), BytesDone: c.Bytes.Load(), Known: c.Known.Load(), Failed: c.Failed.Load(), InFlight: c.InFlight.Load(),
		SourceWait: time.Duration(c.SourceWait.Load()), TargetWait: time.Duration(c.TargetWait.Load()), LinkWait: time.Duration(c.LinkWait.Load()), LimitWait: b.Waited(),
	}
	s.Slowest, s.SlowestSince = c.InWork.Oldest()
	return s
}

func (t *run) snapshot() Snapshot {
	s := snapshotOf(&t.counters, t.request.Limiter)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Planned, s.PlanComplete = t.planned, t.complete
	return s
}

func (t *run) notes(texts ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Notes = append(t.report.Notes, texts...)
}

// noted takes over what places have to tell.
func (t *run) noted(places ...mover.Source) {
	for _, p := range places {
		if n, ok := mover.As[mover.Warner](p); ok {
			t.notes(n.Notes()...)
		}
	}
}

// leftOut notes what was left out, as it was asked for.
func (t *run) leftOut() {
	t.mu.Lock()
	n, bytes := t.skipped, t.skippedBytes
	t.mu.Unlock()
	if n > 0 {
		t.notes(fmt.Sprintf("%s of %s were left out: their content is in the archive only", units.Plural(n, "released file", "released files"), units.Bytes(bytes)))
	}
}

// linksLost notes hard links that were not kept.
func (t *run) linksLost() {
	t.mu.Lock()
	n := t.planned.LinksLost
	t.mu.Unlock()
	if n += t.counters.LinksLost.Load(); n > 0 {
		t.notes(fmt.Sprintf("hard links that are files of their own in the target: %d", n))
	}
}

func (t *run) state(p Phase, why string) {
	if p != Paused && p != Waiting {
		t.mu.Lock()
		t.phase = p
		t.mu.Unlock()
	}
	if t.request.Observer != nil {
		t.request.Observer.State(p, why)
	}
}

// Gravest returns the error that decides how a task ended: a mismatch, that of a source
// first, before a limit, a conflict, a denial, and everything else. Of mismatches that of
// bytes comes first, so that the remedy is one for all.
func Gravest(a, b error) error {
	if gravity(b) > gravity(a) {
		return b
	}
	return a
}

// lighter are causes of differences, each one less grave than that before.
var lighter = []string{"", remedy.Outdated, remedy.Missing, remedy.Metadata, remedy.Extra}

func gravity(err error) int {
	var d *Difference
	switch {
	case err == nil:
		return 0
	case errors.Is(err, mover.ErrCorrupt) && errors.Is(err, mover.ErrUnlike):
		return 10
	case errors.As(err, &d):
		return 9 - slices.Index(lighter, d.cause)
	case errors.Is(err, mover.ErrCorrupt):
		return 9
	case errors.Is(err, mover.ErrFull), errors.Is(err, mover.ErrRefused):
		return 4
	case errors.Is(err, mover.ErrChanged), errors.Is(err, mover.ErrHeld), errors.Is(err, mover.ErrConflict):
		return 3
	case errors.Is(err, mover.ErrPermission):
		return 2
	}
	return 1
}
