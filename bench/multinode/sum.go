package multinode

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"datamove.dev/bench/loadgen"
	"datamove.dev/bench/result"
)

// mostIntervals of a series in a record.
const mostIntervals = 120

// sum makes a phase of what its nodes did.
func (r *run) sum(w *loadgen.Work, results []loadgen.Result, failed error) result.Phase {
	p := result.Phase{Suite: w.Suite, Name: w.Name, What: w.What, Unit: w.Unit, Repeat: w.Repeat, NodeCount: w.Nodes, Ranks: w.Nodes * w.Ranks, Durable: durable(w), Cached: w.Do == loadgen.Read && w.Cache == loadgen.Keep}
	if failed != nil {
		p.Failed = failed.Error()
	}
	earliest, latest := time.Duration(1<<62), time.Duration(-1<<62)
	latency := hdrhistogram.New(100, int64(time.Hour), 2)
	for i := range results {
		one := &results[i]
		if one.Every == 0 { // it did nothing
			continue
		}
		p.Files, p.Wrong, p.Cache = p.Files+one.Files, p.Wrong+one.Wrong, one.Cache
		p.CPU += one.CPU.Seconds()
		p.PeakBytes = max(p.PeakBytes, one.PeakBytes)
		if h, err := hdrhistogram.Decode([]byte(one.Histogram)); err == nil {
			latency.Merge(h)
		}
		if i < len(r.clocks) {
			p.SkewError = max(p.SkewError, 2*r.clocks[i].off.Seconds())
		}
		earliest, latest = min(earliest, one.Begun), max(latest, one.Begun)
		p.Last = result.Done{Seconds: max(p.Last.Seconds, one.End.Seconds()), Bytes: p.Last.Bytes + one.Bytes(), Ops: p.Last.Ops + one.Ops()}
		p.PerNode = append(p.PerNode, share(r.members[i].About().Name, w.Unit, one.End.Seconds(), one.Every, one.Targets...))
	}
	if latest >= earliest {
		p.Skew = (latest - earliest).Seconds()
	}
	p.First = first(results, p.Last)
	p.Latency = summary(latency)
	for t, name := range r.plan.Targets {
		p.PerTarget = append(p.PerTarget, target(name, t, w.Unit, p.Last.Seconds, results))
	}
	return p
}

// durable says when what was written was synced.
func durable(w *loadgen.Work) string {
	switch w.Durable {
	case loadgen.EachEnd:
		return "each file is synced before it is closed"
	case loadgen.AtEnd:
		return "the file system is synced at the end, by each node"
	}
	return ""
}

// first is how far all were when the first rank had nothing left to do.
func first(results []loadgen.Result, last result.Done) result.Done {
	at := time.Duration(1 << 62)
	for i := range results {
		for _, end := range results[i].Ends {
			if end > 0 {
				at = min(at, end)
			}
		}
	}
	if at.Seconds() >= last.Seconds {
		return last
	}
	d := result.Done{Seconds: at.Seconds()}
	for i := range results {
		one := &results[i]
		ended := time.Duration(0)
		for _, end := range one.Ends {
			ended = max(ended, end)
		}
		for _, s := range one.Targets {
			d.Bytes += until(s.Bytes, one.Every, ended, at)
			d.Ops += until(s.Ops, one.Every, ended, at)
		}
	}
	return d
}

// until is how much was done at an instant: what is between two looks was done evenly, and the last look was when all had ended.
func until(series []int64, every, ended, at time.Duration) (n int64) {
	for i, x := range series {
		begin := time.Duration(i) * every
		end := begin + every
		if i == len(series)-1 && ended > begin {
			end = ended
		}
		switch {
		case at >= end:
			n += x
		case at > begin:
			n += int64(float64(x) * float64(at-begin) / float64(end-begin))
		}
	}
	return n
}

// share is the part of a node or a target; all its series are over the same intervals.
func share(name string, unit result.Unit, seconds float64, every time.Duration, all ...loadgen.Series) result.Share {
	s := result.Share{Name: name, Done: result.Done{Seconds: seconds}}
	for _, one := range all {
		counted := one.Ops
		if unit == result.Bytes {
			counted = one.Bytes
		}
		s.Bytes, s.Ops = s.Bytes+total(one.Bytes), s.Ops+total(one.Ops)
		s.Series = add(s.Series, counted)
	}
	n := (len(s.Series) + mostIntervals - 1) / mostIntervals
	if n > 1 {
		s.Series = loadgen.Wider(s.Series, n)
	}
	s.Every = every.Seconds() * float64(max(n, 1))
	return s
}

// target is the part of one target, of all nodes.
func target(name string, t int, unit result.Unit, seconds float64, results []loadgen.Result) result.Share {
	widest := time.Duration(0)
	for i := range results {
		widest = max(widest, results[i].Every)
	}
	var all []loadgen.Series
	for i := range results {
		if one := &results[i]; one.Every > 0 && t < len(one.Targets) {
			n := int(widest / one.Every) // each is twice as wide as another, or four times, or equal
			all = append(all, loadgen.Series{Bytes: loadgen.Wider(one.Targets[t].Bytes, n), Ops: loadgen.Wider(one.Targets[t].Ops, n)})
		}
	}
	return share(name, unit, seconds, widest, all...)
}

func total(v []int64) (n int64) {
	for _, x := range v {
		n += x
	}
	return n
}

// add adds two series; the longer one goes on.
func add(a, b []int64) []int64 {
	out := make([]int64, max(len(a), len(b)))
	copy(out, a)
	for i, x := range b {
		out[i] += x
	}
	return out
}

// summary is a histogram of nanoseconds in microseconds.
func summary(h *hdrhistogram.Histogram) result.Latency {
	if h.TotalCount() == 0 {
		return result.Latency{}
	}
	at := func(percent float64) float64 { return float64(h.ValueAtPercentile(percent)) / 1e3 }
	l := result.Latency{Count: h.TotalCount(), Mean: h.Mean() / 1e3, P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1e3}
	if text, err := h.EncodeV2(); err == nil {
		l.HDR = string(text)
	}
	return l
}
