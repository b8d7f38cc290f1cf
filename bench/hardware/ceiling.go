package hardware

import (
	"context"
	"slices"
	"time"
)

// Ceiling is what something can do at most.
type Ceiling struct {
	Name   string  `json:"name"`   // as package model calls it, where it does: "oss.nic"
	Unit   string  `json:"unit"`   // B/s or ops/s
	Rate   float64 `json:"rate"`   // the median
	Lowest float64 `json:"lowest"` // of the runs
	Most   float64 `json:"most"`
	Runs   int     `json:"runs"`
	How    string  `json:"how"` // what was done, for people
}

// Options say how long is measured. The zero value works.
type Options struct {
	Runs    int           // 0 means 5
	Time    time.Duration // of a run; 0 means 1 s
	Workers int           // that work at the same time; 0 means one for each processor
	Dir     string        // on the disk that is measured
	Size    int64         // bytes of the file that is written and read there; 0 means 1 GiB
	Files   int           // how many files the metadata test makes; 0 means 10,000
}

const (
	bytesPerSecond = "B/s"
	opsPerSecond   = "ops/s"
)

// of sums runs.
func of(name, unit, how string, rates []float64) Ceiling {
	v := slices.Sorted(slices.Values(rates))
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (mid + v[len(v)/2-1]) / 2
	}
	return Ceiling{name, unit, mid, v[0], v[len(v)-1], len(v), how}
}

// repeat measures so many runs. Each says how much it has done.
func (o Options) repeat(ctx context.Context, run func() (done int64, took time.Duration, err error)) (rates []float64, err error) {
	for range o.runs() {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		done, took, err := run()
		if err != nil {
			return nil, err
		}
		rates = append(rates, float64(done)/took.Seconds())
	}
	return rates, nil
}

func (o Options) runs() int {
	if o.Runs > 0 {
		return o.Runs
	}
	return 5
}

func (o Options) time() time.Duration {
	if o.Time > 0 {
		return o.Time
	}
	return time.Second
}
