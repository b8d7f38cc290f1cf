package transfer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
	"datamove.dev/mover/engine/journal"
)

// large is a file that is moved in parts by many workers.
type large struct {
	it item

	// Set by begin, before any part is taken.
	entry   mover.Entry
	content mover.Content
	draft   mover.Draft
	bytes   int64         // of a part
	id      uint64        // in the journal; 0 is none
	there   mover.Outcome // with errThere: as an earlier run has published it

	mu       sync.Mutex
	receipts []mover.Receipt // guarded by mu, as all below
	have     []bool          // parts with a receipt
	taken    []bool          // parts that are not to be taken: a worker has them, or they are there
	low      int             // no part before it is to be taken
	high     int             // no part from it on is to be taken
	flying   int             // parts that are taken and not done
	left     int             // parts that are not done
	shared   bool            // others have written to the draft
	lost     bool            // another process may still write to the draft, unseen by this one
	err      error           // the first failure: the rest is not moved
	unsynced int64           // bytes since the last sync
	synced   time.Time       // when that was
}

// take claims a part for a worker. more is false when it was the last one to claim. Our
// workers go from the front of the file.
func (l *large) take() (i int, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimable()
	i = l.low
	l.claim(i)
	return i, l.claimable()
}

// awayBytes is the most that is given away at once of one file.
const awayBytes = 256 << 20

// takeSome claims parts for a taker: of those that are left, as many as there would
// be for each of so many. They are one run, and from the end of the file: a file system
// with locks on ranges (Lustre, GPFS) gives a client more than it asks for, up to what
// another one has, and takes it back with all that is cached below when that is wanted. So
// each client has few neighbours, and our own workers have one.
func (l *large) takeSome(among int) (parts []int, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimable()
	n := min(max((l.left-l.flying)/among, 1), int(max(awayBytes/l.bytes, 1)))
	for i := l.high - 1; i >= l.low && !l.taken[i] && len(parts) < n; i-- {
		l.claim(i)
		parts = append(parts, i)
	}
	slices.Reverse(parts)
	return parts, l.claimable()
}

// unclaimed is how many parts no worker has claimed.
func (l *large) unclaimed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left - l.flying
}

// claimable says whether there is a part to take: then low is one, and high-1.
func (l *large) claimable() bool {
	for l.low < l.high && l.taken[l.low] {
		l.low++
	}
	for l.low < l.high && l.taken[l.high-1] {
		l.high--
	}
	return l.low < l.high
}

func (l *large) claim(i int) {
	l.taken[i] = true
	l.flying++
}

// free lets a part be taken once more.
func (l *large) free(i int) {
	l.taken[i] = false
	l.low, l.high = min(l.low, i), max(l.high, i+1)
}

// begin opens a large file, takes over what an earlier run had of it, and offers
// its parts to all workers.
func (w *worker) begin(ctx context.Context, l *large) error {
	return w.beginFor(ctx, l, func() error {
		w.r.queue.offer(l)
		return nil
	})
}

// beginFor is begin that has parts which are to be moved dealt with by offer.
func (w *worker) beginFor(ctx context.Context, l *large, offer func() error) error {
	w.r.n.InWork.begin(l.it.Source.Name)
	offered, err := w.open(ctx, l)
	switch {
	case errors.Is(err, errThere):
		return w.found(ctx, l)
	case err != nil:
		return w.over(ctx, l, err)
	case offered:
		return offer()
	}
	return w.complete(ctx, l)
}

// open reports whether there are parts to move.
func (w *worker) open(ctx context.Context, l *large) (offered bool, err error) {
	if l.content, err = w.r.source.Open(ctx, l.it.Source); err != nil {
		return false, err
	}
	l.entry = w.r.carryOver(l.content.Entry(), &l.it)
	if l.entry.Kind != mover.File { // an object that turns out to be a link
		return false, mover.ErrChanged
	}
	if err := w.r.holes(l.content, &l.entry); err != nil {
		return false, err
	}
	if err := w.r.plan(l); err != nil {
		return false, err
	}
	if err := w.r.resume(ctx, l); err != nil {
		return false, err
	}
	if l.draft == nil {
		if err := w.r.room.Retry(ctx, w.seeker(), func() error { return w.r.fresh(ctx, l) }); err != nil {
			return false, err
		}
		if cloned, err := w.cloneLarge(ctx, l); err != nil || cloned {
			return false, err
		}
	}
	return l.left > 0, nil
}

// plan cuts the file for what is known of it: of its draft, when there is one.
func (r *run) plan(l *large) error {
	bytes, err := partBytes(l.entry.Size, r.width(l), r.from, r.to)
	if err != nil {
		return err
	}
	l.cut(bytes)
	return nil
}

// cut plans parts of so many bytes.
func (l *large) cut(bytes int64) {
	n := count(l.entry.Size, bytes)
	l.bytes, l.synced = bytes, time.Now()
	l.receipts, l.have, l.left = make([]mover.Receipt, n), make([]bool, n), n
	l.taken, l.low, l.high = make([]bool, n), 0, n
}

// width is what the parts of an open file should be a multiple of.
func (r *run) width(l *large) int64 {
	var to, from int64
	if a, ok := mover.As[mover.Aligner](l.draft); ok {
		to = a.PartMultiple(l.entry.Size)
	}
	if s, ok := mover.As[mover.Striped](l.content); ok {
		from = s.StripeWidth()
	}
	return width(l.entry.Size, to, from)
}

// fresh begins the draft of a large file and notes it before and after, so that
// an upload that was begun when we died is found again by its name.
func (r *run) fresh(ctx context.Context, l *large) (err error) {
	rec := journal.Record{Name: l.entry.Name, Source: l.it.Source.Identity(), PartBytes: l.bytes}
	intent := uint64(0)
	if r.o.Journal != nil {
		if intent, err = r.o.Journal.Begin(ctx, rec); err != nil {
			return err
		}
	}
	if l.draft, err = r.target.Draft(ctx, l.entry, mover.Hints{By: r.o.By, PartBytes: l.bytes, Seen: r.seen(&l.it)}); err != nil {
		l.draft = nil
		return err // the intent stays: an upload may have begun
	}
	if err := r.note(ctx, l, rec); err != nil {
		_ = l.draft.Close() // a later run could not find it
		l.draft = nil
		return err
	}
	if r.o.Journal == nil {
		return nil
	}
	return r.o.Journal.Clear(ctx, intent)
}

// note notes a draft that was just begun, as it is laid out.
func (r *run) note(ctx context.Context, l *large, rec journal.Record) (err error) {
	if l.left == len(l.have) { // nothing is moved yet, and only now it is seen how the file is laid out
		if err := r.plan(l); err != nil {
			return err
		}
	}
	if r.o.Journal == nil {
		return nil
	}
	rec.Token, rec.PartBytes = l.draft.Token(), l.bytes
	l.id, err = r.o.Journal.Begin(ctx, rec)
	return err
}

// cloneLarge is clone for a file that was opened for parts.
func (w *worker) cloneLarge(ctx context.Context, l *large) (bool, error) {
	d := drafted{it: &l.it, draft: l.draft, entry: l.entry}
	cloned, err := w.clone(ctx, l.content, &d)
	if err != nil || !cloned {
		return false, err
	}
	l.left = 0
	return true, nil
}

// part moves one part; the worker that did the last one completes the file.
func (w *worker) part(ctx context.Context, l *large, i int) error {
	l.mu.Lock()
	skip := l.err != nil
	l.mu.Unlock()
	var rec mover.Receipt
	var err error
	if !skip {
		err = w.r.room.Retry(ctx, w.seeker(), func() error { rec, err = w.move(ctx, l, i); return err })
	}
	if err == nil && !skip {
		err = w.r.moved(ctx, l, rec)
	}
	return w.landed(ctx, l, 1, nil, err)
}

// landed ends the flight of parts: so many are done, or will not be after an error;
// others came back untouched. The caller that lands the last part completes the file.
func (w *worker) landed(ctx context.Context, l *large, done int, back []int, err error) error {
	l.mu.Lock()
	if l.err == nil && err != nil {
		l.err = err
	}
	l.flying -= done + len(back)
	l.left -= done
	if l.err != nil { // nothing more will be taken
		l.left -= len(back)
	} else {
		for _, i := range back {
			l.free(i)
		}
	}
	lost := l.lost && l.flying == 0 // no worker takes parts of it
	last, failed := l.left == 0 || lost, l.err
	l.mu.Unlock()
	switch {
	case last && failed != nil:
		return w.over(ctx, l, failed)
	case lost:
		return w.rehoused(ctx, l)
	case last:
		return w.complete(ctx, l)
	case len(back) > 0 && failed == nil:
		w.r.queue.reoffer(l)
	}
	return nil
}

// move brings the bytes of one part over.
func (w *worker) move(ctx context.Context, l *large, i int) (mover.Receipt, error) {
	p := cut(l.entry.Size, l.bytes, i)
	w.feed.Reset(ctx, l.content, sparse(&l.entry), p)
	t := w.begins(1)
	rec, err := l.draft.WritePart(ctx, p, &w.feed)
	t.written()
	if err == nil {
		err = w.feed.Whole()
	}
	if err != nil {
		w.r.n.Bytes.Add(-w.feed.Passed())
		return rec, err
	}
	rec.Part, rec.CRC = p, w.feed.Sum()
	w.bytes += p.Length
	return rec, nil
}

// moved notes a part that is stored, and from time to time brings the draft to
// stable storage so that a power cut costs little.
func (r *run) moved(ctx context.Context, l *large, rec mover.Receipt) error {
	l.mu.Lock()
	l.receipts[rec.Index], l.have[rec.Index] = rec, true
	l.unsynced += rec.Length
	due := l.unsynced >= durableBytes || time.Since(l.synced) >= durableEvery
	if due {
		l.unsynced, l.synced = 0, time.Now()
	}
	l.mu.Unlock()
	if r.o.Journal == nil {
		return nil
	}
	if err := r.o.Journal.Part(ctx, l.id, rec); err != nil || !due {
		return err
	}
	s, ok := mover.As[interface{ Sync(context.Context) error }](l.draft)
	if !ok {
		return nil
	}
	mark := r.o.Journal.Mark() // parts that are recorded from now on may miss the sync
	if err := s.Sync(ctx); err != nil {
		return err
	}
	return r.o.Journal.DurableUpTo(ctx, mark, l.id)
}

// complete finishes a file with all of its parts and hands it over.
func (w *worker) complete(ctx context.Context, l *large) error {
	d := drafted{it: &l.it, draft: l.draft, entry: l.entry, size: l.entry.Size, counted: l.entry.Size, id: l.id}
	if len(l.have) > 0 && l.have[0] {
		err := w.r.passed(l.content, &d.entry, sumOf(l.receipts))
		if err == nil {
			err = l.content.Check(ctx)
		}
		if err == nil {
			err = d.draft.Finish(ctx, d.entry, l.receipts)
		}
		if err == nil {
			err = w.r.reread(ctx, &d)
		}
		if err != nil {
			return w.over(ctx, l, err)
		}
	} else {
		d.level = mover.Cloned
	}
	w.done(l)
	return w.r.finished(ctx, []drafted{d})
}

// found checks and reports a file that an earlier run has published.
func (w *worker) found(ctx context.Context, l *large) error {
	d := drafted{it: &l.it, entry: l.entry}
	err := l.content.Check(ctx)
	if err == nil {
		err = w.r.checked(ctx, &d, l.there)
	}
	if err != nil {
		return w.over(ctx, l, err)
	}
	w.done(l)
	w.r.n.Bytes.Add(l.entry.Size)
	w.r.n.Known.Add(l.entry.Size)
	return w.r.visible(&d)
}

// sumOf combines the checksums of all parts, in order.
func sumOf(parts []mover.Receipt) (sum uint64) {
	for i := range parts {
		sum = checksum.Combine(sum, parts[i].CRC, parts[i].Length)
	}
	return sum
}

// over ends a try that failed: a changed file waits for another one, a stop leaves
// the draft for the next run, and everything else is reported.
func (w *worker) over(ctx context.Context, l *large, err error) error {
	w.done(l)
	if errors.Is(err, mover.ErrFull) && !w.r.o.FailFull && ctx.Err() == nil {
		return w.r.whenRoom(ctx, l, err)
	}
	if w.r.fatal(ctx, err) {
		if l.draft != nil {
			leaveOne(l.draft, l.id != 0)
		}
		return err
	}
	if err := w.r.drop(ctx, l); err != nil {
		return err
	}
	w.r.n.Bytes.Add(-l.counted())
	if dealt, err := w.r.released(ctx, &l.it, err); dealt {
		return err
	}
	if !errors.Is(err, mover.ErrChanged) && !errors.Is(err, mover.ErrCorrupt) && !errors.Is(err, mover.ErrTransient) {
		w.r.failed(&l.it, err)
		return nil
	}
	return w.r.later(ctx, &l.it, err)
}

// whenRoom has a file moved anew after a while. Its target said only at a sync, or at the
// end, that it is full, so the run can not know which parts are lost.
func (r *run) whenRoom(ctx context.Context, l *large, err error) error {
	if err := r.drop(ctx, l); err != nil {
		return err
	}
	r.n.Bytes.Add(-l.counted())
	round := r.room.Now()
	if err := r.flush(ctx); err != nil {
		return err
	}
	if r.room.Now() != round {
		return r.redo.Add(l.it)
	}
	if err := r.room.Pause(ctx, err); err != nil {
		return err
	}
	return r.redo.Add(l.it)
}

// drop gives up the draft of a large file, with the patience of the target. What
// can not be dropped now stays in the journal, so that a later run finds it.
func (r *run) drop(ctx context.Context, l *large) error {
	if l.draft != nil && l.draft.Close() != nil && r.target.Drop(ctx, l.draft.Token()) != nil || l.id == 0 {
		return nil
	}
	return r.o.Journal.Clear(ctx, l.id)
}

// done lets go of a large file that has no more parts to move.
func (w *worker) done(l *large) {
	w.r.queue.forget(l)
	if l.content != nil {
		closeAll(l.content)
	}
	w.r.n.InWork.end(l.it.Source.Name)
}

// abandon leaves the large files that were open when the run had to stop to the
// next run. The workers have gone home.
func (r *run) abandon() {
	for _, l := range r.queue.left() {
		closeAll(l.content)
		leaveOne(l.draft, l.id != 0)
		r.n.InWork.end(l.it.Source.Name)
	}
}

// counted is how many bytes of the file were counted.
func (l *large) counted() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.receipts {
		n += l.receipts[i].Length
	}
	return n
}
