package main

import (
	"fmt"
	"io"
	"sync/atomic"

	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/cmd/datamove/units"
	"datamove.dev/mover"
	"datamove.dev/mover/local"
)

// watcher is the local.Observer of a task.
type watcher struct {
	task   *task
	out    *lines
	screen io.Writer
	live   atomic.Pointer[local.Live]
	paused atomic.Pointer[string]
	step   atomic.Pointer[string]
}

// Item prints what became of an entry, where that is asked for.
func (w *watcher) Item(it local.Item) {
	switch {
	case w.task.format == formatJSONL:
		v := viewItem(it)
		v.Schema = schemaItem
		w.out.JSON(v)
	case w.task.format == formatName && it.Err == nil:
		w.out.Printf("%s", mover.Printable(it.Name))
	case w.task.format == formatTable && w.task.app.verbose && it.Err == nil:
		w.out.Printf("%-8s %10s  %s%s", it.Op, size(it.Kind, it.Bytes), mover.Printable(it.Name), why(it.Why))
	}
}

func why(text string) string {
	if text == "" {
		return ""
	}
	return "  (" + text + ")"
}

// size is the bytes of a file, or else what it is.
func size(kind mover.Kind, bytes int64) string {
	if kind == mover.File {
		return units.Bytes(bytes)
	}
	return kind.String()
}

// State remembers why a task pauses, and says so once; and its last steps.
func (w *watcher) State(phase local.Phase, reason string) {
	if phase != local.Paused {
		w.paused.Store(nil)
		if phase == local.Removing || phase == local.Closing {
			step := string(phase)
			w.step.Store(&step)
		}
		return
	}
	if before := w.paused.Swap(&reason); before == nil || *before != reason {
		fmt.Fprintf(w.screen, "datamove: %s: paused: %s\n", w.task.command, reason)
	}
}

func (w *watcher) sample() progress.Sample {
	var s progress.Sample
	if why := w.paused.Load(); why != nil {
		s.Paused = *why
	}
	if step := w.step.Load(); step != nil {
		s.Step = *step
	}
	live := w.live.Load()
	if live == nil {
		return s
	}
	n := (*live).Snapshot()
	s.Files, s.Bytes, s.Failed = n.FilesDone, n.BytesDone, n.Failed
	s.PlannedFiles, s.PlannedBytes, s.Complete = n.Planned.Files+n.Planned.Compares, n.Planned.Bytes+n.Planned.CompareBytes, n.PlanComplete
	s.SourceWait, s.TargetWait = n.SourceWait, n.TargetWait
	s.Slowest, s.SlowestFor = n.Slowest, n.SlowestSince
	return s
}
