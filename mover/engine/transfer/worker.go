package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/transfer/feed"
	"datamove.dev/mover/engine/transfer/nospace"
	"datamove.dev/mover/engine/transfer/standstill"
)

// worker moves units. What it keeps is for one goroutine, and saves allocations.
type worker struct {
	r       *run
	feed    feed.Reader
	receipt [1]mover.Receipt
	bytes   int64     // moved in the present unit
	files   int64     // small ones of them
	ready   []drafted // of the last batch, to be published
	small   int       // files that are too small to be timed, each of them
	unit    bool      // a unit of ours is in work, and counts in run.room
	leave   func(leaving)
	spare   bool // another worker has taken its place
}

func newWorker(r *run) *worker {
	return &worker{r: r, feed: feed.New(r.n.passing(), r.from, r.to)}
}

// begun forgets the unit before.
func (w *worker) begun() { w.bytes, w.files = 0, 0 }

// work is what the present unit has got done, for the gate.
func (w *worker) work() int64 { return w.bytes + w.files*fileBytes }

// fileBytes is what opening, making and publishing one small file costs, in bytes
// that could be moved instead: about 20 µs against a few GB/s.
const fileBytes = 64 << 10

// drafted is an entry that is finished but not yet published.
type drafted struct {
	it      *item
	draft   mover.Draft
	entry   mover.Entry // with the facts that it was given
	level   mover.Level // Cloned, Read, or Unchecked when publishing tells it
	in      mover.Draft // the directory draft of the same batch that it is built in; nil is none
	size    int64       // bytes that a Publish has to bring to stable storage
	counted int64       // bytes of it that Counters.Bytes has
	id      uint64      // of a large file in the journal; 0 is none
	redone  bool        // of a directory: something in it is moved later
}

func (w *worker) do(ctx context.Context, u unit) error {
	switch {
	case u.large == nil:
		return w.batch(ctx, u.batch)
	case u.part < 0:
		return w.begin(ctx, u.large)
	}
	return w.part(ctx, u.large, u.part)
}

// batch drafts every item. publish hands them over together.
func (w *worker) batch(ctx context.Context, items []item) error {
	_, err := w.batchUntil(ctx, items, nil)
	return err
}

// batchUntil is batch that stops before the next item when yield is closed, and
// returns what is left.
func (w *worker) batchUntil(ctx context.Context, items []item, yield <-chan struct{}) (left []item, err error) {
	name := items[0].name()
	w.r.n.InWork.begin(name)
	defer func() { w.r.n.InWork.end(name) }()
	b := batch{w: w, done: make([]drafted, 0, len(items)), since: time.Now()}
	if len(items) > 1 {
		b.dog = &standstill.Watchdog{After: standstill.After + w.r.from.Patience, Apart: &w.r.apart}
		w.feed.Alive = b.dog.Alive
		defer func() { b.dog.End(); w.feed.Alive = nil }()
		b.watched(ctx, items)
	}
	for i := range items {
		if i > 0 && isClosed(yield) {
			left = items[i:]
			b.stopped()
			break
		}
		b.relief.goesTo(i)
		err := b.add(ctx, &items[i])
		if b.relief.came() {
			name, w.spare = items[i].name(), true
		}
		if err != nil {
			b.abandon()
			return nil, err
		}
		if w.spare {
			break
		}
	}
	if err := b.leave(ctx, ""); err != nil {
		b.abandon()
		return nil, err
	}
	w.ready = b.done
	return left, nil
}

// publish hands over what the last batch has finished. It is no part of what the gate
// and the turn are for: under a service it waits for an answer first, and meanwhile
// another worker can move.
func (w *worker) publish(ctx context.Context) error {
	ready := w.ready
	w.ready = nil
	return w.r.finished(ctx, ready)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// errGrown is the end of a small file that has become a large one.
var errGrown = fmt.Errorf("%w: it grows while it is read", mover.ErrChanged)

// try makes a draft of d.it, again when it changed while it was read, and when
// there was no room and there is now.
func (w *worker) try(ctx context.Context, b *batch, d *drafted, h mover.Hints) error {
	for try := 1; ; try++ {
		round := w.r.room.Now()
		err := w.draft(ctx, d, h)
		if errors.Is(err, mover.ErrFull) {
			err = w.r.room.Again(ctx, b.seeker(), round, err, func() error { return w.draft(ctx, d, h) })
		}
		if err == nil || try == triesMost || !errors.Is(err, mover.ErrChanged) && !errors.Is(err, mover.ErrCorrupt) {
			return err
		}
		w.r.log.InfoContext(ctx, "changed while it was read, will try again", "name", d.it.Source.Name, "err", err)
		now, gone := w.r.source.Stat(ctx, d.it.Source.Name)
		if gone != nil {
			return gone
		}
		if now.Kind != d.it.Source.Kind {
			return err
		}
		if w.r.isLarge(&now) {
			return errGrown
		}
		if now.Identity() != d.it.Source.Identity() { // else what else is known of it stays known
			w.r.unlikely(&d.it.Source)
			d.it.Source = now
		}
	}
}

// draft makes a finished draft, or, of a directory, one that can be filled.
func (w *worker) draft(ctx context.Context, d *drafted, h mover.Hints) error {
	t := w.begins(w.weigh(&d.it.Source))
	opening := ctx
	if w.r.clones.Load() { // and the bytes of this one will not be asked for, either
		opening = mover.Ranged(ctx)
	}
	c, err := w.r.source.Open(opening, d.it.Source)
	t.opened()
	if err != nil {
		return err
	}
	defer c.Close()
	d.entry = w.r.carryOver(c.Entry(), d.it)
	if d.draft, err = w.r.target.Draft(ctx, d.entry, h); err != nil {
		d.draft = nil
		return w.unsupported(d, err)
	}
	switch d.entry.Kind {
	case mover.Dir: // finished when it is filled
	case mover.File:
		err = w.fill(ctx, c, d, t.weight)
		t.written()
	default:
		err = d.draft.Finish(ctx, d.entry, nil)
	}
	if err != nil {
		_ = d.draft.Close()
		d.draft = nil
	}
	return err
}

// errManifestOnly is the end of an entry that the target holds in its manifest only.
var errManifestOnly = errors.New("only in the manifest")

// unsupported lets pass what only a manifest can hold: it has no draft.
func (w *worker) unsupported(d *drafted, err error) error {
	if w.r.to.NeedsManifest && d.entry.Kind.Special() && errors.Is(err, mover.ErrUnsupported) {
		return errManifestOnly
	}
	return err
}

// unkept does an entry that only the manifest holds: what has its name now goes.
func (r *run) unkept(ctx context.Context, it *item) error {
	if k := it.Target.Kind; k != 0 && !k.Special() {
		if err := r.target.Remove(ctx, it.Target, r.o.By); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	r.result(Result{Seq: it.Seq, Op: it.Op, Entry: r.carry(it.Source), Why: it.Why})
	return nil
}

// fill gives a small file its bytes and finishes it.
func (w *worker) fill(ctx context.Context, c mover.Content, d *drafted, weight int64) error {
	if cloned, err := w.clone(ctx, c, d); err != nil || cloned {
		return err
	}
	p := mover.Part{Length: d.entry.Size}
	if err := w.r.holes(c, &d.entry); err != nil {
		return err
	}
	w.feed.Reset(ctx, c, sparse(&d.entry), p)
	w.feed.Weight = weight
	if err := w.pour(ctx, c, d, p); err != nil {
		w.r.n.Bytes.Add(-w.feed.Passed())
		return err
	}
	d.size, d.counted = p.Length, p.Length
	w.bytes += d.size
	w.files++
	return nil
}

// pour brings the one part of a small file over, checks it, and finishes the draft.
func (w *worker) pour(ctx context.Context, c mover.Content, d *drafted, p mover.Part) error {
	rec, err := d.draft.WritePart(ctx, p, &w.feed)
	if err == nil {
		err = w.feed.Whole()
	}
	if err == nil {
		err = c.Check(ctx)
	}
	if err != nil {
		return err
	}
	rec.Part, rec.CRC = p, w.feed.Sum()
	if err := w.r.passed(c, &d.entry, rec.CRC); err != nil {
		return err
	}
	w.receipt[0] = rec
	if err := d.draft.Finish(ctx, d.entry, w.receipt[:]); err != nil {
		return err
	}
	return w.r.reread(ctx, d)
}

// clone lets the file system or the store copy by itself where it can, unless
// the bytes are to be checked.
func (w *worker) clone(ctx context.Context, c mover.Content, d *drafted) (bool, error) {
	cl, ok := mover.As[mover.Cloner](d.draft)
	if !ok || w.r.o.Level > mover.Cloned {
		return false, nil
	}
	cloned, err := cl.Clone(ctx, c)
	w.r.clones.Store(cloned)
	if err != nil || !cloned {
		return false, err
	}
	if err := c.Check(ctx); err != nil {
		return false, err
	}
	if err := d.draft.Finish(ctx, d.entry, nil); err != nil {
		return false, err
	}
	d.level, d.counted = mover.Cloned, d.entry.Size
	w.r.n.Bytes.Add(d.counted)
	return true, nil
}

// passed gives an entry the checksum of what has passed, which has to be the one
// that the source knows of, if it knows one.
func (r *run) passed(c mover.Content, e *mover.Entry, sum uint64) error {
	if was := c.Entry(); was.Known.Has(mover.FactCRC) && was.CRC != sum {
		return &mover.Error{Op: "read", Location: r.source.String(), Name: e.Name, Err: mover.Unlike(mover.ErrCorrupt)}
	}
	e.CRC, e.Known = sum, e.Known|mover.FactCRC
	return nil
}

// reread compares a finished draft with what was sent, where that was asked for
// and where a draft can be read.
func (r *run) reread(ctx context.Context, d *drafted) error {
	rr, ok := mover.As[mover.Rereader](d.draft)
	if !ok || r.level < mover.Read {
		return nil
	}
	c, err := rr.Reread(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := sameSum(ctx, c, d.entry); err != nil {
		return err
	}
	d.level = mover.Read
	return nil
}

// sameSum reads c and compares its checksum with the one that e has.
func sameSum(ctx context.Context, c mover.Content, e mover.Entry) error {
	sum, err := compare.Hash(ctx, c)
	if err == nil && sum != e.CRC {
		err = &mover.Error{Op: "read back", Name: e.Name, Err: mover.ErrCorrupt}
	}
	return err
}

// update gives an existing entry its facts.
func (r *run) update(ctx context.Context, s nospace.Seeker, it *item) (mover.Entry, error) {
	c, err := r.source.Open(ctx, it.Source)
	if err != nil {
		return mover.Entry{}, err
	}
	defer c.Close()
	e := r.carryOver(r.o.Plan.Stays(c.Entry(), &it.Target), it)
	if e.Kind == mover.File { // opening a small one may have left that to us
		if err := c.Check(ctx); err != nil {
			return mover.Entry{}, err
		}
	}
	if err := r.holes(c, &e); err != nil {
		return e, err
	}
	err = r.room.Retry(ctx, s, func() error { return r.target.Update(ctx, e) })
	e.ETag, e.Version = "", ""
	if err == nil && r.to.NeedsManifest && e.Kind != mover.Dir && !e.Kind.Special() {
		return r.renewed(ctx, e)
	}
	return e, err
}

// renewed is e with the identity of what it became: an update makes a new object,
// and the manifest is believed only of the object that it names.
func (r *run) renewed(ctx context.Context, e mover.Entry) (mover.Entry, error) {
	now, err := r.target.Stat(ctx, e.Name)
	e.ETag, e.Version = now.ETag, now.Version
	return e, err
}

// finished hands finished drafts to Publish: at once, or by the committer where
// stable storage is slow.
func (r *run) finished(ctx context.Context, done []drafted) error {
	if len(done) == 0 {
		return nil
	}
	if r.atOnce() || r.hand {
		var ids []uint64
		if id := done[0].id; id != 0 {
			ids = []uint64{id}
		}
		return r.settle(ctx, done, ids)
	}
	return r.commit.add(ctx, done)
}

// flush has published what the committer holds.
func (r *run) flush(ctx context.Context) error {
	if r.commit == nil { // nothing is held for later
		return nil
	}
	return r.commit.flush(ctx)
}

// seeker needs room and holds nothing that is finished; others may.
func (r *run) seeker() nospace.Seeker { return nospace.Seeker{Free: r.flush} }

func (w *worker) seeker() nospace.Seeker { return nospace.Seeker{Free: w.r.flush, Unit: w.unit} }

// stage tells the journal of small drafts that wait to be published.
func (r *run) stage(ctx context.Context, done []drafted) (id uint64, err error) {
	if r.o.Journal == nil {
		return 0, nil
	}
	records := make([]journal.Record, 0, len(done))
	for i := range done {
		d := &done[i]
		if d.in == nil && d.it.Op != 0 {
			records = append(records, journal.Record{Name: d.entry.Name, Source: d.it.Source.Identity(), Token: d.draft.Token(), CRC: d.entry.CRC, Complete: true})
		}
	}
	if len(records) == 0 {
		return 0, nil
	}
	return r.o.Journal.Stage(ctx, records)
}
