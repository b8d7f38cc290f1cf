// Package rate says how fast work goes and how long it will take.
//
// A [Meter] is told how much is done, at whatever moments, and gives a [Reading]: bytes
// and files per second, smoothed over seconds, and the time that is left. Workers, agents
// and the command line have the same meter, so they say the same of one task; the API, the
// page and each watcher of a task of a service show what its worker has read.
//
// A Meter is pure: it knows no clock, and what it says does not depend on how often it is
// asked. It belongs to one goroutine and keeps nothing. TestRate shows how even a rate is
// of bytes that come in bursts, TestRemaining that the time is right for mixed sizes, and
// TestCountdown that it runs down.
package rate

import (
	"cmp"
	"math"
	"time"
)

// Work is what is known of a task at one moment.
type Work struct {
	Files, Bytes               int64 // done
	Known                      int64 // of Bytes: those that count as done and never passed
	PlannedFiles, PlannedBytes int64 // known to be to do, done ones too
	Complete                   bool  // the plan will not grow
}

// Reading is what a meter says.
type Reading struct {
	Bytes, Files float64       // per second
	Remaining    time.Duration // 0 is not known
}

const (
	over   = 8 * time.Second        // what a rate is smoothed over, where nothing else is said
	learnt = time.Minute            // for how long costs are remembered
	apart  = 200 * time.Millisecond // that two samples are apart at least
	idle   = 4                      // times over: without anything done for so long, nothing moves
)

// Meter makes readings of work. The zero value is ready; what it is told first is the
// beginning.
type Meter struct {
	Over time.Duration // what rates are smoothed over; 0 is eight seconds

	at           time.Time     // of the last sample that counted; zero before the first one
	seen, still  time.Duration // for how long it was told; for how long nothing was done
	now, before  Work
	bytes, files float64 // smoothed, of flows that were nothing before the beginning
	fastest      float64 // bytes per second that were ever read
	cost         cost
}

// Add takes what is known at a moment. Moments less than a fifth of a second after the one
// before count together.
func (m *Meter) Add(at time.Time, w Work) {
	m.now = w
	if m.at.IsZero() {
		m.at, m.before = at, w
		return
	}
	took := at.Sub(m.at)
	if took < apart {
		return
	}
	files, bytes := w.Files-m.before.Files, w.Bytes-w.Known-(m.before.Bytes-m.before.Known)
	m.at, m.before = at, w
	m.flow(took, files, bytes)
	m.cost.learn(took, max(files, 0), max(bytes, 0))
	m.fastest = max(m.fastest, m.smoothed(m.bytes))
}

// flow takes in what was done in a time.
func (m *Meter) flow(took time.Duration, files, bytes int64) {
	m.seen += took
	if m.still += took; files > 0 || bytes > 0 {
		m.still = 0
	}
	if m.still >= idle*m.over() {
		m.files, m.bytes = 0, 0
		return
	}
	weight := m.share(took)
	m.files += weight * (float64(files)/took.Seconds() - m.files)
	m.bytes += weight * (float64(bytes)/took.Seconds() - m.bytes)
}

func (m *Meter) over() time.Duration { return cmp.Or(m.Over, over) }

// share is the weight of the last d in what is smoothed.
func (m *Meter) share(d time.Duration) float64 {
	return 1 - math.Exp(-d.Seconds()/m.over().Seconds())
}

// smoothed is a flow without the time before the beginning.
func (m *Meter) smoothed(flow float64) float64 {
	if m.seen == 0 {
		return 0
	}
	return max(flow/m.share(m.seen), 0)
}

// Read says how fast it goes and what is left.
func (m *Meter) Read() Reading {
	return Reading{Bytes: m.smoothed(m.bytes), Files: m.smoothed(m.files), Remaining: m.remaining()}
}

// Still reports whether nothing moves, so that rates stay as they are.
func (m *Meter) Still() bool { return m.smoothed(m.bytes) == 0 && m.smoothed(m.files) == 0 }

// shortest is what is left where anything is.
const shortest = time.Second

// remaining is the time that is left; 0 before the plan is whole and something was done.
func (m *Meter) remaining() time.Duration {
	files, bytes := max(m.now.PlannedFiles-m.now.Files, 0), max(m.now.PlannedBytes-m.now.Bytes, 0)
	if !m.now.Complete || files == 0 && bytes == 0 {
		return 0
	}
	sec := m.cost.predict(files, bytes, m.fastest)
	if sec <= 0 {
		return 0
	}
	return max(time.Duration(min(sec, 1e9)*float64(time.Second)), shortest)
}
