package datasetclient

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Drop lets go of everything that a holder has, and ends what is on its way to it alone: its space comes back.
func (m *Mover) Drop(ctx context.Context, holder string) error {
	tasks := map[string]bool{}
	m.mu.Lock()
	maps.DeleteFunc(m.waits, func(at where, w wait) bool {
		tasks[w.task] = tasks[w.task] || at.holder == holder
		return at.holder == holder
	})
	m.mu.Unlock()
	maps.DeleteFunc(tasks, func(_ string, its bool) bool { return !its })
	c, err := m.Client(ctx)
	if err == nil {
		err = m.withdraw(ctx, c, holder, tasks)
	}
	if err != nil {
		return err
	}
	return m.drop(ctx, c, holder)
}

// LetGo lets go of what is held. It is asked as its owner.
func (m *Mover) LetGo(ctx context.Context, h Holding) error {
	c, err := m.Client(ctx)
	if err != nil {
		return err
	}
	return m.drop(ctx, c, h.Holder)
}

// account is the account of calls with ctx.
func account(ctx context.Context, c *api.Client) (*datamovev1.Account, error) {
	i, err := c.GetInfo(ctx, &datamovev1.GetInfoRequest{})
	return i.GetCaller(), err
}

// Tasks are those of the tasks that belong to the account which asks, or that it waits for. Every account may put any label on its tasks, and some
// accounts see those of all.
func Tasks(ctx context.Context, c *api.Client, q *datamovev1.ListTasksRequest) iter.Seq2[*datamovev1.Task, error] {
	return func(yield func(*datamovev1.Task, error) bool) {
		me, err := account(ctx, c)
		if err != nil {
			yield(nil, err)
			return
		}
		q.Owner = cmp.Or(me.GetName(), "#"+strconv.FormatUint(uint64(me.GetUid()), 10)) // of an account without a name
		c.Tasks(ctx, q)(yield)
	}
}

// own are those of the leases that belong to the account which asks. Every account may name any holder in a lease of its own.
func own(ctx context.Context, c *api.Client, q *datamovev1.ListLeasesRequest) iter.Seq2[*datamovev1.Lease, error] {
	return func(yield func(*datamovev1.Lease, error) bool) {
		var me *datamovev1.Account // asked for once, and only where there is a lease
		for l, err := range c.Leases(ctx, q) {
			if err == nil && me == nil {
				me, err = account(ctx, c)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if proto.Equal(me, l.GetOwner()) && !yield(l, nil) {
				return
			}
		}
	}
}

// drop drops the leases of a holder. One that can not be dropped keeps no other one.
func (m *Mover) drop(ctx context.Context, c *api.Client, holder string) error {
	var errs []error
	for l, err := range own(ctx, c, &datamovev1.ListLeasesRequest{Node: m.Node, Holder: holder}) {
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if _, err := c.DropLease(ctx, &datamovev1.DropLeaseRequest{Id: l.GetId()}); err != nil && !errors.Is(err, mover.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// withdraw has a holder wait no more, for the tasks that are known and for those that have its label. A task that others wait for goes on for them.
func (m *Mover) withdraw(ctx context.Context, c *api.Client, holder string, tasks map[string]bool) error {
	if m.Label != "" {
		going := []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_QUEUED, datamovev1.TaskState_TASK_STATE_RUNNING, datamovev1.TaskState_TASK_STATE_PAUSED}
		for t, err := range Tasks(ctx, c, &datamovev1.ListTasksRequest{Brief: true, States: going, Labels: map[string]string{m.Label: labelOf(holder)}}) {
			if err != nil {
				return err
			}
			tasks[t.GetId()] = true
		}
	}
	for task := range tasks {
		_, err := c.CancelTask(ctx, &datamovev1.CancelTaskRequest{Id: task, Holder: holder})
		if err != nil && !errors.Is(err, mover.ErrConflict) && !errors.Is(err, mover.ErrNotExist) { // it has ended
			return err
		}
	}
	return nil
}

// labelsOf are those of a staging that is asked for by a holder.
func (m *Mover) labelsOf(holder string) map[string]string {
	if m.Label == "" {
		return m.Labels
	}
	labels := map[string]string{m.Label: labelOf(holder)}
	maps.Copy(labels, m.Labels)
	return labels
}

func labelOf(holder string) string { return digest("holder " + holder) }

// Holders returns the holders that begin with a prefix and have something there, of the account that asks.
func (m *Mover) Holders(ctx context.Context, prefix string) (all []string, err error) {
	c, err := m.Client(ctx)
	if err != nil {
		return nil, err
	}
	for l, err := range own(ctx, c, &datamovev1.ListLeasesRequest{Node: m.Node}) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(l.GetHolder(), prefix) {
			all = append(all, l.GetHolder())
		}
	}
	return all, nil
}

// Holding is what a holder has on a node.
type Holding struct {
	Holder string
	Owner  uint32 // uid of the account that it belongs to
	Place  Staged // zero on a tier that has no directory there, as one that is not configured any more
	Since  time.Time
}

// Held returns what holders that begin with a prefix have there, of all accounts.
func (m *Mover) Held(ctx context.Context, prefix string) (all []Holding, err error) {
	c, err := m.Client(ctx)
	if err != nil {
		return nil, err
	}
	for l, err := range c.Leases(ctx, &datamovev1.ListLeasesRequest{Node: m.Node}) {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(l.GetHolder(), prefix) {
			continue
		}
		at, err := m.place(ctx, c, where{l.GetHolder(), m.Node}, l.GetTier(), l.GetLocation(), l.GetDigest())
		if err != nil && !errors.Is(err, mover.ErrUnsupported) {
			return nil, err
		}
		all = append(all, Holding{l.GetHolder(), l.GetOwner().GetUid(), at, l.GetCreateTime().AsTime()})
	}
	return all, nil
}

// Keep renews, until ctx is over, the leases of holders that begin with a prefix and are alive, and drops those that are
// not. The processes of these died without dropping them. Leases of other accounts are left alone.
func (m *Mover) Keep(ctx context.Context, prefix string, alive func(holder string) bool, told func(error)) {
	for {
		if err := m.keep(ctx, prefix, alive); err != nil && ctx.Err() == nil {
			told(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(m.renewal()):
		}
	}
}

func (m *Mover) keep(ctx context.Context, prefix string, alive func(string) bool) error {
	c, err := m.Client(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for l, err := range own(ctx, c, &datamovev1.ListLeasesRequest{Node: m.Node}) {
		switch {
		case err != nil:
			return err
		case !strings.HasPrefix(l.GetHolder(), prefix):
			continue
		case alive(l.GetHolder()):
			_, err = c.RenewLease(ctx, &datamovev1.RenewLeaseRequest{Id: l.GetId(), Ttl: durationpb.New(m.ttl())})
		case time.Since(l.GetCreateTime().AsTime()) < m.grace():
			continue
		default:
			_, err = c.DropLease(ctx, &datamovev1.DropLeaseRequest{Id: l.GetId()})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
