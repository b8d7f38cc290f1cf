package report_test

import (
	"math"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"datamove.dev/bench/report"
	"datamove.dev/bench/result"
	"datamove.dev/test/must"
)

// histogram is one of microseconds.
func histogram(t *testing.T, micros ...int64) result.Latency {
	t.Helper()
	h := hdrhistogram.New(100, 3600e9, 2)
	for _, v := range micros {
		must.Do(t, h.RecordValue(v*1000))
	}
	text := must.Get(h.EncodeV2())(t)
	return result.Latency{Count: int64(len(micros)), P50: 1, P90: 2, P99: 3, P999: 4, Max: 5, HDR: string(text)}
}

// TestLatency: repeats are one histogram together; where one can not be read, the figures of each are taken, and it is said.
func TestLatency(t *testing.T) {
	with := func(l ...result.Latency) report.Latency {
		run := runOf()
		for i := range l {
			p := one("large", "read", result.Bytes, 1, 1e9)
			p.Latency, p.Repeat = l[i], i+1
			run.Phases = append(run.Phases, p)
		}
		return report.Sum(runs(run), report.Options{}).Phases[0].Latency
	}
	low, high := histogram(t, 100, 100, 100), histogram(t, 9000)
	got := with(low, high)
	if got.Count != 4 || math.Abs(got.P50-100) > 1 || math.Abs(got.P99-9000) > 90 || math.Abs(got.Max-9000) > 90 || got.Note != "" {
		t.Errorf("together: %+v", got)
	}
	if got := with(result.Latency{}, low); got.Count != 3 || got.Note != "" {
		t.Errorf("one without latencies: %+v", got)
	}
	for _, row := range []struct{ text, why string }{
		{"", "repeat 2 has no histogram"},
		{"no base64", "the histogram of repeat 2 can not be read"},
		{high.HDR[:len(high.HDR)/2], "the histogram of repeat 2 can not be read"},
		{histogram(t).HDR, "the histogram of repeat 2 is empty"},
		{strings.Repeat("A", 2<<20), "repeat 2 has no histogram"},
	} {
		broken := high
		broken.HDR, broken.P99 = row.text, 7
		if got := with(low, broken); got.Count != 4 || got.P50 != 1 || got.P99 != 5 || got.Max != 5 || !strings.Contains(got.Note, row.why) {
			t.Errorf("%.20s: %+v", row.text, got)
		}
	}
	if got := with(result.Latency{Count: 3, P50: math.MaxFloat64, P99: -math.MaxFloat64}, result.Latency{Count: math.MaxInt64}); got.Count != math.MaxInt64 || math.IsInf(got.P50, 0) || got.P99 < 0 {
		t.Errorf("figures that can not be: %+v", got)
	}
}
