package task

import (
	"context"
	"crypto/rand"
	"fmt"

	"google.golang.org/protobuf/proto"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
)

// ChooseProcess finds out which process does the task. only names a flag with which it is this
// process in any case; "" is none.
func (t *Request) ChooseProcess(only string) error {
	address, err := t.App.Service()
	if err != nil {
		return err
	}
	if t.Engine.DryRun {
		only = "--dry-run"
	}
	switch {
	case t.Service.Detach && only != "":
		return mover.Misusef("--detach and %s exclude each other", only)
	case address == "":
		return t.Service.forService()
	case only == "":
		t.At = address
	case !t.App.Quiet:
		fmt.Fprintf(t.App.Err, "datamove: %s: with %s this process does it, and not the service\n", t.Command, only)
	}
	return nil
}

// Locate reads a location for the process that does the task. A service knows its own tiers and
// datasets, but not our working directory.
func (t *Request) Locate(arg string) (location.Location, error) {
	if t.At != "" {
		return cli.ParseLocation(arg)
	}
	l, err := t.App.Locate(arg)
	if l.IsDataset() && err != nil {
		err = cli.Advise(err, "--service ADDRESS, of the service that knows it")
	}
	return l, err
}

// RunRemote has the service do the task.
func (t *Request) RunRemote(ctx context.Context) error {
	rules, names, err := t.Filter.list(t.App.In)
	if err != nil {
		return err
	}
	spec, err := convert.Spec(&t.Engine, rules, names)
	if err != nil {
		return cli.Advise(err, inSeveral)
	}
	return t.Submit(ctx, spec)
}

// ReachAdvice is what to do when the service can not be reached that should do a task.
const ReachAdvice = "--service none, to do it in this process; or datamove doctor, which asks the service, too"

// Submit gives the task to the service, and waits for it unless it is detached.
func (t *Request) Submit(ctx context.Context, spec *pb.TaskSpec) error {
	t.Service.fill(t.App, spec)
	if err := fits(spec); err != nil {
		return err
	}
	c, err := t.App.Dial(ctx, t.At, ReachAdvice)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // what was asked has been answered
	err = t.Begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
		return c.Submit(ctx, &pb.SubmitTaskRequest{Spec: spec, IdempotencyKey: key})
	})
	return cli.AdviseAsked(err, cli.TierList)
}

// fits finds what can not be said to a service: it has to be text, and not too long.
func fits(spec *pb.TaskSpec) error {
	if _, err := proto.Marshal(spec); err != nil {
		return cli.Advise(mover.Misusef("a service takes only names, patterns and paths that are UTF-8"), "--service none, to do it in this process")
	}
	return cli.Advise(convert.Fits(spec), inSeveral)
}

// Begin has the service begin a task, and follows it unless it is detached. Whether
// it has begun is known also when ^C comes in between: the key is asked for again.
func (t *Request) Begin(ctx context.Context, c *api.Client, call func(ctx context.Context, key string) (*pb.Task, error)) error {
	defer t.App.HoldEnd()()
	key := rand.Text()
	t.key = key
	begun, err := call(ctx, key)
	if err != nil && ctx.Err() != nil {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		if begun, err = call(again, key); err != nil {
			return cli.Advise(cli.ErrInterrupted, "datamove task list: whether the service has begun the task is not known")
		}
	}
	if err != nil {
		return err
	}
	return t.begun(ctx, c, begun)
}

// begun goes on with a task that the service has begun.
func (t *Request) begun(ctx context.Context, c *api.Client, begun *pb.Task) error {
	t.ID = begun.GetId()
	if t.Service.Detach && ctx.Err() == nil {
		return t.detached(begun)
	}
	return t.follow(ctx, c)
}

// detached tells the id of a task that goes on without us.
func (t *Request) detached(begun *pb.Task) error {
	if t.Format == cli.FormatTable || t.Format == cli.FormatName {
		_, err := fmt.Fprintln(t.App.Out, cli.Shown(begun.GetId()))
		return err
	}
	return cli.WriteOne(t.App.Out, t.Format, viewOf(begun))
}
