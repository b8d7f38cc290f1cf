package cli

import (
	"context"
	"crypto/rand"
	"fmt"

	"google.golang.org/protobuf/proto"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
)

// choose finds out which process does the task. only names a flag with which it is this
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
		return mover.Misusef("--detach and %s exclude each other", only)
	case address == "":
		return t.order.forService()
	case only == "":
		t.at = address
	case !t.app.quiet:
		fmt.Fprintf(t.app.err, "datamove: %s: with %s this process does it, and not the service\n", t.command, only)
	}
	return nil
}

// locate reads a location for the process that does the task. A service knows its own tiers and
// datasets, but not our working directory.
func (t *task) locate(arg string) (location.Location, error) {
	if t.at != "" {
		return absolute(arg)
	}
	l, err := t.app.locate(arg)
	if l.IsDataset() && err != nil {
		err = advise(err, "--service ADDRESS, of the service that knows it")
	}
	return l, err
}

// runThere has the service do the task.
func (t *task) runRemote(ctx context.Context) error {
	rules, names, err := t.filter.list(t.app.in)
	if err != nil {
		return err
	}
	spec, err := convert.Spec(&t.request, rules, names)
	if err != nil {
		return advise(err, inSeveral)
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
	err = t.begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
		return c.Submit(ctx, &pb.SubmitTaskRequest{Spec: spec, IdempotencyKey: key})
	})
	return adviseAsked(err, listTiers)
}

// fits finds what can not be said to a service: it has to be text, and not too long.
func fits(spec *pb.TaskSpec) error {
	if _, err := proto.Marshal(spec); err != nil {
		return advise(mover.Misusef("a service takes only names, patterns and paths that are UTF-8"), "--service none, to do it in this process")
	}
	return advise(convert.Fits(spec), inSeveral)
}

// begin has the service begin a task, and follows it unless it is detached. Whether
// it has begun is known also when ^C comes in between: the key is asked for again.
func (t *task) begin(ctx context.Context, c *api.Client, call func(ctx context.Context, key string) (*pb.Task, error)) error {
	defer t.app.HoldEnd()()
	key := rand.Text()
	t.key = key
	begun, err := call(ctx, key)
	if err != nil && ctx.Err() != nil {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		if begun, err = call(again, key); err != nil {
			return advise(errInterrupted, "datamove task list: whether the service has begun the task is not known")
		}
	}
	if err != nil {
		return err
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
