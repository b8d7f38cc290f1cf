package coordinator

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/taskorder"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/seed"
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
			d.scheduler.agents["n2"].drain = true
			does(d, w)
			d.scheduler.agents["n2"].drain = false
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
		{"a path with double slashes and dots", out, &pb.TaskSpec{Kind: copies, Source: "/lustre/./project//chain/a/", Target: "archive:all"}, false, led, nil, waits},
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
			d := newDesk(t, site(), authz.Input{})
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

// TestReadsAfterWhom: a task that reads waits for writers of its own owner and of root, and hears of nothing that others do or have failed to do there.
func TestReadsAfterWhom(t *testing.T) {
	ann, bob := as("ann", 1001), as("bob", 1002)
	kept := func(*desk, *pb.Task) {}
	led := func(d *desk, _ *pb.Task) { d.give() }
	paused := func(d *desk, w *pb.Task) {
		_, err := d.PauseTask(root, &pb.PauseTaskRequest{Id: w.GetId()})
		wants(d.t.(*testing.T), "pause", err, nil)
	}
	fails := func(d *desk, w *pb.Task) {
		wants(d.t.(*testing.T), "finish", d.finish(w.GetId(), 1, mover.ErrPermission), nil)
	}
	for _, c := range []struct {
		name       string
		writer     context.Context
		target     string
		then, last func(*desk, *pb.Task)
		want       pb.TaskState
	}{
		{"its owner's", ann, "project:chain", led, kept, task.Queued},
		{"root's, that is queued", root, "project:chain", kept, kept, task.Queued},
		{"root's, that is running", root, "project:chain", led, kept, task.Queued},
		{"root's, through a link", root, "project:lnk", led, kept, task.Queued},
		{"root's, that has failed", root, "project:chain", led, fails, task.Failed},
		{"a stranger's, that is queued", bob, "project:chain", kept, kept, task.Running},
		{"a stranger's, that is running", bob, "project:chain", led, kept, task.Running},
		{"a stranger's, that is paused", bob, "project:chain", paused, kept, task.Running},
		{"a stranger's, that is paused, through a link", bob, "project:lnk", paused, kept, task.Running},
		{"a stranger's, that has failed", bob, "project:chain", led, fails, task.Running},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, site(), authz.Input{Roles: map[string]authz.Role{"all": {Members: []string{"ann", "bob"}, May: []string{"*"}}}})
			d.links = map[string]string{"/lustre/project/lnk": "/lustre/project/chain"}
			d.close()
			d.open()
			writer, err := d.SubmitTask(c.writer, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "archive:out", Target: c.target}})
			wants(t, "submit the writer", err, nil)
			c.then(d, writer)
			d.pass(time.Millisecond)
			reader, err := d.SubmitTask(ann, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:chain", Target: "scratch:in", Node: "n2"}})
			wants(t, "submit the reader", err, nil)
			d.pass(time.Millisecond)
			c.last(d, writer)
			d.give()
			got := d.state(reader.GetId())
			text := got.GetWhy() + got.GetError()
			if got.GetState() != c.want || strings.Contains(text, writer.GetId()) == (c.want == task.Running) {
				t.Errorf("the reader is %v (%s), want %v", got.GetState(), text, c.want)
			}
			beside, err := d.SubmitTask(ann, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "archive:other", Target: "project:chain"}})
			wants(t, "submit a copy to there", err, nil)
			d.give()
			if got = d.state(beside.GetId()); c.want == task.Running && strings.Contains(got.GetWhy(), writer.GetId()) {
				t.Errorf("a copy to there hears of the writer: %s", got.GetWhy())
			}
		})
	}
}

// TestReadsInCircle: of tasks that read what each other writes the first one begins.
func TestReadsInCircle(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
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

// TestChangesAfterReaders: a task that changes or removes what is at a place waits for those of its owner that were submitted before it and read there or are to
// change it, and says so. Nothing of others stops it, and nothing of the service waits.
func TestChangesAfterReaders(t *testing.T) {
	const copies, syncs, removes, verifies = pb.TaskKind_TASK_KIND_COPY, pb.TaskKind_TASK_KIND_SYNC, pb.TaskKind_TASK_KIND_REMOVE, pb.TaskKind_TASK_KIND_VERIFY
	ann, bob := as("ann", 1001), as("bob", 1002)
	reader := &pb.TaskSpec{Kind: copies, Source: "project:data", Target: "archive:data"}
	saved := &pb.TaskSpec{Kind: copies, Source: "scratch:data/x", Target: "archive:data", Node: "n1"}
	over := &pb.TaskSpec{Kind: syncs, Source: "archive:new", Target: "project:data", Options: &pb.Options{RemoveExtra: true}}
	rm := &pb.TaskSpec{Kind: removes, Target: "project:data"}
	pauses := func(d *desk, id string) {
		_, err := d.PauseTask(root, &pb.PauseTaskRequest{Id: id})
		wants(d.t.(*testing.T), "pause", err, nil)
	}
	kept := func(*desk, string) {}
	led := func(d *desk, _ string) { d.give() }
	ends := func(failed error) func(*desk, string) {
		return func(d *desk, id string) { d.give(); wants(d.t.(*testing.T), "finish", d.finish(id, 1, failed), nil) }
	}
	drained := func(d *desk, _ string) { d.scheduler.agents["n1"].drain = true }
	submit := func(ctx context.Context, spec *pb.TaskSpec, held bool) func(*desk) (*pb.Task, error) {
		return func(d *desk) (*pb.Task, error) {
			return d.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: spec, Paused: held})
		}
	}
	purge := func(ctx context.Context) func(*desk) (*pb.Task, error) {
		return func(d *desk) (*pb.Task, error) {
			return d.datasets.Purge(ctx, &pb.PurgeRequest{Location: "scratch:data", Node: "n1"})
		}
	}
	for _, c := range []struct {
		name          string
		first, second func(*desk) (*pb.Task, error)
		then          func(d *desk, first string) // after both are submitted
		waits         bool
	}{
		{"a sync that removes into what is read", submit(ann, reader, false), submit(ann, over, false), kept, true},
		{"a removal of what is read", submit(ann, reader, false), submit(ann, rm, false), led, true},
		{"a purge of it", submit(ann, saved, false), purge(ann), led, true},
		{"a copy over a part of it", submit(ann, reader, false), submit(ann, &pb.TaskSpec{Kind: copies, Source: "archive:a", Target: "/lustre/project/data/a"}, false), led, true},
		{"a removal of what is around it, as a path", submit(ann, reader, false), submit(ann, &pb.TaskSpec{Kind: removes, Target: "/lustre//project/./"}, false), led, true},
		{"one of several sources", submit(ann, &pb.TaskSpec{Kind: copies, Sources: []string{"project:a", "project:data/b"}, Target: "archive:all"}, false), submit(ann, rm, false), led, true},
		{"one of many sources", submit(ann, &pb.TaskSpec{Kind: copies, Sources: many("project:data/", 40), Target: "archive:all"}, false), submit(ann, rm, false), led, true},
		{"none of many sources", submit(ann, &pb.TaskSpec{Kind: copies, Sources: many("project:other/", 40), Target: "archive:all"}, false), submit(ann, rm, false), led, false},
		{"what is compared", submit(ann, &pb.TaskSpec{Kind: verifies, Source: "archive:data", Target: "project:data"}, false), submit(ann, rm, false), led, true},
		{"names of what is read", submit(ann, &pb.TaskSpec{Kind: copies, Source: "project:data", Target: "archive:data", Options: &pb.Options{Names: []string{"a"}}}, false), submit(ann, rm, false), led, true},
		{"what is read in a bucket", submit(ann, &pb.TaskSpec{Kind: copies, Source: "s3://archive/data/x", Target: "project:x"}, false), submit(ann, &pb.TaskSpec{Kind: removes, Target: "archive:data"}, false), led, true},
		{"another place", submit(ann, reader, false), submit(ann, &pb.TaskSpec{Kind: removes, Target: "project:data2"}, false), led, false},
		{"a reader that is paused", submit(ann, reader, false), submit(ann, rm, false), pauses, true},
		{"a reader that was submitted to wait", submit(ann, reader, true), submit(ann, rm, false), kept, false},
		{"a reader that is done", submit(ann, reader, false), submit(ann, rm, false), ends(nil), false},
		{"a reader that has failed", submit(ann, reader, false), submit(ann, rm, false), ends(mover.ErrPermission), false},
		{"somebody else's reader", submit(bob, reader, false), submit(ann, rm, false), led, false},
		{"somebody else's reader that is paused", submit(bob, reader, false), submit(ann, over, false), pauses, false},
		{"somebody's reader, and root removes", submit(bob, reader, false), submit(root, rm, false), pauses, false},
		{"root's own reader, and root purges", submit(root, saved, false), purge(root), pauses, false},
		{"a later copy to the same place, while the first one can begin", submit(ann, over, false), submit(ann, &pb.TaskSpec{Kind: copies, Source: "scratch:x", Target: "project:data", Node: "n2"}, false), kept, true},
		{"a later copy to the same place, while the first one can not begin", submit(ann, &pb.TaskSpec{Kind: copies, Source: "scratch:x", Target: "project:data", Node: "n1"}, false), submit(ann, over, false), drained, false},
		{"a copy to what is to be removed first", submit(ann, rm, false), submit(ann, over, false), kept, true},
		{"a removal of what is to be copied first", submit(ann, over, false), submit(ann, rm, false), kept, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, site(), authz.Input{Roles: map[string]authz.Role{"all": {Members: []string{"ann", "bob"}, May: []string{"*"}}}})
			first, err := c.first(d)
			wants(t, "submit the first one", err, nil)
			d.pass(time.Millisecond)
			second, err := c.second(d)
			wants(t, "submit the second one", err, nil)
			c.then(d, first.GetId())
			why := d.Service.scheduler.order.Overtakes(d.state(second.GetId()))
			if c.waits != strings.Contains(why, first.GetId()) {
				t.Errorf("it waits because %q, want to wait for the first one: %v", why, c.waits)
			}
		})
	}
}

// TestChangesAfterFailedReaders: a task that waited to change or remove what an earlier one of its owner reads fails where that does not come to its end.
func TestChangesAfterFailedReaders(t *testing.T) {
	const copies, syncs, removes, verifies = pb.TaskKind_TASK_KIND_COPY, pb.TaskKind_TASK_KIND_SYNC, pb.TaskKind_TASK_KIND_REMOVE, pb.TaskKind_TASK_KIND_VERIFY
	ann, bob := as("ann", 1001), as("bob", 1002)
	reads := &pb.TaskSpec{Kind: copies, Source: "project:data", Target: "archive:data"}
	rm := &pb.TaskSpec{Kind: removes, Target: "project:data"}
	type step func(d *desk, reader *pb.Task)
	fails := func(d *desk, r *pb.Task) {
		d.give()
		wants(d.t.(*testing.T), "finish", d.finish(r.GetId(), 1, mover.ErrPermission), nil)
	}
	cancels := func(d *desk, r *pb.Task) {
		_, err := d.CancelTask(root, &pb.CancelTaskRequest{Id: r.GetId()})
		wants(d.t.(*testing.T), "cancel", err, nil)
	}
	pauses := func(d *desk, r *pb.Task) {
		_, err := d.PauseTask(root, &pb.PauseTaskRequest{Id: r.GetId()})
		wants(d.t.(*testing.T), "pause", err, nil)
	}
	done := func(d *desk, r *pb.Task) {
		d.give()
		wants(d.t.(*testing.T), "finish", d.finish(r.GetId(), 1, nil), nil)
	}
	restarts := func(d *desk, _ *pb.Task) { d.close(); d.open() }
	other := func(ctx context.Context, ends bool, change func(*pb.TaskSpec)) step { // the same is read once more, while the remover is not looked at
		return func(d *desk, r *pb.Task) {
			spec := copyOf(r).GetSpec()
			change(spec)
			made, err := d.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: spec, Paused: !ends})
			wants(d.t.(*testing.T), "submit", err, nil)
			if !ends {
				_, err = d.ResumeTask(root, &pb.ResumeTaskRequest{Id: made.GetId()})
				wants(d.t.(*testing.T), "resume", err, nil)
				return
			}
			_ = d.done(made, err, 1)
		}
	}
	same := func(*pb.TaskSpec) {}
	for _, c := range []struct {
		name          string
		reader        *pb.TaskSpec
		held          bool
		by            context.Context
		Before, after []step // the remover is submitted
		remover       *pb.TaskSpec
		want          string // an error; empty: it begins
	}{
		{"a removal, and the reader fails", reads, false, ann, nil, []step{fails}, rm, "is failed: "},
		{"it runs before", reads, false, ann, []step{func(d *desk, _ *pb.Task) { d.give() }}, []step{fails}, rm, "is failed: "},
		{"it is cancelled before it begins", reads, false, ann, nil, []step{cancels}, rm, "is cancelled"},
		{"it is paused and cancelled", reads, false, ann, nil, []step{pauses, cancels}, rm, "is cancelled"},
		{"the service is restarted behind it", reads, false, ann, nil, []step{fails, restarts}, rm, "is failed: "},
		{"the service is restarted before it", reads, false, ann, nil, []step{restarts, fails}, rm, "is failed: "},
		{"a sync that removes", reads, false, ann, nil, []step{fails}, &pb.TaskSpec{Kind: syncs, Source: "archive:new", Target: "project:data", Options: &pb.Options{RemoveExtra: true}}, "is failed: "},
		{"a copy over a part", reads, false, ann, nil, []step{fails}, &pb.TaskSpec{Kind: copies, Source: "archive:new", Target: "/lustre/project/data/a"}, "replace what is there all the same"},
		{"a purge of what is around", &pb.TaskSpec{Kind: copies, Source: "scratch:data/x", Target: "archive:data", Node: "n1"}, false, ann, nil, []step{fails}, &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_PURGE, Target: "scratch:data", Node: "n1"}, "is failed: "},
		{"what is compared", &pb.TaskSpec{Kind: verifies, Source: "archive:data", Target: "project:data"}, false, ann, nil, []step{fails}, rm, "remove what is there all the same"},
		{"one of many sources", &pb.TaskSpec{Kind: copies, Sources: many("project:data/", 40), Target: "archive:all"}, false, ann, nil, []step{fails}, rm, "is failed: "},
		{"another place", reads, false, ann, nil, []step{fails}, &pb.TaskSpec{Kind: removes, Target: "project:data2"}, ""},
		{"a reader that had failed when it was asked for", reads, false, ann, []step{fails}, nil, rm, ""},
		{"a reader that is done", reads, false, ann, nil, []step{done}, rm, ""},
		{"a stranger's", reads, false, bob, nil, []step{fails}, rm, ""},
		{"one that was submitted to wait", reads, true, ann, nil, []step{cancels}, rm, ""},
		{"done again", reads, false, ann, nil, []step{fails, other(ann, true, same)}, rm, ""},
		{"done again in part", reads, false, ann, nil, []step{fails, other(ann, true, func(s *pb.TaskSpec) { s.Options = &pb.Options{Names: []string{"a"}} })}, rm, "is failed: "},
		{"done again by a stranger", reads, false, ann, nil, []step{fails, other(bob, true, same)}, rm, "is failed: "},
		{"to be done again", reads, false, ann, nil, []step{fails, other(ann, false, same)}, rm, "conflict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, site(), authz.Input{Roles: map[string]authz.Role{"all": {Members: []string{"ann", "bob"}, May: []string{"*"}}}})
			reader, err := d.SubmitTask(c.by, &pb.SubmitTaskRequest{Spec: c.reader, Paused: c.held})
			wants(t, "submit the reader", err, nil)
			does := func(steps []step) {
				for _, step := range steps {
					d.pass(time.Millisecond)
					step(d, reader)
				}
				d.pass(time.Millisecond)
			}
			does(c.Before)
			var made *pb.Task
			if c.remover.GetKind() == pb.TaskKind_TASK_KIND_PURGE {
				made, err = d.datasets.Purge(ann, &pb.PurgeRequest{Location: c.remover.GetTarget(), Node: c.remover.GetNode()})
			} else {
				made, err = d.SubmitTask(ann, &pb.SubmitTaskRequest{Spec: c.remover})
			}
			wants(t, "submit the remover", err, nil)
			pauses(d, made) // it is looked at in the end alone
			does(c.after)
			_, err = d.ResumeTask(root, &pb.ResumeTaskRequest{Id: made.GetId()})
			wants(t, "resume the remover", err, nil)
			d.give()
			got := d.state(made.GetId())
			switch {
			case c.want == "" && got.GetState() == task.Running:
			case c.want == "conflict" && got.GetState() == task.Failed && got.GetErrorKind() == mover.KindName(mover.ErrConflict):
			case c.want != "" && got.GetState() == task.Failed && strings.Contains(got.GetError(), reader.GetId()) && strings.Contains(got.GetError(), c.want):
			default:
				t.Errorf("the remover is %v (%s%s), want %q", got.GetState(), got.GetWhy(), got.GetError(), c.want)
			}
		})
	}
}

func many(in string, n int) (places []string) {
	for i := range n {
		places = append(places, in+strconv.Itoa(i))
	}
	return places
}

// TestThroughLinks: tasks whose paths lead to one place over symbolic links keep their order, as agents see these links for the owner.
func TestThroughLinks(t *testing.T) {
	const copies, removes = pb.TaskKind_TASK_KIND_COPY, pb.TaskKind_TASK_KIND_REMOVE
	links := map[string]string{"/lustre/project/lnk": "/lustre/project/b", "/lustre/soft": "/lustre/project/b", "/home/ann/out": "/nvme/out"}
	type asked struct {
		kind         pb.TaskKind
		source, node string
		target       string
	}
	kept := func(*desk, *pb.Task) {}
	led := func(d *desk, _ *pb.Task) { d.give() }
	for _, c := range []struct {
		name          string
		first, second asked
		then          func(*desk, *pb.Task)
		waits         bool
	}{
		{"a running copy through a link", asked{copies, "scratch:x", "n1", "project:lnk/out"}, asked{copies, "project:b/out", "n2", "scratch:in"}, led, true},
		{"a queued one", asked{copies, "scratch:x", "n1", "project:lnk/out"}, asked{copies, "project:b/out", "n2", "scratch:in"}, kept, true},
		{"the reader goes through the link", asked{copies, "scratch:x", "n1", "project:b/out"}, asked{copies, "project:lnk/out/a", "n2", "scratch:in"}, led, true},
		{"the root of the place is a link", asked{copies, "scratch:x", "n1", "/lustre/soft"}, asked{copies, "project:b/out", "n2", "scratch:in"}, led, true},
		{"both go through links", asked{copies, "scratch:x", "n1", "/lustre/soft/out"}, asked{copies, "project:lnk/out", "n2", "scratch:in"}, led, true},
		{"what is above the link", asked{copies, "scratch:x", "n1", "project:lnk"}, asked{copies, "project:b", "", "archive:all"}, led, true},
		{"a node's own place", asked{copies, "project:x", "n1", "/home/ann/out"}, asked{copies, "scratch:out/a", "n1", "archive:in"}, led, true},
		{"that of another node", asked{copies, "project:x", "n1", "/home/ann/out"}, asked{copies, "scratch:out/a", "n2", "archive:in"}, led, false},
		{"a removal of what is read", asked{copies, "project:lnk/data", "", "archive:data"}, asked{kind: removes, target: "project:b/data"}, led, true},
		{"a removal through a link", asked{copies, "project:b/data", "", "archive:data"}, asked{kind: removes, target: "project:lnk/data"}, kept, true},
		{"a removal of the link alone", asked{copies, "project:b/data", "", "archive:data"}, asked{kind: removes, target: "project:lnk"}, led, false},
		{"two copies to one place", asked{copies, "archive:x", "", "project:lnk/out"}, asked{copies, "archive:y", "", "project:b/out"}, led, true},
		{"elsewhere", asked{copies, "scratch:x", "n1", "project:lnk/out"}, asked{copies, "project:c/out", "n2", "scratch:in"}, led, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, site(), authz.Input{Roles: map[string]authz.Role{"all": {Members: []string{"ann"}, May: []string{"*"}}}})
			d.links = links
			d.close()
			d.open()
			var tasks []*pb.Task
			for _, x := range []asked{c.first, c.second} {
				made, err := d.SubmitTask(as("ann", 1001), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: x.kind, Source: x.source, Target: x.target, Node: x.node}})
				wants(t, "submit", err, nil)
				tasks = append(tasks, made)
				if len(tasks) == 1 {
					c.then(d, made)
				}
				d.pass(time.Millisecond)
			}
			d.give()
			first, second := d.state(tasks[0].GetId()), d.state(tasks[1].GetId())
			if first.GetState() != task.Running || second.GetState() == task.Running == c.waits {
				t.Errorf("they are %v and %v (%s), want the second one to wait: %v", first.GetState(), second.GetState(), second.GetWhy(), c.waits)
			}
			if c.waits && !strings.Contains(second.GetWhy(), first.GetId()) {
				t.Errorf("the second one waits because %q", second.GetWhy())
			}
			d.close()
			d.open()
			d.give()
			if got := d.state(tasks[1].GetId()); got.GetState() == task.Running == c.waits {
				t.Errorf("after a restart the second one is %v (%s)", got.GetState(), got.GetWhy())
			}
			_ = d.done(first, nil, 1)
			d.give()
			if got := d.state(tasks[1].GetId()); got.GetState() != task.Running {
				t.Errorf("after the first one the second one is %v (%s)", got.GetState(), got.GetWhy())
			}
		})
	}
}

// TestLinksAreNotSeen: a task waits for a moment only for an agent that does not say where links lead, and no word counts of an agent that was not asked.
func TestLinksAreNotSeen(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.links, d.deaf = map[string]string{"/lustre/project/lnk": "/lustre/project/b"}, true
	d.close()
	d.open()
	submit := func(source, target string) *pb.Task {
		made, err := d.SubmitTask(as("ann", 1001), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: source, Target: target, Node: "n1"}})
		wants(t, "submit", err, nil)
		d.pass(time.Millisecond)
		return made
	}
	is := func(made *pb.Task, want pb.TaskState, why string) {
		t.Helper()
		if got := d.state(made.GetId()); got.GetState() != want || !strings.Contains(got.GetWhy(), why) {
			t.Errorf("it is %v (%s), want %v (%s)", got.GetState(), got.GetWhy(), want, why)
		}
	}
	first := submit("scratch:x", "project:lnk")
	d.give()
	is(first, task.Running, "") // it is alone
	second := submit("project:b", "scratch:in")
	d.give()
	d.pass(realTold)
	d.give()
	is(second, task.Queued, "agent n1 looks where links lead in the paths of task "+first.GetId())
	answer := &agentv1.TellRealRequest{Tasks: []string{first.GetId()}, Places: []*agentv1.RealPlace{{Task: first.GetId(), Location: "project:lnk", Real: "/lustre/project/b"}}}
	_, err := d.paths.TellReal(asAgent("n2"), answer)
	wants(t, "tell", err, nil)
	d.paths.learnReal(context.Background())
	is(first, task.Running, "")
	if got := d.state(first.GetId()).GetRealPaths(); len(got) != 0 {
		t.Errorf("of an agent that was not asked %v is believed", got)
	}
	d.pass(realPatience)
	d.give()
	d.give()
	is(second, task.Running, "")
}

// TestOrderByPlace: of tasks of one person on a few places none begins before an earlier one that it would spoil or read half of, and all of them end.
func TestOrderByPlace(t *testing.T) {
	const copies, syncs, verifies, removes = pb.TaskKind_TASK_KIND_COPY, pb.TaskKind_TASK_KIND_SYNC, pb.TaskKind_TASK_KIND_VERIFY, pb.TaskKind_TASK_KIND_REMOVE
	kinds := []pb.TaskKind{copies, copies, syncs, verifies, removes}
	names := []string{"project:a", "project:a/x", "project:b", "project:b/y", "project:lnk/y", "/lustre/project/lnk/z", "/lustre/soft/a/x", "project:c"}
	links := map[string]string{"/lustre/project/lnk": "/lustre/project/b", "/lustre/soft": "/lustre/project"}
	d := newDesk(t, site(), authz.Input{})
	d.links = links
	d.close()
	d.open()
	real := func(text string) string {
		at := placement.Address(text, "", d.conf)
		for from, to := range links {
			at = strings.Replace(at, ":"+from+"/", ":"+to+"/", 1)
		}
		return at
	}
	touches := func(spec *pb.TaskSpec) (reads, changes []string) {
		switch spec.GetKind() {
		case removes:
			return nil, []string{real(spec.GetTarget())}
		case verifies:
			return []string{real(spec.GetSource()), real(spec.GetTarget())}, nil
		}
		return []string{real(spec.GetSource())}, []string{real(spec.GetTarget())}
	}
	spoils := func(early, late *pb.Task) bool {
		reads, changes := touches(early.GetSpec())
		lateReads, lateChanges := touches(late.GetSpec())
		return early.GetSpec().GetKind() != removes && taskorder.Meet(changes, lateReads) || taskorder.Meet(reads, lateChanges) || taskorder.Meet(changes, lateChanges)
	}
	random := seed.Rand(t)
	var all []*pb.Task
	for len(all) < 40 {
		spec := &pb.TaskSpec{Kind: kinds[random.IntN(len(kinds))], Source: names[random.IntN(len(names))], Target: names[random.IntN(len(names))]}
		if spec.GetKind() == removes {
			spec.Source = ""
		} else if taskorder.Meet([]string{real(spec.GetSource())}, []string{real(spec.GetTarget())}) {
			continue
		}
		made, err := d.SubmitTask(as("ann", 1001), &pb.SubmitTaskRequest{Spec: spec})
		wants(t, "submit", err, nil)
		all = append(all, made)
		d.pass(time.Millisecond)
	}
	for left := all; len(left) > 0; {
		d.give()
		if len(d.taken) == 0 {
			t.Fatalf("nothing begins of %v", left)
		}
		for i, late := range left {
			for _, early := range left[:i] {
				if d.taken[late.GetId()] != nil && spoils(early, late) {
					t.Errorf("%v begins before %v", late, early)
				}
			}
		}
		var rest []*pb.Task
		for _, x := range left {
			if d.taken[x.GetId()] == nil {
				rest = append(rest, x)
				continue
			}
			wants(t, "finish", d.finish(x.GetId(), 1, nil), nil)
		}
		left = rest
	}
}
