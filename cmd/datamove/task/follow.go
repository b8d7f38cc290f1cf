package task

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/remedy"
	tasks "datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// follow shows the task as if it were done here, and ends as it does.
func (t *Request) follow(ctx context.Context, c *api.Client) error {
	return t.Work(ctx, func(ctx context.Context, _ engine.Request, w *Watcher) (engine.Report, error) {
		if !t.App.Quiet {
			fmt.Fprintf(w.Screen, "datamove: %s: task %s\n", t.Command, cli.Shown(t.ID))
		}
		live := &remote{}
		w.Show(live)
		turn, begun := context.WithCancel(ctx)
		var asking sync.WaitGroup
		asking.Go(func() {
			w.asks(turn, func() (*pb.Explanation, error) {
				return c.ExplainTask(turn, &pb.ExplainTaskRequest{Id: t.ID})
			})
		})
		last, err := c.Wait(ctx, t.ID, func(now *pb.Task) { live.hear(now); w.hear(now) })
		begun()
		asking.Wait()
		if ctx.Err() != nil && !api.Ended(last.GetState()) {
			last, err = t.cancel(ctx, c, w)
		}
		if err != nil {
			return engine.Report{}, cli.Advise(err, "datamove task wait "+cli.Shown(t.ID)+", when the service is there again: the task goes on")
		}
		report, err := t.end(w, last)
		return report, t.orNearby(ctx, err)
	})
}

// nearbyTime is how long this machine may take to look for another name.
const nearbyTime = 2 * time.Second

// orNearby is engine.OrNearby, as this machine sees it: the process that did the task is confined to the paths that it was given.
func (t *Request) orNearby(ctx context.Context, err error) error {
	with, silent := cli.Probe(ctx, nearbyTime, t.Target, func(ctx context.Context) (error, error) {
		return engine.OrNearby(ctx, err, t.App.Open, append(t.Engine.Sources, t.Engine.Source, t.Engine.Target)), nil
	})
	if silent != nil {
		return err
	}
	return with
}

// cancelTime is how long a task that is cancelled may take to end, before we go.
const cancelTime = 15 * time.Second

// phaseCancelling is the phase of a running task that was cancelled. A task that other callers wait for
// goes on.
const phaseCancelling = "cancelling"

// cancel ends the task, because this process, which waits for it, was told to stop.
func (t *Request) cancel(ctx context.Context, c *api.Client, w *Watcher) (*pb.Task, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	say := func(format string, args ...any) {
		fmt.Fprintf(w.Screen, "datamove: %s: %s\n", t.Command, cli.Shown(fmt.Sprintf(format, args...)))
	}
	answer, err := c.CancelTask(ctx, &pb.CancelTaskRequest{Id: t.ID, IdempotencyKey: t.key})
	if err != nil {
		if last, lerr := c.GetTask(ctx, &pb.GetTaskRequest{Id: t.ID}); lerr == nil && api.Ended(last.GetState()) {
			return last, nil // it was faster
		}
		say("task %s is not cancelled, and may go on: %v; datamove task cancel %[1]s ends it", t.ID, err)
		return nil, err
	}
	if !api.Ended(answer.GetState()) && answer.GetPhase() != phaseCancelling {
		say("others wait for task %s, too: it goes on for them", t.ID)
		return nil, cli.ErrInterrupted
	}
	last, err := t.ended(ctx, c)
	switch {
	case err != nil:
		say("task %s is being cancelled: %v; datamove task show %[1]s tells how it ended", t.ID, err)
	case last.GetState() == pb.TaskState_TASK_STATE_CANCELLED && tasks.Of(last.GetSpec()).Shared && last.GetDataset() != "":
		say("task %s is cancelled; what was copied goes, because a part of a dataset is none", t.ID)
	case last.GetState() == pb.TaskState_TASK_STATE_CANCELLED:
		say("task %s is cancelled; what is done stays", t.ID)
	}
	return last, err
}

// ended waits until a task that is being cancelled has ended, or the process is told once more to end.
func (t *Request) ended(ctx context.Context, c *api.Client) (*pb.Task, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-t.App.Hurried():
			stop(cli.ErrInterrupted)
		case <-over:
		}
	}()
	last, err := c.Wait(ctx, t.ID, nil)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return last, err
}

// end is what became of the task.
func (t *Request) end(w *Watcher, last *pb.Task) (engine.Report, error) {
	t.Last = last
	report := convert.LocalReport(last.GetReport())
	for _, it := range report.Failures { // of all others nothing is said by name
		w.Item(it)
	}
	return report, EndError(last)
}

// EndError makes of a task that has ended the error that decides the exit code; nil when
// all is there.
func EndError(t *pb.Task) error {
	e := &cli.EndedError{Text: t.GetError(), Code: int(t.GetExitCode())}
	switch {
	case t.GetState() == pb.TaskState_TASK_STATE_DONE && e.Code == 0:
		return nil
	case t.GetState() == pb.TaskState_TASK_STATE_CANCELLED:
		e.Text, e.Code = "task "+t.GetId()+" is "+cmp.Or(t.GetWhy(), "cancelled"), cli.ExitInterrupted
		return cli.Advise(e, "the same command again: it goes on where it stopped")
	case e.Code <= 0 || e.Code > 255: // of which a shell would see a part
		e.Code = cli.ExitOther
	}
	if e.Text == "" {
		e.Text = "task " + t.GetId() + " has failed"
	}
	if e.Kind = mover.KindNamed(t.GetErrorKind()); e.Kind == nil {
		e.Kind = cli.KindOfExit(e.Code)
	}
	for _, f := range t.GetReport().GetFailures() {
		e.Kind = engine.Gravest(e.Kind, convert.Err(f.GetErrorKind(), f.GetError()))
	}
	return cli.Advise(e, cmp.Or(cli.Shown(t.GetReport().GetRemedy()), remedy.About(e), "datamove task show "+t.GetId()))
}

// remote is what is known of a task that is done elsewhere. It is a engine.Live.
type remote struct{ now atomic.Pointer[pb.Progress] }

func (r *remote) hear(t *pb.Task) { r.now.Store(t.GetProgress()) }

// Snapshot implements engine.Live.
func (r *remote) Snapshot() engine.Snapshot { return convert.Snapshot(r.now.Load()) }

// turnTime is how long a task waits for its turn before the service is asked what for, and then asked again.
const turnTime = 2 * time.Second

// asks says what a queued task waits for that has no reason of its own, like an agent that is not there, until ctx ends.
func (w *Watcher) asks(ctx context.Context, explain func() (*pb.Explanation, error)) {
	tick := time.NewTicker(turnTime)
	defer tick.Stop()
	var told string
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := w.still.Load()
		if now == nil || now.how != queued || now.why != "" && now.why != told {
			continue
		}
		e, err := explain()
		text := cli.Shown(e.GetText())
		if try := e.GetAdvice(); try != "" {
			text += "; try: " + cli.Shown(try)
		}
		if err == nil && text != told { // else the service is away, and what follows the task says so
			told = text
			w.waits(queued, told)
		}
	}
}

// queued is how a task waits for its turn.
const queued = "queued"

// hear is told how a task of the service stands.
func (w *Watcher) hear(t *pb.Task) {
	switch t.GetState() {
	case pb.TaskState_TASK_STATE_QUEUED:
		w.waits(queued, t.GetWhy())
	case pb.TaskState_TASK_STATE_PAUSED:
		w.waits("paused", t.GetWhy())
	default:
		w.State(engine.Phase(t.GetPhase()), t.GetWhy())
	}
}
