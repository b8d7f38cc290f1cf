package service

import (
	"strings"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/access"
	"datamove.dev/mover/task"
)

// TestReadsAfterWriters: a task that reads a place waits for those before it that bring data there, and says so; it does not take a part for the whole.
func TestReadsAfterWriters(t *testing.T) {
	const (
		copies, syncs, verifies = pb.TaskKind_TASK_KIND_COPY, pb.TaskKind_TASK_KIND_SYNC, pb.TaskKind_TASK_KIND_VERIFY
		begins, waits           = "begins", "waits"
	)
	out := &pb.TaskSpec{Kind: copies, Source: "scratch:out", Target: "project:chain", Node: "n1"}
	in := &pb.TaskSpec{Kind: copies, Source: "project:chain", Target: "scratch:in", Node: "n2"}
	led := func(d *desk, w *pb.Task) { d.give() }
	kept := func(*desk, *pb.Task) {}
	paused := func(d *desk, w *pb.Task) {
		_, err := d.PauseTask(root, &pb.PauseTaskRequest{Id: w.GetId()})
		wants(d.t.(*testing.T), "pause", err, nil)
	}
	ends := func(failed error) func(*desk, *pb.Task) {
		return func(d *desk, w *pb.Task) { wants(d.t.(*testing.T), "finish", d.finish(w.GetId(), 1, failed), nil) }
	}
	cancels := func(d *desk, w *pb.Task) {
		_, err := d.CancelTask(root, &pb.CancelTaskRequest{Id: w.GetId()})
		wants(d.t.(*testing.T), "cancel", err, nil)
	}
	restarts := func(d *desk, _ *pb.Task) { d.close(); d.open() }
	again := func(d *desk, w *pb.Task) {
		made, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: w.GetSpec()})
		_ = d.done(made, err, 1)
	}
	aside := func(does func(*desk, *pb.Task)) func(*desk, *pb.Task) { // while the reader's node takes nothing
		return func(d *desk, w *pb.Task) {
			d.agents["n2"].drain = true
			does(d, w)
			d.agents["n2"].drain = false
		}
	}
	for _, c := range []struct {
		name           string
		writer, reader *pb.TaskSpec
		held           bool                    // the writer is submitted to wait
		first          func(*desk, *pb.Task)   // what happens before the reader is submitted
		then           []func(*desk, *pb.Task) // and after
		want           string
	}{
		{"a running one", out, in, false, led, nil, waits},
		{"a queued one", out, in, false, kept, nil, waits},
		{"a paused one", out, in, false, paused, nil, waits},
		{"one that was submitted to wait promises nothing", out, in, true, kept, nil, begins},
		{"after a restart", out, in, false, led, []func(*desk, *pb.Task){restarts}, waits},
		{"another place", out, &pb.TaskSpec{Kind: copies, Source: "project:chain2", Target: "scratch:in", Node: "n2"}, false, led, nil, begins},
		{"below", out, &pb.TaskSpec{Kind: copies, Source: "project:chain/a", Target: "scratch:in", Node: "n2"}, false, led, nil, waits},
		{"above, as a path", out, &pb.TaskSpec{Kind: syncs, Source: "/lustre", Target: "archive:all"}, false, led, nil, waits},
		{"as a path", out, &pb.TaskSpec{Kind: copies, Sources: []string{"/lustre/project/chain"}, Target: "archive:all"}, false, led, nil, waits},
		{"a bucket in a tier", &pb.TaskSpec{Kind: syncs, Source: "project:in", Target: "archive:x"}, &pb.TaskSpec{Kind: copies, Source: "s3://archive/x/y", Target: "project:y"}, false, led, nil, waits},
		{"a target that is compared", out, &pb.TaskSpec{Kind: verifies, Source: "archive:chain", Target: "project:chain"}, false, led, nil, waits},
		{"a node's own place", &pb.TaskSpec{Kind: copies, Source: "project:in", Target: "scratch:in", Node: "n1"}, &pb.TaskSpec{Kind: copies, Source: "scratch:in", Target: "project:out", Node: "n2"}, false, led, nil, begins},
		{"the same node's", &pb.TaskSpec{Kind: copies, Source: "project:in", Target: "scratch:in", Node: "n1"}, &pb.TaskSpec{Kind: copies, Source: "scratch:in", Target: "project:out", Node: "n1"}, false, led, nil, waits},
		{"two that read what the other writes", &pb.TaskSpec{Kind: copies, Source: "project:b", Target: "project:a"}, &pb.TaskSpec{Kind: copies, Source: "project:a", Target: "project:b"}, false, led, nil, waits},
		{"it has come", out, in, false, led, []func(*desk, *pb.Task){ends(nil)}, begins},
		{"half has come", out, in, false, led, []func(*desk, *pb.Task){ends(mover.ErrPermission)}, "project:chain: task"},
		{"half had come when it was asked for", out, in, false, func(d *desk, w *pb.Task) { led(d, w); ends(mover.ErrPermission)(d, w) }, nil, begins},
		{"half has come, and the rest later", out, in, false, led, []func(*desk, *pb.Task){ends(mover.ErrPermission), aside(again)}, begins},
		{"nothing comes", out, in, false, kept, []func(*desk, *pb.Task){cancels}, begins},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, site(), access.Input{})
			writer, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: c.writer, Paused: c.held})
			wants(t, "submit the writer", err, nil)
			c.first(d, writer)
			d.pass(time.Millisecond)
			reader, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: c.reader})
			wants(t, "submit the reader", err, nil)
			for _, then := range c.then {
				d.pass(time.Millisecond)
				then(d, writer)
			}
			d.give()
			got := d.state(reader.GetId())
			switch {
			case c.want == begins && got.GetState() == task.Running:
			case c.want == waits && got.GetState() == task.Queued && strings.Contains(got.GetWhy(), writer.GetId()):
				e, err := d.ExplainTask(root, &pb.ExplainTaskRequest{Id: got.GetId()})
				if err != nil || !strings.Contains(e.GetText(), writer.GetId()) {
					t.Errorf("it is explained as %q, %v", e.GetText(), err)
				}
			case got.GetState() == task.Failed && strings.Contains(got.GetError(), c.want):
			default:
				t.Errorf("the reader is %v (%s%s), want: %s", got.GetState(), got.GetWhy(), got.GetError(), c.want)
			}
		})
	}
}

// TestReadsInCircle: of tasks that read what each other writes the first one begins.
func TestReadsInCircle(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	var ring []*pb.Task
	for _, x := range [][2]string{{"project:c", "project:a"}, {"project:a", "project:b"}, {"project:b", "project:c"}} {
		made, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: x[0], Target: x[1]}})
		wants(t, "submit", err, nil)
		ring = append(ring, made)
		d.pass(time.Millisecond)
	}
	for i, x := range ring {
		d.give()
		for _, other := range ring[i+1:] {
			if got := d.state(other.GetId()).GetState(); got != task.Queued {
				t.Errorf("in turn %d a later task is %v", i, got)
			}
		}
		_ = d.done(x, nil, 1)
	}
}
