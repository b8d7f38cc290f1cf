package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/link"
	"datamove.dev/tiering/burst/pricing"
)

// Estimate looks at what a burst has to send, and says what it will take, and whether it is admitted. Nothing is changed, and nothing is paid for.
func (l *Manager) Estimate(ctx context.Context, b *burst.Burst) (e burst.Estimate, by burst.Admitted, err error) {
	if e, err = link.Estimate(ctx, b, l.Way.Measure, l.Find, l.Book, l.now()); err != nil {
		return e, by, err
	}
	return e, l.Rules.Admit(b, e.Bytes), nil
}

// allowed refuses a burst with data that may not be where it is to be, or with a bucket elsewhere, before a byte is sent.
func (w *work) allowed(ctx context.Context) error {
	if err := w.burst.Residency(); err != nil {
		return err
	}
	where, err := w.Where(ctx)
	if err != nil {
		return err
	}
	if declared := w.burst.Spec.Cloud.Region; where != declared {
		return fmt.Errorf("%w: bucket %s is in %s, and spec.cloud.region is %s: name a tier whose bucket is there", mover.ErrRefused, w.Bucket, where, declared)
	}
	return nil
}

// Up brings a burst up, or goes on with it: it is admitted, its money is reserved, its data staged, its file system made and joined to the bucket. The bytes go first: over the link they take longest, and a file
// system costs by the hour. r is its record, nil where there is none or the last one is over; what is returned is the record now.
func (l *Manager) Up(ctx context.Context, b *burst.Burst, r *burst.Record) (*burst.Record, error) {
	w := &work{l, r, b}
	if err := w.allowed(ctx); err != nil {
		return r, err
	}
	if r == nil || r.State.Ended() {
		return w.fresh(ctx)
	}
	if r.State == burst.Leaving {
		return r, fmt.Errorf("%w: burst %s is being taken down: datamove burst down goes on with that", mover.ErrConflict, b.Metadata.Name)
	}
	if err := w.amend(ctx); err != nil {
		return r, err
	}
	return r, w.ended(w.rise(ctx))
}

// fresh admits a burst of which nothing is there, and brings it up.
func (w *work) fresh(ctx context.Context) (*burst.Record, error) {
	estimate, by, err := w.Estimate(ctx, w.burst)
	if err != nil {
		return nil, err
	}
	if err := by.Err(); err != nil {
		return nil, err
	}
	if err := w.alone(ctx); err != nil {
		return nil, err
	}
	w.record = burst.Begin(w.burst, w.Owner, by, w.now())
	if err := w.begin(ctx, estimate); err != nil {
		return w.record, err
	}
	return w.record, w.ended(w.rise(ctx))
}

// amend takes over what has changed in a declaration, and reserves what it costs more.
func (w *work) amend(ctx context.Context) error {
	was, err := w.record.Burst()
	if err != nil {
		return err
	}
	if w.burst.Text == w.record.Declaration && w.record.Reserved > 0 {
		return nil
	}
	if err := w.burst.Amend(was); err != nil {
		return err
	}
	estimate, _, err := w.Estimate(ctx, w.burst)
	if err != nil {
		return err
	}
	if more := estimate.Bill.Total - w.record.Reserved; more > 0 {
		if err := w.reserve(ctx, more, "estimate of "+string(w.burst.Metadata.Name)); err != nil {
			return err
		}
	}
	if err := w.retag(ctx); err != nil {
		return err
	}
	w.record.Declaration = w.burst.Text
	return w.keep()
}

// retag has a file system that is there say when it is meant to be over now.
func (w *work) retag(ctx context.Context) error {
	f := w.record.FileSystem
	if f == nil || f.ID == "" || f.Gone {
		return nil
	}
	fs, err := w.Cloud.FileSystem(ctx, f.ID)
	if err != nil {
		return err
	}
	return w.Cloud.Tag(ctx, fs.ARN, w.record.Until(w.burst))
}

// begin reserves the money of a new burst. A burst that gets none is over.
func (w *work) begin(ctx context.Context, e burst.Estimate) error {
	if err := w.keep(); err != nil {
		return err
	}
	w.tell("%s is admitted by rule %s, and is about %v", w.burst.Metadata.Name, w.record.Admitted.By, e.Bill.Total)
	err := w.reserve(ctx, e.Bill.Total, "estimate of "+string(w.burst.Metadata.Name))
	if !errors.Is(err, mover.ErrRefused) && !errors.Is(err, mover.ErrPermission) {
		return w.ended(err) // what the ledger did is not known where it failed: the next one reserves the same once
	}
	w.record.Trouble = err.Error()
	return errors.Join(err, w.enter(burst.Leaving), w.enter(burst.Gone))
}

// rise goes through the states up to Ready.
func (w *work) rise(ctx context.Context) error {
	if err := w.charge(ctx); err != nil {
		return err
	}
	if err := w.claim(ctx); err != nil {
		return err
	}
	if w.record.State == burst.Declared || w.record.State == burst.Ready {
		if err := w.enter(burst.Staging); err != nil {
			return err
		}
	}
	if w.record.State == burst.Staging {
		if err := w.stage(ctx); err != nil {
			return err
		}
	}
	if w.burst.Spec.Cloud.FileSystem != nil {
		if err := w.joined(ctx); err != nil {
			return err
		}
	}
	if w.record.Ready.IsZero() {
		w.record.Ready = w.now()
		w.tell("instances that carry the tag %s=%s are counted to the burst, and stopped when they are idle", burst.TagBurst, w.record.ID)
	}
	return w.enter(burst.Ready)
}

// stage sends the data, and makes the directories that come home: what is exported from a file system has to be there.
func (w *work) stage(ctx context.Context) error {
	for i := range w.burst.Spec.Data {
		if err := w.send(ctx, &w.burst.Spec.Data[i]); err != nil {
			return err
		}
	}
	for _, h := range w.burst.Homeward() {
		at, err := w.cloudly(h.Path)
		if err != nil {
			return err
		}
		if err := w.Way.Folder(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) send(ctx context.Context, d *burst.Data) (err error) {
	from, err := w.home(d.From)
	if err != nil {
		return err
	}
	to, err := w.cloudly(d.To)
	if err != nil {
		return err
	}
	toll := w.toll("", pricing.S3Put) // what comes into AWS costs nothing but its requests
	moved, err := w.Way.Send(ctx, from, to, toll.pass)
	if err = errors.Join(err, toll.close(ctx)); err != nil {
		return err
	}
	w.tell("%s is in the bucket: %s in %s, %s of it sent now", d.To, units.Bytes(moved.Bytes), units.Plural(moved.Files, "file", "files"), units.Bytes(moved.Sent))
	w.record.Stage(burst.Staged{To: d.To, At: w.now(), Files: moved.Files, Bytes: moved.Bytes, Sent: moved.Sent, Took: moved.Took.Seconds()})
	return errors.Join(w.running(ctx, string(d.To), pricing.S3Standard, moved.Bytes, w.now()), w.keep())
}
