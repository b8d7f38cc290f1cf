package loadgen

import (
	"errors"
	"slices"
	"time"

	"datamove.dev/mover"
)

// Result is what the ranks of one node did in a phase.
type Result struct {
	Begun     time.Duration   `json:"begun"` // after the common start
	Ends      []time.Duration `json:"ends"`  // by rank: when it had nothing left to do, after the common start; 0 of one that never had
	End       time.Duration   `json:"end"`   // when all was done, and synced
	Files     int64           `json:"files"`
	Wrong     int64           `json:"wrong"` // blocks that are not what was written
	Have      []Have          `json:"have"`  // of its ranks
	Every     time.Duration   `json:"every"`
	Targets   []Series        `json:"targets"`
	Histogram string          `json:"histogram"` // of nanoseconds, as HdrHistogram writes it: V2, in base64
	CPU       time.Duration   `json:"cpu"`       // of this process
	PeakBytes int64           `json:"peak"`      // that it ever had in memory
	Cache     string          `json:"cache"`
	Kind      string          `json:"kind,omitempty"` // of what has failed: mover.KindName
	Failed    string          `json:"failed,omitempty"`
}

// Bytes is all that was moved.
func (r *Result) Bytes() (n int64) {
	for _, s := range r.Targets {
		n += sum(s.Bytes)
	}
	return n
}

// Ops is all that was done.
func (r *Result) Ops() (n int64) {
	for _, s := range r.Targets {
		n += sum(s.Ops)
	}
	return n
}

func sum(v []int64) (n int64) {
	for _, x := range v {
		n += x
	}
	return n
}

// Of says whether this can be what a node did in a phase: it may come from another host. One that has failed may say nothing else.
func (r *Result) Of(w *Work, targets int) bool {
	if r.Failed != "" && r.Every == 0 && len(r.Targets) == 0 {
		return true
	}
	for _, s := range r.Targets {
		if len(s.Bytes) != len(s.Ops) || len(s.Bytes) > 2*mostPoints || slices.ContainsFunc(slices.Concat(s.Bytes, s.Ops), func(n int64) bool { return n < 0 }) {
			return false
		}
	}
	return r.Every >= firstEvery && r.End >= 0 && len(r.Targets) == targets && len(r.Have) == w.Ranks && len(r.Ends) == w.Ranks && min(r.Files, r.Wrong, r.PeakBytes) >= 0
}

// fails says why a phase has not come to its end.
func (r *Result) fails(err error) {
	if err != nil {
		r.Kind, r.Failed = mover.KindName(err), err.Error()
	}
}

// Err is what has failed, of its kind.
func (r *Result) Err() error {
	if r.Failed == "" {
		return nil
	}
	return Fault(r.Kind, r.Failed)
}

// Fault is an error that another process has told: a kind by its name, and words.
func Fault(kind, text string) error {
	if err := mover.KindNamed(kind); err != nil {
		return &told{text, err}
	}
	return errors.New(text)
}

// told prints what was told, which names its kind already.
type told struct {
	text string
	kind error
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.kind }
