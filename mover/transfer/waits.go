package transfer

import (
	"time"

	"datamove.dev/mover"
)

const (
	timedBytes = 16 << 10 // of a file that is always timed
	timedOne   = 16       // of so many smaller ones, of which a look at the clock would be a part
)

// weigh says how many files the next one is timed for; 0 is not timed.
func (w *worker) weigh(e *mover.Entry) int64 {
	switch {
	case e.Kind != mover.File:
		return 0
	case e.Size >= timedBytes || w.r.from.Remote:
		return 1
	}
	if w.small++; w.small%timedOne != 0 {
		return 0
	}
	return timedOne
}

// timing is what a worker waits for while it writes a part, or a small file.
type timing struct {
	w      *worker
	weight int64 // as feed.weight
	since  time.Time
	pulled time.Duration // by the feed until then
}

// begins begins a timing, of nothing when weight is 0.
func (w *worker) begins(weight int64) timing {
	t := timing{w: w, weight: weight}
	if weight > 0 {
		t.since, t.pulled = time.Now(), w.feed.pulled
	}
	return t
}

// opened ends what is the source's, and begins what is the target's.
func (t *timing) opened() {
	if t.weight > 0 {
		now := time.Now()
		t.add(now.Sub(t.since), 0, 0)
		t.since = now
	}
}

// written ends what is the target's. The target pulls: what reads take is not its time, and
// of one that is remote what it takes from one to the next is the link's. The rest is the
// answer.
func (t *timing) written() {
	if t.weight == 0 {
		return
	}
	now, f := time.Now(), &t.w.feed
	took := max(0, now.Sub(t.since)-(f.pulled-t.pulled))
	if !t.w.r.to.Remote || f.last.Before(t.since) {
		t.add(0, took, 0)
		return
	}
	answer := min(took, now.Sub(f.last))
	t.add(0, answer, took-answer)
}

func (t *timing) add(source, target, link time.Duration) {
	n := t.w.r.n
	n.SourceWait.Add(t.weight * int64(source))
	n.TargetWait.Add(t.weight * int64(target))
	n.LinkWait.Add(t.weight * int64(link))
}

// timed is fill that tells what it waits for: a remote source until it answers, and the
// link from then on.
func (f *feed) timed(p []byte, stop int64) (int, error) {
	if f.weight == 0 {
		if err := f.open(stop); err != nil {
			return 0, err
		}
		return f.fill(p)
	}
	begun, limited := time.Now(), f.limited()
	err := f.open(stop)
	answered, n := begun, 0
	if f.far {
		answered = time.Now()
	}
	if err == nil {
		n, err = f.fill(p)
	}
	f.last = time.Now()
	f.pulled += f.last.Sub(begun)
	read := f.last.Sub(answered) - (f.limited() - limited)
	if f.far {
		f.n.SourceWait.Add(f.weight * int64(answered.Sub(begun)))
		f.n.LinkWait.Add(f.weight * int64(read))
	} else {
		f.n.SourceWait.Add(f.weight * int64(read))
	}
	return n, err
}

// timedEnd notes that who pulls has heard of the end.
func (f *feed) timedEnd() {
	if f.weight > 0 {
		f.last = time.Now()
	}
}
