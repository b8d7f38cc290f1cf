package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// TestFinishedDraftsMakeRoom: each file of a sync has room, but not all beside what they
// replace. What is finished is published when the next one finds no room.
func TestFinishedDraftsMakeRoom(t *testing.T) {
	const files, old, spare = 40, 10_000, 12_000
	together := func(*mover.Capabilities) {}
	apart := func(t *mover.Capabilities) { t.BatchFiles = 1 }
	later := func(t *mover.Capabilities) { t.CommitBytes, t.CommitEvery = 1<<20, time.Hour }
	for name, row := range map[string]struct {
		jobs   int
		wait   bool
		dir    bool // a new directory is built among them
		adjust []func(*mover.Capabilities)
	}{
		"one batch":                          {jobs: 1, adjust: []func(*mover.Capabilities){together}},
		"one batch, waiting":                 {jobs: 1, wait: true, adjust: []func(*mover.Capabilities){together}},
		"one batch around a new directory":   {jobs: 1, dir: true, adjust: []func(*mover.Capabilities){together}},
		"batches":                            {jobs: 4, adjust: []func(*mover.Capabilities){func(t *mover.Capabilities) { t.BatchFiles = 5 }}},
		"a committer":                        {jobs: 1, adjust: []func(*mover.Capabilities){apart, later}},
		"a committer, waiting":               {jobs: 1, wait: true, adjust: []func(*mover.Capabilities){apart, later}},
		"a committer and its batches":        {jobs: 1, dir: true, adjust: []func(*mover.Capabilities){later}},
		"a committer of several workers":     {jobs: 4, adjust: []func(*mover.Capabilities){apart, later}},
		"a committer of workers and batches": {jobs: 4, dir: true, adjust: []func(*mover.Capabilities){func(t *mover.Capabilities) { t.BatchFiles = 5 }, later}},
	} {
		t.Run(name, func(t *testing.T) {
			source, target, sizes := mem.NewTree(), mem.NewTree(), map[string]int64{}
			for i := range files {
				name := fmt.Sprintf("x%02d", i)
				source.Files(map[string]string{name: strings.Repeat("n", old+1)})
				target.Files(map[string]string{name: strings.Repeat("o", old)})
				sizes[name] = old
			}
			if row.dir {
				source.Files(map[string]string{"x10d/a": strings.Repeat("d", 500), "x10d/e/b": strings.Repeat("d", 500)})
			}
			place := mem.New(target, mem.Options{Adjust: func(t *mover.Capabilities) {
				for _, a := range row.adjust {
					a(t)
				}
			}})
			to := &narrow{Backend: place, left: spare, sizes: sizes}
			j := must.Get(journal.Open(t.TempDir(), journal.Options{}))(t)
			defer j.Close()
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			res, from := impatient{new(results), stop}, mem.New(source, mem.Options{})
			actions := plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), plan.Options{})
			err := transfer.Run(ctx, from, to, actions, transfer.Options{By: by, Observer: res, Journal: j, Jobs: row.jobs, FailFull: !row.wait})
			if f := res.failed(); err != nil || f != nil {
				t.Fatalf("the run ended with %v, failed %q", err, f)
			}
			if to.full == 0 && row.jobs == 1 { // several may never meet
				t.Error("nothing has found that there is no room")
			}
			same(t, source, target, mem.Options{})
			for _, r := range j.Left(t.Context()) {
				t.Errorf("the journal still has %+v", r)
			}
		})
	}
}

// impatient ends a run that would wait for room.
type impatient struct {
	*results
	stop context.CancelCauseFunc
}

func (o impatient) Paused(why error) { o.stop(fmt.Errorf("paused: %w", why)) }

// narrow is a place with limited room, which drafts use as well as what is visible.
type narrow struct {
	*mem.Backend
	mu    sync.Mutex
	left  int64            // guarded by mu, as all below
	sizes map[string]int64 // of what is visible
	full  int              // writes that have found no room
}

func (p *narrow) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	if in, ok := h.In.(*narrowDraft); ok {
		h.In = in.Draft
	}
	d, err := p.Backend.Draft(ctx, e, h)
	if err != nil {
		return nil, err
	}
	return &narrowDraft{Draft: d, place: p, name: e.Name}, nil
}

func (p *narrow) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	inner := make([]mover.Draft, len(batch))
	for i, d := range batch {
		inner[i] = d.(*narrowDraft).Draft
	}
	out := p.Backend.Publish(ctx, inner)
	for i, d := range batch {
		if out[i].Err == nil {
			d.(*narrowDraft).published()
		}
	}
	return out
}

// take is an error when so many bytes have no room.
func (p *narrow) take(n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < n {
		p.full++
		return mover.ErrFull
	}
	p.left -= n
	return nil
}

type narrowDraft struct {
	mover.Draft
	place *narrow
	name  string
	size  int64 // guarded by place.mu
}

func (d *narrowDraft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	if err := d.place.take(p.Length); err != nil {
		return mover.Receipt{}, err
	}
	d.place.mu.Lock()
	d.size += p.Length
	d.place.mu.Unlock()
	return d.Draft.WritePart(ctx, p, f)
}

func (d *narrowDraft) published() {
	d.place.mu.Lock()
	defer d.place.mu.Unlock()
	d.place.left += d.place.sizes[d.name]
	d.place.sizes[d.name], d.size = d.size, 0
}

func (d *narrowDraft) Close() error {
	d.place.mu.Lock()
	d.place.left += d.size
	d.size = 0
	d.place.mu.Unlock()
	return d.Draft.Close()
}
