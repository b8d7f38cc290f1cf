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

// translation is what a kind of error means to a shell and to a person.
type translation struct {
	kind  error
	code  int
	grave bool
	try   string // what to do about it; "" when there is no general answer
}

// codes is the one translation from kinds of errors to exit codes, gravest first.
// An error of several kinds has the code of the first one. Among failures of items
// those that are not grave only make the result partial.
var codes = []translation{
	{context.Canceled, exitInterrupted, true, "the same command again: it goes on where it stopped"},
	{mover.ErrCorrupt, exitCorrupt, true, "datamove copy --checksum SRC DST to bring the good bytes over again, and a look at the disk or network that changed them"},
	{mover.ErrFull, exitLimit, true, "the same command again when there is room: it goes on where it stopped"},
	{mover.ErrRefused, exitLimit, true, ""},
	{mover.ErrHeld, exitConflict, true, "waiting for the other run, or stopping it"},
	{mover.ErrChanged, exitConflict, true, "the same command again when nobody writes there"},
	{mover.ErrConflict, exitConflict, true, ""},
	{mover.ErrPermission, exitPermission, true, "as a user who may read the source and write the target"},
	{mover.ErrUsage, exitUsage, false, ""},
	{context.DeadlineExceeded, exitTimeout, false, "the same command again: it goes on where it stopped"},
	{mover.ErrTimeout, exitTimeout, false, "the same command again: it goes on where it stopped"},
	{mover.ErrUnreachable, exitUnreachable, false, "datamove doctor LOCATION"},
	{mover.ErrTransient, exitUnreachable, false, "the same command again: it goes on where it stopped"},
	{mover.ErrNotExist, exitNotExist, false, "the spelling, with datamove ls on what is above it"},
	{mover.ErrReleased, exitOther, false, "lfs hsm_restore on the files, or a restoration of the objects, and the same command when they are back; of a file system copy and sync do it by themselves (--released=restore), and --released=skip leaves them out"},
	{mover.ErrUnsupported, exitOther, false, ""},
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
