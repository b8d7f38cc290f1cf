package result

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"datamove.dev/mover"
)

// Schema names the version of the JSON form.
const Schema = "datamove.run/v1"

// Run is one call of the generator.
type Run struct {
	Schema  string    `json:"schema"`
	ID      string    `json:"id"`      // that of its directories: 16 hexadecimal digits
	Version string    `json:"version"` // of datamove-bench
	Command string    `json:"command"`
	Begun   time.Time `json:"begun"`
	Targets []string  `json:"targets"` // directories and buckets, as they were given
	Nodes   []Node    `json:"nodes"`
	Phases  []Phase   `json:"phases"`
	Notes   []string  `json:"notes,omitempty"`  // what a reader has to know beside: a clock that is off
	Failed  string    `json:"failed,omitempty"` // why it has ended before its end
}

// Node is a host that took part.
type Node struct {
	Name        string  `json:"name"`
	Host        string  `json:"host"` // the same for all that run on one kernel: a digest of its boot ID
	CPU         string  `json:"cpu"`
	Cores       int     `json:"cores"`
	MemoryBytes int64   `json:"memory_bytes"`
	Kernel      string  `json:"kernel"`
	ClockAhead  float64 `json:"clock_ahead_seconds"` // of the conductor's clock; below 0 is behind
	ClockError  float64 `json:"clock_error_seconds"` // at most: half of the shortest round trip
}

// Phase is one kind of work of all ranks, from a common start.
type Phase struct {
	Suite     string `json:"suite"` // "large"
	Name      string `json:"name"`  // "write"
	What      string `json:"what"`  // for people: "16 ranks, 1 file of 1 GiB each, blocks of 4 MiB"
	Unit      Unit   `json:"unit"`  // what its rate is of
	Repeat    int    `json:"repeat"`
	NodeCount int    `json:"node_count"`
	Ranks     int    `json:"ranks"`
	Cache     string `json:"cache"`            // what was done about page caches, for people
	Cached    bool   `json:"cached,omitempty"` // what was read may come from the memory of the client
	Durable   string `json:"durable"`          // what was synced, and when; "" for what writes nothing

	Files int64 `json:"files"` // that were worked on
	First Done  `json:"first"`
	Last  Done  `json:"last"`
	// Wrong is how many blocks were read that are not what was written.
	Wrong     int64   `json:"wrong,omitempty"`
	Skew      float64 `json:"skew_seconds"`       // between the first and the last node that began
	SkewError float64 `json:"skew_error_seconds"` // at most

	Latency   Latency `json:"latency"` // of a read or write of a block, or of what was done to a name
	PerNode   []Share `json:"per_node"`
	PerTarget []Share `json:"per_target"`
	CPU       float64 `json:"cpu_seconds"`    // of the generator, on all nodes
	PeakBytes int64   `json:"peak_rss_bytes"` // of the generator, on the node with the most
	Failed    string  `json:"failed,omitempty"`
}

// Unit is what a rate counts.
type Unit string

// The units.
const (
	Bytes Unit = "bytes"
	Ops   Unit = "ops"
)

// Done is how far all ranks together had come.
type Done struct {
	Seconds float64 `json:"seconds"` // since the common start
	Bytes   int64   `json:"bytes"`
	Ops     int64   `json:"ops"`
}

// Rate is what a phase is measured by, in its unit per second.
func (p *Phase) Rate() float64 { return p.Last.rate(p.Unit) }

// FirstRate is the same until the first rank had nothing left to do.
func (p *Phase) FirstRate() float64 { return p.First.rate(p.Unit) }

func (d Done) rate(u Unit) float64 {
	n := d.Ops
	if u == Bytes {
		n = d.Bytes
	}
	if d.Seconds <= 0 {
		return 0
	}
	return float64(n) / d.Seconds
}

// Share is the part of one node, or of one target.
type Share struct {
	Name string `json:"name"`
	Done
	Every float64 `json:"every_seconds,omitempty"` // how long an interval of Series is
	// Series are bytes (or operations, as the unit of the phase is) of intervals since the common start.
	Series []int64 `json:"series,omitempty"`
}

// Latency is how long an operation took, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
	HDR   string  `json:"hdr,omitempty"` // the histogram, in nanoseconds: HdrHistogram V2, compressed, in base64
}

// Write writes a run as JSON.
func (r *Run) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

const (
	most     = 256 << 20 // bytes of a file that is read
	mostOf   = 100_000   // nodes, phases, and what a phase has of each
	mostName = 4096      // bytes of a text
)

// Read reads a run. What it can not be is mover.ErrUsage: files come from anybody.
func Read(r io.Reader) (*Run, error) {
	limited := &io.LimitedReader{R: r, N: most + 1}
	d := json.NewDecoder(limited)
	run := &Run{}
	if err := d.Decode(run); err != nil {
		return nil, fmt.Errorf("%w: this is no run of datamove-bench: %w", mover.ErrUsage, err)
	}
	if limited.N <= 0 || d.More() {
		return nil, fmt.Errorf("%w: this is more than one run of datamove-bench", mover.ErrUsage)
	}
	if run.Schema != Schema {
		return nil, fmt.Errorf("%w: the schema is %.100q; want %s, which datamove-bench run --save writes", mover.ErrUsage, run.Schema, Schema)
	}
	return run, run.check()
}

// check says what can not have been measured.
func (r *Run) check() error {
	if len(r.Nodes) > mostOf || len(r.Phases) > mostOf {
		return fmt.Errorf("%w: a run of %d nodes and %d phases", mover.ErrUsage, len(r.Nodes), len(r.Phases))
	}
	for i := range r.Phases {
		p := &r.Phases[i]
		if err := p.check(); err != nil {
			return fmt.Errorf("%w: phase %d, %.100q %.100q: %w", mover.ErrUsage, i+1, p.Suite, p.Name, err)
		}
	}
	return nil
}

func (p *Phase) check() error {
	if p.Unit != Bytes && p.Unit != Ops {
		return fmt.Errorf("the unit is %.20q; want bytes or ops", p.Unit)
	}
	if max(len(p.Suite), len(p.Name), len(p.What)) > mostName || min(p.NodeCount, p.Ranks, p.Repeat) < 0 || max(p.NodeCount, p.Ranks) > 1e9 {
		return fmt.Errorf("%d nodes and %d ranks", p.NodeCount, p.Ranks)
	}
	if max(len(p.PerNode), len(p.PerTarget)) > mostOf {
		return fmt.Errorf("%d nodes and %d targets", len(p.PerNode), len(p.PerTarget))
	}
	for _, d := range []Done{p.First, p.Last} {
		if err := d.check(); err != nil {
			return err
		}
	}
	for _, all := range [][]Share{p.PerNode, p.PerTarget} {
		for _, s := range all {
			if err := s.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Share) check() error {
	if len(s.Name) > mostName || len(s.Series) > mostOf || !(s.Every >= 0) || math.IsInf(s.Every, 0) {
		return fmt.Errorf("%.100q has %d intervals of %g s", s.Name, len(s.Series), s.Every)
	}
	return s.Done.check()
}

func (d Done) check() error {
	if !(d.Seconds >= 0) || math.IsInf(d.Seconds, 0) || d.Bytes < 0 || d.Ops < 0 {
		return fmt.Errorf("%d bytes and %d operations in %g s", d.Bytes, d.Ops, d.Seconds)
	}
	return nil
}
