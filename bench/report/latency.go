package report

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"datamove.dev/bench/result"
	"datamove.dev/bench/stats"
)

// Latency is how long operations of all repeats of a phase took, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
	// Note says why there is no curve.
	Note string `json:"note,omitempty"`

	all *hdrhistogram.PackedHistogram // in nanoseconds; nil where a repeat has none
}

// mostHistogram is how long the text of a histogram may be: one of two digits up to an hour has some kilobytes.
const mostHistogram = 1 << 20

// latency is that of all repeats: of their histograms together, or, where they have none, the medians of their figures.
func latency(repeats []*result.Phase) Latency {
	var l Latency
	var p50, p90, p99, p999 []float64
	for _, one := range repeats {
		if one.Latency.Count <= 0 {
			continue
		}
		l.Count = add(l.Count, one.Latency.Count)
		l.Max = max(l.Max, sane(one.Latency.Max))
		p50, p90 = append(p50, sane(one.Latency.P50)), append(p90, sane(one.Latency.P90))
		p99, p999 = append(p99, sane(one.Latency.P99)), append(p999, sane(one.Latency.P999))
	}
	l.P50, l.P90, l.P99, l.P999 = stats.Median(p50), stats.Median(p90), stats.Median(p99), stats.Median(p999)
	h, err := together(repeats)
	switch {
	case l.Count == 0:
	case err != nil:
		l.Note = err.Error()
	default:
		at := func(percent float64) float64 { return float64(h.ValueAtPercentile(percent)) / 1e3 }
		l = Latency{h.TotalCount(), at(50), at(90), at(99), at(99.9), float64(h.Max()) / 1e3, "", h}
	}
	return l
}

// add is a sum that does not turn around.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// together are the histograms of repeats as one.
func together(repeats []*result.Phase) (all *hdrhistogram.PackedHistogram, err error) {
	for _, one := range repeats {
		text := one.Latency.HDR
		if one.Latency.Count <= 0 {
			continue
		}
		if text == "" || len(text) > mostHistogram {
			return nil, fmt.Errorf("repeat %d has no histogram", one.Repeat)
		}
		h, err := hdrhistogram.DecodePacked([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("the histogram of repeat %d can not be read: %w", one.Repeat, err)
		}
		if h.TotalCount() == 0 {
			return nil, fmt.Errorf("the histogram of repeat %d is empty", one.Repeat)
		}
		if all == nil {
			all = h
		} else if all.Merge(h) > 0 {
			return nil, fmt.Errorf("the histograms of repeats do not fit each other")
		}
	}
	return all, nil
}
