package compare

import (
	"cmp"
	"slices"
	"time"
)

// Sample is what one run of one tool cost.
type Sample struct {
	Wall time.Duration `json:"wallNanos"`
	CPU  time.Duration `json:"cpuNanos"` // user and system, of the tool, what it started, and sync
	// Anon is the highest sum of anonymous memory that was seen, of the tool and
	// what it started; 0 when it could not be seen.
	Anon int64 `json:"anonBytes"`
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
	Samples []Sample              `json:"samples"`
	Failed  string                `json:"failed,omitempty"` // why there are no (more) samples

	// Datamove divided by this tool, round by round; of these the median: below 1,
	// datamove is better. What makes the machine slower for some rounds falls out of
	// it, while two medians may be of different rounds. 0 when there is no round of both.
	WallRatio float64 `json:"datamoveWallRatio,omitempty"`
	CPURatio  float64 `json:"datamoveCPURatio,omitempty"`
}

// sum fills in the spreads from the samples.
func (s *Score) sum() {
	var wall, cpu []time.Duration
	var anon []int64
	for _, x := range s.Samples {
		wall, cpu, anon = append(wall, x.Wall), append(cpu, x.CPU), append(anon, x.Anon)
	}
	s.Wall, s.CPU, s.Anon = spreadOf(wall), spreadOf(cpu), spreadOf(anon)
}

// compareWith fills in the ratios of ours to each score. Sample i is of round i,
// of every tool: one that has failed gets no more turns.
func compareWith(ours Score, scores []Score) {
	for i := range scores {
		s := &scores[i]
		var wall, cpu []float64
		for round := range min(len(ours.Samples), len(s.Samples)) {
			a, b := ours.Samples[round], s.Samples[round]
			wall, cpu = append(wall, ratio(a.Wall, b.Wall)), append(cpu, ratio(a.CPU, b.CPU))
		}
		s.WallRatio, s.CPURatio = spreadOf(wall).Median, spreadOf(cpu).Median
	}
}

func ratio(a, b time.Duration) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
