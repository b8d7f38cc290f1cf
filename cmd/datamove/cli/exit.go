package cli

import (
	"context"
	"errors"
	"slices"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// The exit codes (DESIGN, "Words on the command line").
const (
	exitOther       = 1
	exitUsage       = 2
	exitNotExist    = 3
	exitPermission  = 4
	exitConflict    = 5
	exitPartial     = 6
	exitLimit       = 7
	exitUnreachable = 8
	exitCorrupt     = 9
	exitTimeout     = 10
	exitInterrupted = 130
)

// translation is what a kind of error means to a shell.
type translation struct {
	kind  error
	code  int
	grave bool
}

// codes is the one translation from kinds of errors to exit codes, gravest first.
// An error of several kinds has the code of the first one. Among failures of items
// those that are not grave only make the result partial.
var codes = []translation{
	{context.Canceled, exitInterrupted, true},
	{mover.ErrCorrupt, exitCorrupt, true},
	{mover.ErrFull, exitLimit, true},
	{mover.ErrRefused, exitLimit, true},
	{mover.ErrHeld, exitConflict, true},
	{mover.ErrChanged, exitConflict, true},
	{mover.ErrConflict, exitConflict, true},
	{mover.ErrPermission, exitPermission, true},
	{mover.ErrUsage, exitUsage, false},
	{context.DeadlineExceeded, exitTimeout, false},
	{mover.ErrTimeout, exitTimeout, false},
	{mover.ErrUnreachable, exitUnreachable, false},
	{mover.ErrTransient, exitUnreachable, false},
	{mover.ErrNotExist, exitNotExist, false},
	{mover.ErrReleased, exitOther, false},
	{mover.ErrUnsupported, exitOther, false},
}

// partial says that some items of a task failed. Each was told before.
type partial struct {
	failed int64
	err    error // the gravest of the failures; nil is not known
	differ bool  // they were compared: "failed" would mislead
}

func (p *partial) Error() string {
	if p.differ {
		return units.Plural(p.failed, "item differs or could not be read", "items differ or could not be read")
	}
	return units.Plural(p.failed, "item failed", "items failed")
}

func (p *partial) Unwrap() error { return p.err }

// ended says that a task of the service has ended otherwise than all there, all
// verified. What a process of its own would have returned is what the service says.
type ended struct {
	text string
	code int
	kind error // the gravest that is known of what failed; nil is not known
}

func (e *ended) Error() string { return e.text }
func (e *ended) Unwrap() error { return e.kind }

// exitCode translates an error.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	var end *ended
	if errors.As(err, &end) {
		return end.code
	}
	var some *partial
	items := errors.As(err, &some)
	for _, c := range codes {
		if (c.grave || !items) && errors.Is(err, c.kind) {
			return c.code
		}
	}
	if items {
		return exitPartial
	}
	return exitOther
}

// kindOf is the one kind of error that has an exit code; nil when there are several.
func kindOf(code int) (kind error) {
	for _, c := range codes {
		switch {
		case c.code != code:
		case kind != nil:
			return nil
		default:
			kind = c.kind
		}
	}
	return kind
}

// gravity has every exit code, the least grave first.
var gravity = []int{0, exitOther, exitNotExist, exitUnreachable, exitTimeout, exitUsage, exitPartial,
	exitPermission, exitConflict, exitLimit, exitCorrupt, exitInterrupted}

// graver returns the one of two exit codes that counts. What is unknown has failed.
func graver(a, b int) int {
	weight := func(code int) int {
		if i := slices.Index(gravity, code); i >= 0 {
			return i
		}
		return slices.Index(gravity, exitOther)
	}
	if weight(b) > weight(a) {
		return b
	}
	return a
}
