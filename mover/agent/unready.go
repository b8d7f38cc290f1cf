package agent

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/remedy"
)

// unready is why a node can not begin with a task. Its remedy goes by the step that failed.
type unready struct {
	error
	cause string // as remedy has it
}

func (u *unready) Unwrap() error { return u.error }

// Cause is what remedies go by: what the step itself says goes before the step.
func (u *unready) Cause() string {
	var said interface{ Cause() string }
	if errors.As(u.error, &said) && said.Cause() != "" {
		return said.Cause()
	}
	return u.cause
}

// unready says of an error of a step that it is of this node. What only lets the task wait stays as it is.
func (a *Agent) unready(cause string, err error) error {
	var already *unready
	if err == nil || errors.Is(err, errLeaving) || errors.Is(err, mover.ErrHeld) || errors.As(err, &already) {
		return err
	}
	return &mover.Error{Op: "begin on", Location: "node " + a.o.Name, Err: &unready{err, cause}}
}

// startCause is what has to be mended where a worker does not start.
func startCause(err error) string {
	var path *fs.PathError
	var refused sandbox.Refusal
	var silent *sandbox.Unanswered
	switch {
	case errors.As(err, &silent):
		return remedy.DeadMount
	case errors.As(err, &path) && path.Op == "fork/exec" && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM)):
		return remedy.Crowded
	case errors.As(err, &path) && path.Op == "fork/exec":
		return remedy.Program
	case errors.As(err, &refused):
		return remedy.Confined
	}
	return remedy.Worker
}
