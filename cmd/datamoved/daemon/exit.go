package daemon

import (
	"context"
	"errors"

	"datamove.dev/mover"
)

// exit is what a kind of error means to a shell and to a person.
type exit struct {
	kind error
	code int
	try  string // what to do about it; "" when there is no general answer
}

// exits is the one translation from kinds of errors to exit codes (DESIGN, "Words on
// the command line"). An error of several kinds has the code of the first one.
var exits = []exit{
	{context.Canceled, 130, ""},
	{mover.ErrCorrupt, 9, "a restore from the last backup, into an empty directory: datamoved restore FILE"},
	{mover.ErrFull, 7, "again when there is room"},
	{mover.ErrRefused, 7, ""},
	{mover.ErrHeld, 5, "stopping the other one first, or another directory and address: --data, --listen"},
	{mover.ErrChanged, 5, ""},
	{mover.ErrConflict, 5, ""},
	{mover.ErrPermission, 4, "as root, or as the user to whom the directory belongs"},
	{mover.ErrUsage, 2, ""},
	{context.DeadlineExceeded, 10, ""},
	{mover.ErrTimeout, 10, ""},
	{mover.ErrUnreachable, 8, ""},
	{mover.ErrTransient, 8, "again in a moment"},
	{mover.ErrNotExist, 3, ""},
	{mover.ErrReleased, 1, ""},
	{mover.ErrUnsupported, 1, ""},
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
			return c.try
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

// usageError is a mistake of the command line. It prints without the name of its
// kind, which says nothing to the person who typed it.
type usageError struct{ error }

func (e *usageError) Unwrap() []error { return []error{e.error, mover.ErrUsage} }
