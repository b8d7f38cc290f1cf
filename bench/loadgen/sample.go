package loadgen

import (
	"sync/atomic"
	"time"
)

const (
	firstEvery = 100 * time.Millisecond // how often is looked at first
	mostPoints = 600                    // of a series: when there are more, two become one
)

// counter is what one rank has done to one target. Each has cache lines of its own: ranks do not wait for each other to count.
type counter struct {
	bytes, ops atomic.Int64
	_          [112]byte
}

// Series is what was done in intervals since the common start.
type Series struct {
	Bytes []int64 `json:"bytes"`
	Ops   []int64 `json:"ops"`
}

// sampler looks at counters while ranks work.
type sampler struct {
	ranks  []*rank
	every  time.Duration
	series []Series // by target
	seen   []seen   // by target
}

// seen is what counters said when they were looked at last.
type seen struct{ bytes, ops int64 }

func newSampler(ranks []*rank) *sampler {
	targets := len(ranks[0].counters)
	return &sampler{ranks: ranks, every: firstEvery, series: make([]Series, targets), seen: make([]seen, targets)}
}

// watch looks until all is done.
func (s *sampler) watch(start time.Time, done <-chan struct{}) {
	for next := start.Add(s.every); ; next = next.Add(s.every) {
		select {
		case <-done:
			s.look()
			return
		case <-time.After(time.Until(next)):
			s.look()
			if len(s.series[0].Bytes) >= mostPoints && len(s.series[0].Bytes)%2 == 0 {
				s.halve()
			}
		}
	}
}

// look adds an interval.
func (s *sampler) look() {
	for t := range s.series {
		var bytes, ops int64
		for _, r := range s.ranks {
			bytes += r.counters[t].bytes.Load()
			ops += r.counters[t].ops.Load()
		}
		s.series[t].Bytes = append(s.series[t].Bytes, bytes-s.seen[t].bytes)
		s.series[t].Ops = append(s.series[t].Ops, ops-s.seen[t].ops)
		s.seen[t] = seen{bytes, ops}
	}
}

// halve makes one interval of two.
func (s *sampler) halve() {
	s.every *= 2
	for t := range s.series {
		s.series[t].Bytes, s.series[t].Ops = Wider(s.series[t].Bytes, 2), Wider(s.series[t].Ops, 2)
	}
}

// Wider makes one interval of n.
func Wider(v []int64, n int) []int64 {
	out := make([]int64, (len(v)+n-1)/n)
	for i, x := range v {
		out[i/n] += x
	}
	return out
}
