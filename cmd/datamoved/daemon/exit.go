package daemon

import (
	"context"
	"errors"

	"datamove.dev/mover"
	"datamove.dev/mover/remedy"
)

// exit is what a kind of error means to a shell.
type exit struct {
	kind error
	code int
}

// exits is the one translation from kinds of errors to exit codes (DESIGN, "Words on
// the command line"). An error of several kinds has the code of the first one.
var exits = []exit{
	{context.Canceled, 130},
	{mover.ErrCorrupt, 9},
	{mover.ErrFull, 7},
	{mover.ErrRefused, 7},
	{mover.ErrHeld, 5},
	{mover.ErrChanged, 5},
	{mover.ErrConflict, 5},
	{mover.ErrPermission, 4},
	{mover.ErrUsage, 2},
	{context.DeadlineExceeded, 10},
	{mover.ErrTimeout, 10},
	{mover.ErrUnreachable, 8},
	{mover.ErrTransient, 8},
	{mover.ErrNotExist, 3},
	{mover.ErrReleased, 1},
	{mover.ErrUnsupported, 1},
}

// exitCode translates an error.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	for _, c := range exits {
		if errors.Is(err, c.kind) {
			return c.code
		}
	}
	return 1
}

// adviceFor is what to try after an error; "" when there is nothing to say.
func adviceFor(err error) string {
	var a interface{ Advice() string }
	if errors.As(err, &a) {
		return a.Advice()
	}
	for _, c := range exits {
		if errors.Is(err, c.kind) {
			return remedy.For(remedy.Case{Kind: c.kind, Backend: remedy.Data})
		}
	}
	return ""
}

// advised is an error with a way out.
type advised struct {
	error
	try string
}

// Advice is the way out.
func (e *advised) Advice() string { return e.try }

func (e *advised) Unwrap() error { return e.error }
