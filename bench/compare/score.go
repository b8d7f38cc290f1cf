package compare

import (
	"cmp"
	"slices"
	"time"

	"datamove.dev/bench/stats"
)

// Sample is what one run of one tool cost.
type Sample struct {
	Wall time.Duration `json:"wallNanos"`
	CPU  time.Duration `json:"cpuNanos"` // user and system, of the tool, what it started, and sync
	// Anon is the highest sum of anonymous memory that was seen, of the tool and
	// what it started; 0 when it could not be seen.
	Anon int64 `json:"anonBytes"`
	// MaxRSS is the resident memory of the largest process among them (ru_maxrss), with what it shares with others and with
	// the page cache; 0 when it was not larger than the process that measures.
	MaxRSS int64 `json:"maxRSSBytes,omitempty"`
}

// Spread is a median with the lowest and the highest value beside it.
type Spread[T cmp.Ordered] struct {
	Median T `json:"median"`
	Min    T `json:"min"`
	Max    T `json:"max"`
}

// number is what can be halved, for the median of an even count.
type number interface {
	~int64 | ~float64
}

// spreadOf summarises values; the zero Spread when there are none.
func spreadOf[T number](values []T) Spread[T] {
	if len(values) == 0 {
		return Spread[T]{}
	}
	v := slices.Sorted(slices.Values(values))
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = v[len(v)/2-1] + (mid-v[len(v)/2-1])/2
	}
	return Spread[T]{mid, v[0], v[len(v)-1]}
}

// Score is what the runs of one tool say together.
type Score struct {
	Tool    string                `json:"tool"`
	Version string                `json:"version"`
	Command string                `json:"command"` // as it was called, with SRC, DST, TMP and URL for what they were
	Wall    Spread[time.Duration] `json:"wallNanos"`
	CPU     Spread[time.Duration] `json:"cpuNanos"`
	Anon    Spread[int64]         `json:"anonBytes"`
	MaxRSS  Spread[int64]         `json:"maxRSSBytes"`
	Samples []Sample              `json:"samples"`
	Failed  string                `json:"failed,omitempty"` // why there are no (more) samples

	// Datamove divided by this tool, round by round; of these the median: below 1,
	// datamove is better. What makes the machine slower for some rounds falls out of
	// it, while two medians may be of different rounds. 0 when there is no round of both.
	WallRatio float64 `json:"datamoveWallRatio,omitempty"`
	CPURatio  float64 `json:"datamoveCPURatio,omitempty"`

	// The 95 % intervals of these medians by bootstrap; nil where there are too few rounds. Of three it is all that there was.
	WallInterval *Interval `json:"datamoveWallInterval,omitempty"`
	CPUInterval  *Interval `json:"datamoveCPUInterval,omitempty"`
}

// Interval is from where to where something lies.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// sum fills in the spreads from the samples.
func (s *Score) sum() {
	var wall, cpu []time.Duration
	var anon, rss []int64
	for _, x := range s.Samples {
		wall, cpu = append(wall, x.Wall), append(cpu, x.CPU)
		anon, rss = append(anon, x.Anon), append(rss, x.MaxRSS)
	}
	s.Wall, s.CPU, s.Anon, s.MaxRSS = spreadOf(wall), spreadOf(cpu), spreadOf(anon), spreadOf(rss)
}

// compareWith fills in the ratios of ours to each score, and their intervals for the others. Sample i is of round i,
// of every tool: one that has failed gets no more turns.
func compareWith(ours Score, scores []Score) {
	for i := range scores {
		s := &scores[i]
		var wall, cpu []float64
		for round := range min(len(ours.Samples), len(s.Samples)) {
			a, b := ours.Samples[round], s.Samples[round]
			wall, cpu = appendRatio(wall, a.Wall, b.Wall), appendRatio(cpu, a.CPU, b.CPU)
		}
		s.WallRatio, s.CPURatio = spreadOf(wall).Median, spreadOf(cpu).Median
		if s.Tool != ours.Tool {
			s.WallInterval, s.CPUInterval = bootstrap(wall), bootstrap(cpu)
		}
	}
}

// appendRatio leaves out what could not be measured.
func appendRatio(ratios []float64, a, b time.Duration) []float64 {
	if a <= 0 || b <= 0 {
		return ratios
	}
	return append(ratios, float64(a)/float64(b))
}

// bootstrap is the 95 % interval of the median of ratios; nil of too few. Of few rounds it is narrower than the truth.
func bootstrap(ratios []float64) *Interval {
	in := stats.Of(ratios)
	if in.Few {
		return nil
	}
	return &Interval{in.Low, in.High}
}
