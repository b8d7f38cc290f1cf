package changefeed

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/catalog"
)

// Follower keeps what a catalog knows of a tree fresh by a feed.
type Follower struct {
	Catalog *catalog.Catalog
	Tree    catalog.Tree
	Source  catalog.Source
	Feed    Feed
	Options Options

	mu       sync.Mutex
	progress Progress             // guarded by mu, like all below
	hands    map[uint64]time.Time // batches that are being taken, and since when it is true what they tell
	handed   uint64
	left     map[string]struct{} // names that could not be looked at
}

// Options says how. The zero value works.
type Options struct {
	Names  int                                     // in one look; 0 means 4096
	Skip   func(name string, kind mover.Kind) bool // is not there for the catalog, as in its scans; a name that is told of is asked for both as a file and as a directory. nil skips nothing
	Retry  time.Duration                           // the first wait after a failure, each further one is twice as long up to a minute; 0 means 200 ms
	Left   time.Duration                           // between two tries of names that could not be looked at; 0 means 1 min
	Logger *slog.Logger                            // nil means no log
}

// Progress is how far a keeper is.
type Progress struct {
	Events  uint64        // that the feed heard of, and that are in the catalog
	Names   uint64        // that were looked at for them
	Batches uint64        // in which they came
	Scans   uint64        // because anything may have happened
	Failed  uint64        // looks and scans that were done again
	Left    int           // names that can not be looked at
	Lag     time.Duration // how long the last batch had waited when it was in the catalog; of one that is on its way, how long it has by now
	At      time.Time     // when the last batch was in the catalog; zero is never
}

// Progress returns how far it is.
func (k *Follower) Progress() Progress {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.progress
	p.Left = len(k.left)
	for _, since := range k.hands {
		p.Lag = max(p.Lag, time.Since(since))
	}
	return p
}

func (k *Follower) log() *slog.Logger {
	return cmp.Or(k.Options.Logger, slog.New(slog.DiscardHandler)).With("tree", k.Tree.String())
}

// Run takes from the feed until ctx is done, or the feed says that it can not be had. Other failures are tried again: a feed that does not answer, a catalog on a full disk, a tree that
// can not be read.
func (k *Follower) Run(ctx context.Context) error {
	state, err := k.Catalog.State(k.Tree)
	if err != nil {
		return err
	}
	marks := func(part string) ([]byte, error) {
		m, err := k.Catalog.Mark(k.Tree, part)
		return m.Value, err
	}
	if state.Scanned.IsZero() { // what the catalog has is not all, whatever was heard since
		marks = func(string) ([]byte, error) { return nil, nil }
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var again sync.WaitGroup
	defer again.Wait()
	defer stop()
	again.Go(func() { k.lookAgain(ctx) })
	for pause := k.pause(); ; {
		before := k.Progress().Batches
		err := k.Feed.Run(ctx, marks, k.take)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, mover.ErrUsage) || errors.Is(err, mover.ErrPermission) {
			return err
		}
		if k.Progress().Batches > before {
			pause = k.pause()
		}
		k.log().WarnContext(ctx, "the feed of changes broke off, and is begun again", "err", err)
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

// pause is a wait that becomes longer.
type pause struct{ next time.Duration }

func (k *Follower) pause() *pause { return &pause{cmp.Or(k.Options.Retry, 200*time.Millisecond)} }

func (p *pause) wait(ctx context.Context) error {
	t := time.NewTimer(p.next)
	defer t.Stop()
	p.next = min(2*p.next, time.Minute)
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// take brings a batch into the catalog.
func (k *Follower) take(ctx context.Context, b Batch) error {
	defer k.begin(&b)()
	all, why := b.All, b.Why
	if !all {
		state, err := k.Catalog.State(k.Tree)
		if err != nil {
			return err
		}
		if all = state.Root == 0; all {
			why = "nothing was scanned yet"
		}
	}
	if all {
		if err := k.scan(ctx, why); err != nil {
			return err
		}
	} else if err := k.lookAll(ctx, k.wanted(b.Names)); err != nil {
		return err
	}
	for _, mark := range b.Marks {
		if err := k.look(ctx, nil, mark); err != nil {
			return err
		}
	}
	if len(b.Marks) > 0 {
		if err := k.again(ctx, "sync", k.Catalog.Sync); err != nil {
			return err
		}
	}
	k.took(&b, all)
	return nil
}

// begin notes that a batch is being taken; what is returned, that it is not any more.
func (k *Follower) begin(b *Batch) (end func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if b.Since.IsZero() {
		b.Since = time.Now()
	}
	if k.hands == nil {
		k.hands = map[uint64]time.Time{}
	}
	k.handed++
	n := k.handed
	k.hands[n] = b.Since
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.hands, n)
	}
}

func (k *Follower) took(b *Batch, scanned bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := &k.progress
	p.Events += uint64(b.Events)
	p.Names += uint64(len(b.Names))
	p.Batches++
	if scanned {
		p.Scans++
	}
	p.At = time.Now()
	p.Lag = p.At.Sub(b.Since)
}

// wanted leaves out what a scan does.
func (k *Follower) wanted(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return Ours(name) || k.skips(name) })
}

// skips asks for a name and all that are above it, because a scan does not go into a directory that is left out.
func (k *Follower) skips(name string) bool {
	if k.Options.Skip == nil {
		return false
	}
	name, dir := cutSlash(name)
	if k.Options.Skip(name, mover.Dir) && (dir || k.Options.Skip(name, mover.File)) {
		return true
	}
	for above, _ := mover.Parent(name); above != ""; above, _ = mover.Parent(above) {
		if k.Options.Skip(above, mover.Dir) {
			return true
		}
	}
	return false
}

func (k *Follower) scan(ctx context.Context, why string) error {
	k.log().InfoContext(ctx, "everything is scanned, because anything may have changed", "why", why)
	k.mu.Lock()
	k.left = nil // they are scanned, too
	k.mu.Unlock()
	return k.again(ctx, "scan", func() error {
		_, err := k.Catalog.Scan(ctx, k.Tree, k.Source, catalog.ScanOptions{Skip: k.Options.Skip})
		return err
	})
}

// again does something until it is done, or the context ends.
func (k *Follower) again(ctx context.Context, what string, do func() error) error {
	for pause := k.pause(); ; {
		err := do()
		if err == nil {
			return nil
		}
		if err := k.failed(ctx, what, err, pause); err != nil {
			return err
		}
	}
}

// failed waits after a failure.
func (k *Follower) failed(ctx context.Context, what string, err error, p *pause) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	k.mu.Lock()
	k.progress.Failed++
	k.mu.Unlock()
	k.log().WarnContext(ctx, "the catalog could not be brought up to date, and this is tried again", "what", what, "in", p.next, "err", err)
	return p.wait(ctx)
}
