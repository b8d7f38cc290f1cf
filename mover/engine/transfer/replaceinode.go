package transfer

import (
	"context"
	"errors"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/transfer/feed"
)

// rehoused goes on with a file when another process may still write to its draft unseen.
// It makes a new draft, unless the target tells such parts by their receipts.
func (w *worker) rehoused(ctx context.Context, l *large) error {
	if err := w.r.rehouse(ctx, l); err != nil {
		return w.over(ctx, l, err)
	}
	l.mu.Lock()
	l.lost = false
	left := l.left
	l.mu.Unlock()
	if left == 0 {
		return w.complete(ctx, l)
	}
	w.r.queue.reoffer(l)
	return nil
}

// rehouse moves the parts that are there into a new draft with an inode that no other process
// has open. A part that differs from its receipt is moved again. No worker takes
// parts of l meanwhile.
func (r *run) rehouse(ctx context.Context, l *large) error {
	old, oldID := l.draft, l.id
	there, err := reread(ctx, old)
	if errors.Is(err, mover.ErrUnsupported) {
		return nil // S3: a part that is stored later has another ETag than its receipt
	}
	if err != nil {
		return err
	}
	defer there.Close()
	if err := r.room.Retry(ctx, r.seeker(), func() error { return r.fresh(ctx, l) }); err != nil {
		l.draft, l.id = old, oldID
		return err
	}
	if err := r.copyParts(ctx, l, there); err != nil {
		_ = old.Suspend()
		return err
	}
	if err := old.Close(); err != nil {
		r.log.WarnContext(ctx, "a draft that was given up stays behind", "name", l.entry.Name, "token", old.Token(), "err", err)
	}
	if r.o.Journal == nil || oldID == 0 {
		return nil
	}
	return r.o.Journal.Clear(ctx, oldID)
}

func reread(ctx context.Context, d mover.Draft) (mover.Content, error) {
	rr, ok := mover.As[mover.Rereader](d)
	if !ok {
		return nil, mover.ErrUnsupported
	}
	return rr.Reread(ctx)
}

func (r *run) copyParts(ctx context.Context, l *large, c mover.Content) error {
	f := feed.New(new(Counters).passing(), r.from, r.to) // these bytes have been counted
	defer f.Close()
	l.shared = false
	for i := range l.have {
		if !l.have[i] {
			continue
		}
		was := l.receipts[i]
		f.Reset(ctx, c, sparse(&l.entry), was.Part)
		rec, err := l.draft.WritePart(ctx, was.Part, &f)
		if err == nil {
			err = f.Whole()
		}
		if err != nil && !errors.Is(err, mover.ErrChanged) {
			return err
		}
		if err != nil || f.Sum() != was.CRC {
			r.log.WarnContext(ctx, "a part is not what it was when it was stored; it is moved again", "name", l.entry.Name, "part", i)
			l.spoil(i)
			r.n.Bytes.Add(-was.Length)
			continue
		}
		rec.Part, rec.CRC = was.Part, was.CRC
		l.receipts[i] = rec
		if r.o.Journal != nil {
			if err := r.o.Journal.Part(ctx, l.id, rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// spoil takes back that a part is there.
func (l *large) spoil(i int) {
	l.have[i] = false
	l.left++
	l.free(i)
}
