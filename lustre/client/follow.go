package client

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"datamove.dev/lustre"
)

// Follower hands the changes of one feed to its caller, batch by batch, and clears
// them on the server afterwards.
//
// The caller stores the position in the feed together with what a batch changed, in one
// transaction, before [Follower.Run] clears the batch. So each change is handed over at least
// once, and after a crash some are again, from the stored position.
//
// It starts with a full scan: the position is that of [Changes.Last], asked before the scan
// begins, or 0 for a reader that was just registered. When Run ends with
// [lustre.ErrGap], it has to be done again.
type Follower struct {
	Changes lustre.Changes
	Feed    lustre.Feed
	Reader  string // the registered reader: cl1
	// AfterTime is the Time of the record at which a Run begins, as it was stored with its
	// number; zero is not known. A log that was taken away and made again counts from 1,
	// its readers too. Once it has more records than the old one, only the time tells.
	AfterTime time.Time

	BatchRecords int // in one batch, at most; 0 means 1024
	// Settle is how old a record is when it is handed over; 0 means 15 s, less than none
	// does not wait. What an MDT has not yet on its disk it can lose when it crashes, and
	// clients repeat it then, as far as they live: other changes may get the numbers of
	// records that were read already. The disks of both back ends are at most five seconds
	// behind.
	Settle time.Duration
	Pause  time.Duration // between two looks at the end of the log; 0 means 1 s
	Idle   time.Duration // how often the server hears that the reader is alive; 0 means 1 min
	// Seen is told how the reading goes, when it is set.
	Seen func(Progress)
}

// Progress is how far a reader is, as far as that can be said from a client.
type Progress struct {
	After  uint64        // the last record that was handed over and cleared
	Behind time.Duration // how old that record is; 0 at the end of the log
	AtEnd  bool          // nothing was left, but for what was too young
}

// Run calls take for batches of changes until ctx is done, take fails, changes were lost
// (lustre.ErrGap), or the server does not answer: then it can be run again from where it
// stands. after is where that is.
func (f *Follower) Run(ctx context.Context, after uint64, take func(ctx context.Context, batch []lustre.Change) error) error {
	run := &following{Follower: *f, after: after, take: take, cleared: time.Now()}
	if err := run.resume(ctx); err != nil {
		return err
	}
	for {
		if err := run.pass(ctx); err != nil {
			return err
		}
		if err := run.idle(ctx); err != nil {
			return err
		}
	}
}

// following is one Run.
type following struct {
	Follower
	take    func(context.Context, []lustre.Change) error
	after   uint64
	cleared time.Time
	batch   []lustre.Change
	empty   bool          // the last pass saw nothing, not even what was too young
	ahead   time.Duration // how far the server's clock is before ours, as far as was seen
}

// pass reads to the end of the log.
func (f *following) pass(ctx context.Context) (err error) {
	var last lustre.Change
	f.empty = true
	for c, failed := range f.Changes.Read(ctx, f.Feed, f.after) {
		if failed != nil {
			err = failed // what came before it is whole
			break
		}
		f.empty = false
		if f.young(c) {
			break
		}
		f.batch = append(f.batch, c)
		last = c
		if len(f.batch) >= cmp.Or(f.BatchRecords, 1024) {
			if err := f.hand(ctx, Progress{Behind: time.Since(last.Time)}); err != nil {
				return err
			}
		}
	}
	if len(f.batch) > 0 {
		if err := f.hand(ctx, Progress{AtEnd: err == nil}); err != nil {
			return err
		}
	}
	return err
}

// young reports whether a record may still change. A server's clock that goes before ours
// is found out by its records from the future.
func (f *following) young(c lustre.Change) bool {
	age := time.Since(c.Time)
	f.ahead = max(f.ahead, -age)
	return age+f.ahead < cmp.Or(f.Settle, 15*time.Second)
}

// hand gives a batch away, and lets the server forget it.
func (f *following) hand(ctx context.Context, p Progress) error {
	batch := f.batch
	f.batch = nil
	if err := f.take(ctx, batch); err != nil {
		return fmt.Errorf("changes of %s after %d: %w", f.Feed.Name, f.after, err)
	}
	f.after = batch[len(batch)-1].Index
	if err := f.clear(ctx); err != nil {
		return err
	}
	f.tell(p)
	return nil
}

func (f *following) clear(ctx context.Context) error {
	f.cleared = time.Now()
	return f.Changes.Clear(ctx, f.Feed, f.Reader, f.after)
}

func (f *following) tell(p Progress) {
	if p.After = f.after; f.Seen != nil {
		f.Seen(p)
	}
}

// idle waits before the next look. A log without changes is cleared, too: a server
// deregisters readers from which it hears nothing, and forgets what they had not read.
func (f *following) idle(ctx context.Context) error {
	pause := time.NewTimer(cmp.Or(f.Pause, time.Second))
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pause.C:
	}
	if time.Since(f.cleared) < cmp.Or(f.Idle, time.Minute) {
		return nil
	}
	f.tell(Progress{AtEnd: true})
	if f.after == 0 && f.empty {
		return f.registered(ctx)
	}
	return f.clear(ctx)
}
