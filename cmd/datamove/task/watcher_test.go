package task

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/engine"
)

// TestRetriesAreAState: calls that are tried again are one state of the progress, with the place, the cause, and both times.
func TestRetriesAreAState(t *testing.T) {
	now := time.Unix(1e9, 0)
	err := &mover.Error{Op: "open", Location: "s3://b/x", Err: fmt.Errorf("%w: %w", mover.ErrUnreachable, syscall.ECONNREFUSED)}
	wait := &retry.Wait{Err: err, Since: now.Add(-12 * time.Second), Until: now.Add(288 * time.Second)}
	if got, want := wait.State(now), "s3://b/x: connection refused, for 0:12, ends in 4:48"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w := &Watcher{}
	w.Retries(wait)
	if s := w.sample(); !strings.HasPrefix(s.WaitsFor, "s3://b/x: connection refused, for ") {
		t.Errorf("%+v", s)
	}
	w.Retries(nil)
	if s := w.sample(); s != (progress.Sample{}) {
		t.Errorf("when it is over: %+v", s)
	}
}

// TestFullIsToldOnce: what was said of too little room is not said once more when there is none, but by the progress.
func TestFullIsToldOnce(t *testing.T) {
	full := errors.New("write /t/f: no space left on device")
	for _, row := range []struct {
		before string
		want   string
	}{
		{"the run will wait for room: too little", "datamove: copy: the run will wait for room: too little\n"},
		{"", "datamove: copy: paused: write /t/f: no space left on device\n"},
	} {
		var screen bytes.Buffer
		w := &Watcher{Task: &Request{App: &cli.App{}, Command: "copy"}, Screen: &screen}
		for range 2 {
			w.State(engine.Moving, row.before)
			w.State(engine.Paused, full.Error())
		}
		if s := w.sample(); s.Paused != full.Error() {
			t.Errorf("the progress says %+v", s)
		}
		if got := screen.String(); !strings.HasPrefix(got, row.want) || row.before != "" && got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}
