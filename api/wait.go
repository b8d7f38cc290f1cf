package api

import (
	"context"
	"fmt"
	"io"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Ended reports whether a state is a last one.
func Ended(s datamovev1.TaskState) bool {
	switch s {
	case datamovev1.TaskState_TASK_STATE_DONE, datamovev1.TaskState_TASK_STATE_FAILED, datamovev1.TaskState_TASK_STATE_CANCELLED:
		return true
	}
	return false
}

// Wait follows a task until it has ended, and returns it; how it ended is in the
// task. It calls tell, which may be nil, with the task as it is now and whenever it
// has changed. While the service is away for less than the client's patience, it waits.
func (c *Client) Wait(ctx context.Context, id string, tell func(*datamovev1.Task)) (*datamovev1.Task, error) {
	if tell == nil {
		tell = func(*datamovev1.Task) {}
	}
	p := pauses{until: time.Now().Add(c.patience)}
	var last *datamovev1.Task
	heard := func(t *datamovev1.Task) {
		p = pauses{until: time.Now().Add(c.patience)}
		if t.GetRevision() >= last.GetRevision() {
			last = t
			tell(t)
		}
	}
	for {
		err := c.follow(ctx, id, heard)
		if Ended(last.GetState()) {
			return last, nil
		}
		if err := p.again(ctx, err); err != nil {
			return nil, err
		}
	}
}

// follow hears what there is to hear of a task, until the service ends it.
func (c *Client) follow(ctx context.Context, id string, heard func(*datamovev1.Task)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := c.WatchTask(ctx, &datamovev1.WatchTaskRequest{Id: id})
	for err == nil {
		var t *datamovev1.Task
		if t, err = changes.Recv(); err == nil {
			heard(t)
		}
	}
	if err == io.EOF {
		err = &mover.Error{Op: "watch", Location: id, Err: fmt.Errorf("%w: the service stopped telling", mover.ErrTransient)}
	}
	return err
}
