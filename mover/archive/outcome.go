package archive

import (
	"errors"
	"sync"

	"datamove.dev/mover/engine/transfer"
)

// outcome is what became of the one entry of a run.
type outcome struct {
	mu   sync.Mutex // guards all below
	told bool
	name string
	err  error
}

// Result implements transfer.Observer. The root is told of, too.
func (f *outcome) Result(r transfer.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Entry.Name == "" && r.Err == nil {
		return
	}
	f.told, f.name, f.err = true, r.Entry.Name, errors.Join(f.err, r.Err)
}

// Paused implements transfer.Observer.
func (*outcome) Paused(error) {}

// Step implements transfer.Observer.
func (*outcome) Step(string) {}

var errNotMoved = errors.New("the run has ended without it")

// of is the error of an entry.
func (f *outcome) of(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && (!f.told || f.name != name) {
		return errNotMoved
	}
	return f.err
}
