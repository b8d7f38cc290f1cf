package s3events

import (
	"cmp"
	"context"
	"encoding/binary"
	"time"

	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
)

// Queue is a queue to which a bucket sends its events: package s3 has one, of AWS.
type Queue interface {
	// Kept is for how long it is sure to keep messages that are not taken. Where it gives up what comes back too often, hidden is after how long a message comes back; else it is 0.
	Kept(ctx context.Context) (kept, hidden time.Duration, err error)
	// Receive waits for some, for that long at most, and tells of names, and why more may have happened than is told. What done was called for comes no more; until then it comes
	// again after a while. more says that there were some.
	Receive(ctx context.Context, wait time.Duration, tell func(name string, at time.Time), lose func(why string)) (done func(context.Context) error, more bool, err error)
}

// Queued is the feed of a bucket with a queue. It has memory, that of the queue: what was not taken comes again. It says All only when it begins, and after a pause that is
// longer than a queue is sure to keep things.
type Queued struct {
	Queue  Queue
	Window time.Duration    // how long names are gathered before they are handed over; 0 means 1 s
	Now    func() time.Time // nil is time.Now
}

const (
	queuePart  = "queue"        // of the mark: when the queue was listened to last, in s since 1970
	queueSure  = 24 * time.Hour // at most that is relied on what a queue keeps; SQS does so for a minute to 14 days, as it was told
	queueWait  = 20 * time.Second
	queueNames = 10_000 // of one batch
	queueMark  = 10 * time.Minute
)

// Run implements changefeed.Feed.
func (q *Queued) Run(ctx context.Context, marks changefeed.Marks, take changefeed.Take) error {
	last, err := marks(queuePart)
	if err != nil {
		return err
	}
	kept, hidden, err := q.Queue.Kept(ctx)
	if err != nil {
		return err
	}
	now := q.now()
	heard := readMark(last)
	if now.Sub(heard) > min(queueSure, kept/2) { // the mark is some minutes old
		if err := take(ctx, changefeed.Batch{All: true, Why: "nobody has listened to the queue for so long that it may have dropped something", Since: now, Marks: mark(now)}); err != nil {
			return err
		}
		heard = now
	}
	begun, settled := now, hidden == 0
	for marked := now; ; {
		back := q.now().Sub(begun) > hidden // what was hidden at the beginning can be received
		b, dones, err := q.gather(ctx)
		if err != nil {
			return err
		}
		now := q.now()
		if settled = settled || back && len(dones) == 1 && b.Events == 0; settled {
			heard = now // else what a run before had received, and not taken, may be on its way to where it is given up
		}
		if b.Marks = mark(heard); b.Events > 0 || settled && now.Sub(marked) >= min(queueMark, kept/4) {
			if err := take(ctx, b); err != nil {
				return err
			}
			marked = now
		}
		for _, done := range dones {
			if err := done(ctx); err != nil {
				return err
			}
		}
	}
}

// gather waits for events, and takes those that come soon after.
func (q *Queued) gather(ctx context.Context) (b changefeed.Batch, dones []func(context.Context) error, err error) {
	names := map[string]bool{}
	tell := func(name string, at time.Time) {
		if b.Events++; !at.IsZero() && (b.Since.IsZero() || at.Before(b.Since)) {
			b.Since = at
		}
		if !changefeed.Ours(name) && !names[name] {
			names[name] = true
			b.Names = append(b.Names, name)
		}
	}
	lose := func(why string) { b.Events, b.All, b.Why = b.Events+1, true, why }
	end := time.Time{}
	for wait := queueWait; ; wait = 0 {
		done, more, err := q.Queue.Receive(ctx, wait, tell, lose)
		if err != nil {
			return b, nil, err
		}
		dones = append(dones, done)
		if end.IsZero() {
			end = q.now().Add(cmp.Or(q.Window, time.Second))
		}
		if !more || len(b.Names) >= queueNames || !q.now().Before(end) {
			return b, dones, nil
		}
	}
}

func (q *Queued) now() time.Time {
	if q.Now != nil {
		return q.Now()
	}
	return time.Now()
}

func mark(at time.Time) []catalog.Mark {
	return []catalog.Mark{{Feed: queuePart, Value: binary.BigEndian.AppendUint64(nil, uint64(at.Unix()))}}
}

// readMark is when the queue was listened to last; the zero time is never.
func readMark(b []byte) time.Time {
	if len(b) != 8 {
		return time.Time{}
	}
	return time.Unix(int64(binary.BigEndian.Uint64(b)), 0)
}
