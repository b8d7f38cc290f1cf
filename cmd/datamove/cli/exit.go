package cli

import (
	"context"
	"errors"
	"slices"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// The exit codes (docs/reference/exit-codes.md).
const (
	ExitOther       = 1
	ExitUsage       = 2
	ExitNotExist    = 3
	ExitPermission  = 4
	ExitConflict    = 5
	ExitPartial     = 6
	ExitLimit       = 7
	ExitUnreachable = 8
	ExitCorrupt     = 9
	ExitTimeout     = 10
	ExitInterrupted = 130
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
	{context.Canceled, ExitInterrupted, true},
	{mover.ErrCorrupt, ExitCorrupt, true},
	{mover.ErrFull, ExitLimit, true},
	{mover.ErrRefused, ExitLimit, true},
	{mover.ErrHeld, ExitConflict, true},
	{mover.ErrChanged, ExitConflict, true},
	{mover.ErrConflict, ExitConflict, true},
	{mover.ErrPermission, ExitPermission, true},
	{mover.ErrUsage, ExitUsage, false},
	{context.DeadlineExceeded, ExitTimeout, false},
	{mover.ErrTimeout, ExitTimeout, false},
	{mover.ErrUnreachable, ExitUnreachable, false},
	{mover.ErrTransient, ExitUnreachable, false},
	{mover.ErrNotExist, ExitNotExist, false},
	{mover.ErrReleased, ExitOther, false},
	{mover.ErrUnsupported, ExitOther, false},
}

// PartialError says that some items of a task failed. Each was told before.
type PartialError struct {
	Failed int64
	Err    error // the gravest of the failures; nil is not known
	Differ bool  // they were compared: "failed" would mislead
}

func (p *PartialError) Error() string {
	if p.Differ {
		return units.Plural(p.Failed, "item differs or could not be read", "items differ or could not be read")
	}
	return units.Plural(p.Failed, "item failed", "items failed")
}

func (p *PartialError) Unwrap() error { return p.Err }

// EndedError says that a task of the service has ended otherwise than all there, all
// verified. What a process of its own would have returned is what the service says.
type EndedError struct {
	Text string
	Code int
	Kind error // the gravest that is known of what failed; nil is not known
}

func (e *EndedError) Error() string { return e.Text }
func (e *EndedError) Unwrap() error { return e.Kind }

// ExitCode translates an error.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var end *EndedError
	if errors.As(err, &end) {
		return end.Code
	}
	var some *PartialError
	items := errors.As(err, &some)
	for _, c := range codes {
		if (c.grave || !items) && errors.Is(err, c.kind) {
			return c.code
		}
	}
	if items {
		return ExitPartial
	}
	return ExitOther
}

// KindOfExit is the one kind of error that has an exit code; nil when there are several.
func KindOfExit(code int) (kind error) {
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
var gravity = []int{0, ExitOther, ExitNotExist, ExitUnreachable, ExitTimeout, ExitUsage, ExitPartial,
	ExitPermission, ExitConflict, ExitLimit, ExitCorrupt, ExitInterrupted}

// GraverExit returns the one of two exit codes that counts. What is unknown has failed.
func GraverExit(a, b int) int {
	weight := func(code int) int {
		if i := slices.Index(gravity, code); i >= 0 {
			return i
		}
		return slices.Index(gravity, ExitOther)
	}
	if weight(b) > weight(a) {
		return b
	}
	return a
}
