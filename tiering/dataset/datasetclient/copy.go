package datasetclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Order is a copy that the caller needs.
type Order struct {
	Key      string // by which it is found again
	From, To string // locations
	Node     string // the node of node-local tiers; "" is any that reaches both
	Options  *datamovev1.Options
	Labels   map[string]string // beside those of the Mover
	Paused   bool              // it waits until a caller resumes it
	Class    datamovev1.TaskClass
}

// Copy has the mover copy what is at one location to another, once for each key. It returns nil when everything is
// there, and an *Underway before. A copy that failed is told, and begun again at once: the next call
// returns the state of that one.
func (m *Mover) Copy(ctx context.Context, o Order) error {
	last, err := m.Last(ctx, o.Key)
	if err != nil || last.GetState() == datamovev1.TaskState_TASK_STATE_DONE {
		return err
	}
	if last != nil && !api.Ended(last.GetState()) {
		return underway(last)
	}
	c, err := m.Client(ctx)
	if err != nil {
		return err
	}
	labels := map[string]string{}
	maps.Copy(labels, m.Labels)
	maps.Copy(labels, o.Labels)
	labels[m.Label] = digest(o.Key)
	next, err := c.Submit(ctx, &datamovev1.SubmitTaskRequest{IdempotencyKey: digest(m.Label + " " + o.Key + "/" + last.GetId()), Paused: o.Paused, Spec: &datamovev1.TaskSpec{
		Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: o.From, Target: o.To, Node: o.Node, Options: o.Options, Class: o.Class, Labels: labels}})
	switch {
	case err != nil:
		return err
	case last != nil:
		return failed(last)
	}
	return underway(next)
}

// Failed is how a copy has failed; nil when it has not.
func Failed(t *datamovev1.Task) error {
	if t.GetState() != datamovev1.TaskState_TASK_STATE_FAILED {
		return nil
	}
	return failed(t)
}

// Last is the newest copy of a key, of the account that asks; nil is none. The mover finds it by its label, which tasks of other accounts may
// have, too.
func (m *Mover) Last(ctx context.Context, key string) (*datamovev1.Task, error) {
	c, err := m.Client(ctx)
	if err != nil {
		return nil, err
	}
	if m.Label == "" {
		return nil, fmt.Errorf("%w: copies need a label, or those of others would be found by it", mover.ErrUsage)
	}
	for t, err := range Tasks(ctx, c, &datamovev1.ListTasksRequest{PageSize: 1, Brief: true, Labels: map[string]string{m.Label: digest(key)}}) {
		return t, err
	}
	return nil, nil
}

func underway(t *datamovev1.Task) *Underway {
	return &Underway{Task: t.GetId(), Since: t.GetCreateTime().AsTime(), How: Progress(t), Why: t.GetWhy()}
}

// Stop ends the copy of a key: with nil, none goes on.
func (m *Mover) Stop(ctx context.Context, key string) error {
	last, err := m.Last(ctx, key)
	if err != nil || last == nil || api.Ended(last.GetState()) {
		return err
	}
	c, err := m.Client(ctx)
	if err != nil {
		return err
	}
	if _, err := c.CancelTask(ctx, &datamovev1.CancelTaskRequest{Id: last.GetId()}); err != nil && !errors.Is(err, mover.ErrConflict) {
		return err // in conflict is one that ended by itself just now
	}
	ctx, cancel := context.WithTimeout(ctx, m.glance())
	defer cancel()
	_, err = c.Wait(ctx, last.GetId(), nil)
	return err
}

// digest is a key as short as the mover takes them.
func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
