package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/local"
	"datamove.dev/mover/location"
	"datamove.dev/mover/wire"
)

// choose finds out who does the task. only names a flag with which it is this
// process in any case; "" is none.
func (t *task) choose(only string) error {
	address, err := t.app.service()
	if err != nil {
		return err
	}
	if t.request.DryRun {
		only = "--dry-run"
	}
	switch {
	case t.order.detach && only != "":
		return usage("--detach and %s exclude each other", only)
	case address == "":
		return t.order.forService()
	case only == "":
		t.at = address
	case !t.app.quiet:
		fmt.Fprintf(t.app.err, "datamove: %s: with %s this process does it, and not the service\n", t.command, only)
	}
	return nil
}

// locate reads a location for who does the task. A service knows its own tiers and
// datasets, but not our working directory.
func (t *task) locate(arg string) (location.Location, error) {
	if t.at != "" {
		return absolute(arg)
	}
	l, err := t.app.locate(arg)
	if l.Scheme == location.Dataset && err != nil {
		err = advise(err, "--service ADDRESS, of the service that knows it")
	}
	return l, err
}

// absolute reads a location and leaves to a service what is in it.
func absolute(arg string) (location.Location, error) {
	l, err := location.Parse(arg)
	if err == nil && l.Scheme == location.POSIX {
		l.Path, err = filepath.Abs(l.Path)
	}
	return l, err
}

// runThere has the service do the task.
func (t *task) runThere(ctx context.Context) error {
	rules, names, err := t.filter.list(t.app.in)
	if err != nil {
		return err
	}
	spec, err := wire.Spec(&t.request, rules, names)
	if err != nil {
		return advise(err, "several lists, or --service none, to do it in this process")
	}
	return t.submit(ctx, spec)
}

// reachAdvice is what to do when the service can not be reached that should do a task.
const reachAdvice = "--service none, to do it in this process; or datamove doctor, which asks the service, too"

// submit gives the task to the service, and waits for it unless it is detached.
func (t *task) submit(ctx context.Context, spec *pb.TaskSpec) error {
	t.order.fill(t.app, spec)
	if err := fits(spec); err != nil {
		return err
	}
	c, err := t.app.dial(ctx, t.at, reachAdvice)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // what was asked has been answered
	return t.begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
		return c.Submit(ctx, &pb.SubmitTaskRequest{Spec: spec, IdempotencyKey: key})
	})
}

// fits finds what can not be said to a service: it has to be text, and not too long.
func fits(spec *pb.TaskSpec) error {
	text, err := proto.Marshal(spec)
	switch {
	case err != nil:
		return advise(usage("a service takes only names, patterns and paths that are UTF-8"), "--service none, to do it in this process")
	case len(text) > api.MaxMessageBytes-1<<10:
		return advise(usage("the names and patterns are too many for one task of a service"), "several lists, or --service none, to do it in this process")
	}
	return nil
}

// begin has the service begin a task, and follows it unless it is detached. Whether
// it has begun is known also when ^C comes in between: the key is asked for again.
func (t *task) begin(ctx context.Context, c *api.Client, call func(ctx context.Context, key string) (*pb.Task, error)) error {
	key := rand.Text()
	begun, err := call(ctx, key)
	if err != nil && ctx.Err() != nil {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		if begun, err = call(again, key); err != nil {
			return advise(errInterrupted, "datamove task list: whether the service has begun the task is not known")
		}
	}
	if err != nil {
		return adviseAsked(err, listTiers)
	}
	return t.begun(ctx, c, begun)
}

// begun goes on with a task that the service has begun.
func (t *task) begun(ctx context.Context, c *api.Client, begun *pb.Task) error {
	t.id = begun.GetId()
	if t.order.detach && ctx.Err() == nil {
		return t.detached(begun)
	}
	return t.follow(ctx, c)
}

// detached tells the id of a task that goes on without us.
func (t *task) detached(begun *pb.Task) error {
	if t.format == formatTable || t.format == formatName {
		_, err := fmt.Fprintln(t.app.out, shown(begun.GetId()))
		return err
	}
	return writeOne(t.app.out, t.format, viewTask(begun))
}

// follow shows the task as if it were done here, and ends as it does.
func (t *task) follow(ctx context.Context, c *api.Client) error {
	return t.work(ctx, func(ctx context.Context, _ local.Request, w *watcher) (local.Report, error) {
		if !t.app.quiet {
			fmt.Fprintf(w.screen, "datamove: %s: task %s\n", t.command, shown(t.id))
		}
		live := &remote{}
		w.sees(live)
		last, err := c.Wait(ctx, t.id, func(now *pb.Task) { live.hear(now); w.hear(now) })
		if ctx.Err() != nil {
			last, err = t.cancel(ctx, c, w)
		}
		if err != nil {
			return local.Report{}, advise(err, "datamove task wait "+shown(t.id)+", when the service is there again: the task goes on")
		}
		return t.end(w, last)
	})
}

// cancelTime is how long a task that is cancelled may take to end, before we go.
const cancelTime = 15 * time.Second

// cancel ends the task, because whoever waits for it was told to stop.
func (t *task) cancel(ctx context.Context, c *api.Client, w *watcher) (*pb.Task, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	say := func(format string, args ...any) {
		fmt.Fprintf(w.screen, "datamove: %s: %s\n", t.command, shown(fmt.Sprintf(format, args...)))
	}
	if _, err := c.CancelTask(ctx, &pb.CancelTaskRequest{Id: t.id}); err != nil {
		say("task %s is not cancelled, and may go on: %v", t.id, err)
		return nil, err
	}
	last, err := c.Wait(ctx, t.id, nil)
	switch {
	case err != nil:
		say("task %s is being cancelled: %v", t.id, err)
	case last.GetState() == pb.TaskState_TASK_STATE_CANCELLED:
		say("task %s is cancelled; what is done stays", t.id)
	}
	return last, err
}

// end is what became of the task.
func (t *task) end(w *watcher, last *pb.Task) (local.Report, error) {
	t.last = last
	report := wire.LocalReport(last.GetReport())
	for _, it := range report.Failures { // of all others nothing is said by name
		w.Item(it)
	}
	return report, endOf(last)
}

// endOf makes of a task that has ended the error that decides the exit code; nil when
// all is there.
func endOf(t *pb.Task) error {
	e := &ended{text: t.GetError(), code: int(t.GetExitCode())}
	switch {
	case t.GetState() == pb.TaskState_TASK_STATE_DONE && e.code == 0:
		return nil
	case t.GetState() == pb.TaskState_TASK_STATE_CANCELLED:
		e.text, e.code = "task "+t.GetId()+" is cancelled", exitInterrupted
		return advise(e, "the same command again: it goes on where it stopped")
	case e.code == 0:
		e.code = exitOther
	}
	if e.text == "" {
		e.text = "task " + t.GetId() + " has failed"
	}
	e.kind = kindOf(e.code)
	for _, f := range t.GetReport().GetFailures() {
		e.kind = local.Gravest(e.kind, wire.Err(f.GetErrorKind(), f.GetError()))
	}
	if adviceFor(e) == "" {
		return advise(e, "datamove task show "+t.GetId())
	}
	return e
}

// remote is what is known of a task that is done elsewhere. It is a local.Live.
type remote struct{ now atomic.Pointer[pb.Progress] }

func (r *remote) hear(t *pb.Task) { r.now.Store(t.GetProgress()) }

// Snapshot implements local.Live.
func (r *remote) Snapshot() local.Snapshot { return wire.Snapshot(r.now.Load()) }

// hear is told how a task of the service stands.
func (w *watcher) hear(t *pb.Task) {
	switch t.GetState() {
	case pb.TaskState_TASK_STATE_QUEUED:
		w.waits("queued", t.GetWhy())
	case pb.TaskState_TASK_STATE_PAUSED:
		w.waits("paused", t.GetWhy())
	default:
		w.State(local.Phase(t.GetPhase()), t.GetWhy())
	}
}
