package csi

import (
	"context"
	"fmt"
	"time"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// Staging brings datasets to this node, and keeps them there. It is the mover, asked through
// its API; it knows nothing of Kubernetes.
type Staging interface {
	// Stage asks for what a source holds, for a holder, whose it is until Drop. While it is on its way the
	// error is a *Underway; a call that comes again asks for the same.
	Stage(ctx context.Context, source volume.Source, holder string) (Staged, error)
	// Drop says that a holder does not need it any more. Nothing held is dropped.
	Drop(ctx context.Context, holder string) error
}

// Staged is where a dataset is on this node.
type Staged struct {
	Root string // of the tier
	Path string // below Root
}

// Underway is the error for what is not there yet.
type Underway struct {
	Task        string
	Done, Total int64 // bytes; 0 and 0 are not known yet
	Left        time.Duration
	Trouble     string // what went wrong and is tried again; ""
}

// Error says how far it is.
func (u *Underway) Error() string {
	text := fmt.Sprintf("it is being staged (task %s)", u.Task)
	if u.Total > 0 {
		text += fmt.Sprintf(", %d of %d bytes are there", u.Done, u.Total)
	}
	if u.Trouble != "" {
		text += "; " + mover.Printable(u.Trouble)
	}
	return text
}

// Unwrap makes it something to ask for again.
func (u *Underway) Unwrap() error { return mover.ErrHeld }
