package task

import (
	"cmp"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/units"
)

const schemaItem = "datamove.item/v1"

// Watcher is the engine.Observer of a task.
type Watcher struct {
	Task   *Request
	Out    *cli.Lines
	Screen io.Writer
	live   atomic.Pointer[engine.Live]
	still  atomic.Pointer[still]      // nil while it moves
	retry  atomic.Pointer[retry.Wait] // calls that are tried again; nil is none
	step   atomic.Pointer[string]
	hung   atomic.Pointer[string] // the call that has no answer; nil is none
	tight  atomic.Pointer[string] // what was said of the room at the target before there was none; nil is nothing
}

// still says why nothing moves.
type still struct {
	how string // paused, waiting, or queued
	why string
}

// Item prints what became of an entry, where that is asked for.
func (w *Watcher) Item(it engine.Item) {
	switch {
	case w.Task.Format == cli.FormatJSONL:
		v := viewItem(it)
		v.Schema = schemaItem
		w.Out.JSON(v)
	case w.Task.Format == cli.FormatName && it.Err == nil:
		w.Out.Printf("%s", mover.Printable(it.Name))
	case w.Task.Format == cli.FormatTable && w.Task.App.Verbose && it.Err == nil:
		w.Out.Printf("%-8s %10s  %s%s", it.Op, SizeText(it.Kind, it.Bytes), mover.Printable(it.Name), WhyText(it.Why))
	}
}

// Show begins to show the counters of a task.
func (w *Watcher) Show(live engine.Live) { w.live.Store(&live) }

// WhyText is a reason behind a line.
func WhyText(text string) string {
	if text == "" {
		return ""
	}
	return "  (" + text + ")"
}

// SizeText is the bytes of a file, or else what it is.
func SizeText(kind mover.Kind, bytes int64) string {
	if kind == mover.File {
		return units.Bytes(bytes)
	}
	return kind.String()
}

// State remembers why a task pauses, and says so once; and its last steps.
func (w *Watcher) State(phase engine.Phase, reason string) {
	if phase == engine.Paused && w.tight.Load() != nil { // it was said before, and the progress shows it
		w.still.Store(&still{string(phase), cli.Shown(reason)})
		return
	}
	if phase == engine.Paused || phase == engine.Waiting {
		w.waits(string(phase), reason)
		return
	}
	w.still.Store(nil)
	if reason != "" {
		w.warns(cli.Shown(reason))
	}
	switch phase {
	case engine.Removing, engine.Closing:
		step := string(phase)
		w.step.Store(&step)
	case engine.Locking, engine.Moving, "": // a task of a service may begin once more
		w.step.Store(nil)
	}
}

// Retries implements engine.RetryObserver.
func (w *Watcher) Retries(wait *retry.Wait) { w.retry.Store(wait) }

// waits says once why nothing moves.
func (w *Watcher) waits(how, why string) {
	now := still{how, cli.Shown(why)}
	if before := w.still.Swap(&now); why != "" && (before == nil || *before != now) {
		fmt.Fprintf(w.Screen, "datamove: %s: %s: %s\n", w.Task.Command, how, now.why)
	}
}

// warns says once that there will be too little room.
func (w *Watcher) warns(text string) {
	if before := w.tight.Swap(&text); (before == nil || *before != text) && !w.Task.App.Quiet {
		fmt.Fprintf(w.Screen, "datamove: %s: %s\n", w.Task.Command, text)
	}
}

// hangs shows a call that has no answer, until it has: "" is none.
func (w *Watcher) hangs(why string, once bool) {
	if why == "" {
		w.hung.Store(nil)
		return
	}
	why = cli.Shown(why)
	w.hung.Store(&why)
	if once && !w.Task.App.Quiet {
		fmt.Fprintf(w.Screen, "datamove: %s: waiting: %s\n", w.Task.Command, why)
	}
}

func (w *Watcher) sample() progress.Sample {
	var s progress.Sample
	if step := w.step.Load(); step != nil {
		s.Step = *step
	}
	switch still := w.still.Load(); {
	case still == nil:
	case still.how == "paused":
		s.Paused = cmp.Or(still.why, "by a person")
	case still.how == string(engine.Waiting):
		s.WaitsFor = still.why
	default:
		s.Step = still.how
	}
	if wait := w.retry.Load(); wait != nil && s.Paused == "" {
		s.WaitsFor = cli.Shown(wait.State(time.Now()))
	}
	if hung := w.hung.Load(); hung != nil && s.Paused == "" {
		s.WaitsFor = *hung
	}
	live := w.live.Load()
	if live == nil {
		return s
	}
	n := (*live).Snapshot()
	s.Work, s.Rates, s.Failed = n.Work(), n.Rates, n.Failed
	s.Waits = progress.Waits{Source: n.SourceWait, Target: n.TargetWait, Link: n.LinkWait, Limit: n.LimitWait, Turn: n.QueueWait}
	s.Slowest, s.SlowestFor = n.Slowest, n.SlowestSince
	return s
}
