package concurrency

// callBytes is what one call counts beside its bytes, so that a thousand small
// files are work too.
const callBytes = 64 << 10

const (
	restNoGain    = 10 // windows to stay where a probe brought nothing
	restThrottled = 5  // windows to stay after giving way
)

// bounds are what a width stays within.
type bounds struct{ min, max int }

func (b bounds) clamp(width int) int { return min(max(width, b.min), b.max) }

// sample is what happened in one window of time.
type sample struct {
	seconds   float64
	done      int64 // bytes, and callBytes for each call that succeeded
	calls     int
	full      int // calls that ended when no more could have passed
	throttled int // times that an endpoint had enough
}

func (m sample) rate() float64 { return float64(m.done) / m.seconds }

// state is what a gate knows from one window to the next.
type state struct {
	width int
	was   int     // the width before the probe under way; 0 is no probe
	rate  float64 // what was got done at was, per second
	rest  int     // windows to let pass before the next probe
	down  bool    // the next probe is of a smaller width
	young bool    // at the beginning: widths are doubled, in shorter windows, while that pays
}

// begin is the state before the first call. What is done first, connecting and
// the like, would make the first probe look good, so that window does not count.
func begin(width int) state { return state{width: width, rest: 1, young: true} }

// next decides. Latency needs no rule of its own: with a full gate it is width
// divided by goodput, so where it grows with the width, the goodput does not.
func (s state) next(m sample, b bounds) state {
	switch {
	case m.throttled*50 > m.calls: // more than 2 % is not an accident
		return state{width: b.clamp(min(s.width*3/4, s.width-1)), rest: restThrottled}
	case m.full*2 < m.calls: // not held back by us: there is nothing to learn
		s.was = 0
		return s
	case s.rest > 0:
		s.rest--
		return s
	case s.was == 0, s.young && m.rate() > s.rate*1.2:
		return s.probe(m.rate(), b)
	case s.young:
		return state{width: s.was, rest: restNoGain}
	case m.rate() > s.rate*1.05:
		s.down = s.width < s.was
		return s.probe(m.rate(), b)
	case m.rate() < s.rate*0.95 || s.width > s.was: // worse, or more for nothing
		return state{width: s.was, rest: restNoGain, down: !s.down}
	}
	return state{width: s.width, rest: restNoGain} // fewer do as well
}

// probe moves on by a quarter, the other way at a bound; when young, by doubling.
func (s state) probe(rate float64, b bounds) state {
	if to := b.clamp(2 * s.width); s.young && to > s.width {
		return state{width: to, was: s.width, rate: rate, young: true}
	}
	step := max(1, s.width/4)
	to := b.clamp(s.width + step)
	if s.down && s.width > b.min || s.width == b.max {
		s.down = true
		to = b.clamp(s.width - step)
	}
	if to == s.width {
		return s // pinned
	}
	return state{width: to, was: s.width, rate: rate, down: to < s.width}
}
