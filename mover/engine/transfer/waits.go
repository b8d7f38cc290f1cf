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
	weight int64 // as feed.Reader.Weight
	since  time.Time
}

// begins begins a timing, of nothing when weight is 0.
func (w *worker) begins(weight int64) timing {
	t := timing{w: w, weight: weight}
	if weight > 0 {
		t.since = time.Now()
		w.feed.Last = t.since
	}
	return t
}

// opened ends what is the source's, and begins what is the target's.
func (t *timing) opened() {
	if t.weight > 0 {
		t.w.feed.Last = time.Now()
		t.w.r.n.SourceWait.Add(t.weight * int64(t.w.feed.Last.Sub(t.since)))
	}
}

// written ends what is the target's: since the last read it makes what it has its own, or
// has not answered yet.
func (t *timing) written() {
	if t.weight > 0 {
		t.w.r.targetTook(time.Duration(t.weight) * time.Since(t.w.feed.Last))
	}
}

// targetTook adds a wait for the target. Of one that takes a part whole and sends it then,
// as much of that as it has been sending so far is a wait for bytes on their way.
func (r *run) targetTook(took time.Duration) {
	var onTheWay time.Duration
	if r.sender != nil {
		if sending, all := r.sender.Sending(); all > 0 {
			onTheWay = time.Duration(float64(took) * min(float64(sending)/float64(all), 1))
		}
	}
	r.n.LinkWait.Add(int64(onTheWay))
	r.n.TargetWait.Add(int64(took - onTheWay))
}
