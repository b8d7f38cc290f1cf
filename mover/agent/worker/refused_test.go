package worker

import (
	"errors"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
)

// A run was refused where all of it failed for want of rights, and nothing else was done: any other failure may have changed something.
func TestRefused(t *testing.T) {
	denied := &mover.Error{Op: "remove", Location: "/x", Err: mover.ErrPermission}
	failures := func(errs ...error) (items []engine.Item) {
		for _, err := range errs {
			items = append(items, engine.Item{Err: err})
		}
		return items
	}
	for _, row := range []struct {
		what string
		r    engine.Report
		err  error
		want bool
	}{
		{"the target can not be opened", engine.Report{}, denied, true},
		{"each item", engine.Report{Failed: 2, Failures: failures(denied, denied)}, errors.New("2 items failed"), true},
		{"one was removed", engine.Report{Failed: 1, Removed: 1, Failures: failures(denied)}, errors.New("1 item failed"), false},
		{"one was written", engine.Report{Failed: 1, Files: 1, Failures: failures(denied)}, errors.New("1 item failed"), false},
		{"facts of one were set", engine.Report{Failed: 1, Updated: 1, Failures: failures(denied)}, errors.New("1 item failed"), false},
		{"one may have been removed", engine.Report{Failed: 2, Failures: failures(denied, mover.ErrTransient)}, errors.New("2 items failed"), false},
		{"more than are told", engine.Report{Failed: 2, Failures: failures(denied)}, errors.New("2 items failed"), false},
		{"another error", engine.Report{}, mover.ErrTimeout, false},
		{"it is done", engine.Report{}, nil, false},
	} {
		if got := refused(row.r, row.err); got != row.want {
			t.Errorf("%s: %v", row.what, got)
		}
	}
}
