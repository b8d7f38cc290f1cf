package engine

import (
	"context"
	"iter"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/journal"
)

// lazyJournal opens the journal when there is something to read or to write: most
// copies are over before they need one. It is a transfer.Journal.
type lazyJournal struct {
	dir  string
	opts journal.Options

	mu   sync.Mutex
	open *journal.Journal // guarded by mu

	once sync.Once
	left map[mover.Token]bool // what an earlier run left; set by once
}

func newJournal(dir string, o journal.Options) *lazyJournal { return &lazyJournal{dir: dir, opts: o} }

// get opens the journal; when need is false only if there is one.
func (l *lazyJournal) get(need bool) (*journal.Journal, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil || !need && !journal.Exists(l.dir) {
		return l.open, nil
	}
	var err error
	l.open, err = journal.Open(l.dir, l.opts)
	return l.open, err
}

func (l *lazyJournal) Begin(ctx context.Context, r journal.Record) (uint64, error) {
	j, err := l.get(true)
	if err != nil {
		return 0, err
	}
	return j.Begin(ctx, r)
}

func (l *lazyJournal) Part(ctx context.Context, id uint64, r mover.Receipt) error {
	j, err := l.get(true)
	if err != nil {
		return err
	}
	return j.Part(ctx, id, r)
}

// adopt takes over what a lead on another host has left.
func (l *lazyJournal) adopt(ctx context.Context, r journal.Record) (uint64, error) {
	j, err := l.get(true)
	if err != nil {
		return 0, err
	}
	l.needs("") // what was here comes first
	if r.Token != "" {
		l.left[r.Token] = true
	}
	return j.Adopt(ctx, r)
}

// Share implements transfer.Journal.
func (l *lazyJournal) Share(ctx context.Context, id uint64) error {
	j, err := l.get(true)
	if err != nil {
		return err
	}
	return j.Share(ctx, id)
}

// Mark implements transfer.Journal.
func (l *lazyJournal) Mark() journal.Mark {
	j, err := l.get(false)
	if err != nil || j == nil {
		return 0
	}
	return j.Mark()
}

func (l *lazyJournal) DurableUpTo(ctx context.Context, m journal.Mark, ids ...uint64) error {
	j, err := l.get(true)
	if err != nil {
		return err
	}
	return j.DurableUpTo(ctx, m, ids...)
}

func (l *lazyJournal) Stage(ctx context.Context, batch []journal.Record) (uint64, error) {
	j, err := l.get(true)
	if err != nil {
		return 0, err
	}
	return j.Stage(ctx, batch)
}

func (l *lazyJournal) Clear(ctx context.Context, ids ...uint64) error {
	j, err := l.get(true)
	if err != nil {
		return err
	}
	return j.Clear(ctx, ids...)
}

// Lookup implements transfer.Journal. A journal that can not be opened was
// noticed by load before.
func (l *lazyJournal) Lookup(name string) (journal.Record, uint64, bool) {
	j, err := l.get(false)
	if err != nil || j == nil {
		return journal.Record{}, 0, false
	}
	return j.Lookup(name)
}

func (l *lazyJournal) Left(ctx context.Context) iter.Seq2[uint64, journal.Record] {
	j, err := l.get(false)
	if err != nil || j == nil {
		return func(func(uint64, journal.Record) bool) {}
	}
	return j.Left(ctx)
}

// load opens the journal of an earlier run, if there is one.
func (l *lazyJournal) load() error {
	_, err := l.get(false)
	return err
}

// close ends the use; with remove nothing is kept.
func (l *lazyJournal) close(remove bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return nil
	}
	j := l.open
	l.open = nil
	if remove {
		return j.Remove()
	}
	return j.Close()
}

// wanted says whether an earlier run had begun a draft of this name.
func (l *lazyJournal) wanted(name string) bool {
	_, _, ok := l.Lookup(name)
	return ok
}

// needs says whether the journal will take over the draft of this token.
func (l *lazyJournal) needs(t mover.Token) bool {
	l.once.Do(func() {
		l.left = map[mover.Token]bool{}
		for _, r := range l.Left(context.Background()) {
			l.left[r.Token] = true
		}
	})
	return l.left[t]
}
