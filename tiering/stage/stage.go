// Package stage asks the mover for datasets on this node, and holds them there.
//
// Its words: a holder is whoever needs a dataset, by a name that it makes up; its lease keeps the
// replica where it is. [Mover.Stage] can be called again and again: it says how far it is, and
// gives the place when everything is there. [Mover.Keep] renews the leases of holders that are alive.
//
// What is held is in the mover's ledger, and not here: after a restart nothing is lost but since when a holder has waited for what
// was on its way before; it counts as waiting since that was asked for. It knows nothing of Kubernetes or CSI, so that others can ask it, too.
package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Mover stages by a service.
type Mover struct {
	Dial func(context.Context) (*api.Client, error) // called until it succeeds once
	Node string                                     // of node-local tiers, as the mover names it
	// Grace is for how long Keep leaves a lease alone that nobody seems to hold: its holder may be about to. 0 is ten minutes.
	Grace time.Duration

	mu     sync.Mutex
	client *api.Client     // guarded by mu; nil until somebody was there
	waits  map[string]wait // by holder; guarded by mu
	began  time.Time       // when the first holder was remembered; guarded by mu
}

// wait is somebody for whom something is on its way.
type wait struct {
	task  string
	since time.Time
}

const (
	ttl     = 24 * time.Hour  // of a lease; renewed long before
	renewal = time.Hour       // between renewals
	glance  = 8 * time.Second // how long a call waits for what is nearly there
	pause   = time.Second
)

// Source is what is needed.
type Source struct {
	Location string // as on the command line
	Tier     string // "" is the hottest that the node has
}

// Place is where it is.
type Place struct{ Root, Path string }

// Underway is the error for what is not there yet.
type Underway struct {
	Task  string
	Since time.Time // that its holder has waited
	How   string    // how far it is, as Progress says it
}

// Error says how far it is.
func (u *Underway) Error() string {
	return fmt.Sprintf("it is being staged (task %s, for %s): %s", u.Task, units.Duration(time.Since(u.Since)), u.How)
}

// Unwrap makes it something to ask for again.
func (u *Underway) Unwrap() error { return mover.ErrHeld }

// Stage returns where a source is, held for a holder, or an *Underway after some seconds. A staging that failed is told
// once; the next call tries again.
func (m *Mover) Stage(ctx context.Context, s Source, holder string) (Place, error) {
	limit, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	for {
		place, err := m.ask(ctx, s, holder)
		var u *Underway
		if !errors.As(err, &u) || limit.Err() != nil {
			return place, err
		}
		m.await(limit, u.Task)
	}
}

// await waits until a task has ended, or a while where that can not be heard.
func (m *Mover) await(ctx context.Context, task string) {
	c, err := m.service(ctx)
	if err == nil {
		_, err = c.Wait(ctx, task, nil)
	}
	if err == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// service is the mover's. One that is not there when the driver starts may come later.
func (m *Mover) service(ctx context.Context) (*api.Client, error) {
	m.mu.Lock()
	c := m.client
	m.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := m.Dial(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client != nil {
		return m.client, c.Close()
	}
	m.client = c
	return c, nil
}

// Close ends the connection.
func (m *Mover) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client == nil {
		return nil
	}
	return m.client.Close()
}

// ask looks for the lease, then at the task, and then asks for both: who asks twice has two leases.
func (m *Mover) ask(ctx context.Context, s Source, holder string) (Place, error) {
	c, err := m.service(ctx)
	if err != nil {
		return Place{}, err
	}
	for l, err := range c.Leases(ctx, &datamovev1.ListLeasesRequest{Node: m.Node, Holder: holder}) {
		if err != nil {
			return Place{}, err
		}
		m.forget(holder)
		return m.place(ctx, c, l.GetTier(), l.GetLocation())
	}
	if t := m.task(ctx, c, holder); t != nil && !api.Ended(t.GetState()) {
		return Place{}, m.underway(holder, t)
	} else if t.GetState() == datamovev1.TaskState_TASK_STATE_FAILED {
		m.forget(holder)
		return Place{}, failed(t)
	}
	r, err := c.Stage(ctx, &datamovev1.StageRequest{Source: s.Location, Tier: s.Tier, Node: m.Node, LeaseTtl: durationpb.New(ttl), Holder: holder})
	if err != nil {
		return Place{}, err
	}
	if t := r.GetTask(); t != nil {
		return Place{}, m.underway(holder, t)
	}
	m.forget(holder)
	return m.place(ctx, c, r.GetReplica().GetTier(), r.GetReplica().GetLocation())
}

// task is what a holder waits for; nil is nothing that is known.
func (m *Mover) task(ctx context.Context, c *api.Client, holder string) *datamovev1.Task {
	m.mu.Lock()
	w, waits := m.waits[holder]
	m.mu.Unlock()
	if !waits {
		return nil
	}
	t, err := c.GetTask(ctx, &datamovev1.GetTaskRequest{Id: w.task})
	if err != nil {
		return nil // the next question says what is to be said
	}
	return t
}

// failed is how a task ended.
func failed(t *datamovev1.Task) error {
	kind := mover.KindNamed(t.GetErrorKind())
	if kind == nil {
		kind = mover.ErrTransient
	}
	return fmt.Errorf("%w: staging failed (task %s): %s", kind, t.GetId(), mover.Printable(t.GetError()))
}

func (m *Mover) underway(holder string, t *datamovev1.Task) *Underway {
	return &Underway{Task: t.GetId(), Since: m.waiting(holder, t), How: Progress(t)}
}

// waiting remembers for what a holder waits, and returns since when. What was asked for before this process remembered anybody, a holder
// that comes now may have waited for all the time.
func (m *Mover) waiting(holder string, t *datamovev1.Task) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waits == nil {
		m.waits, m.began = map[string]wait{}, time.Now()
	}
	w, known := m.waits[holder]
	if created := t.GetCreateTime().AsTime(); !known && created.Before(m.began) {
		w.since = created
	} else if !known {
		w.since = time.Now()
	}
	w.task = t.GetId()
	m.waits[holder] = w
	return w.since
}

func (m *Mover) forget(holder string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waits, holder)
}

// place is where a location of a tier is on this node.
func (m *Mover) place(ctx context.Context, c *api.Client, tier, location string) (Place, error) {
	tiers, err := c.ListTiers(ctx, &datamovev1.ListTiersRequest{})
	if err != nil {
		return Place{}, err
	}
	path, ok := strings.CutPrefix(location, tier+":")
	for _, t := range tiers.GetTiers() {
		if ok && t.GetName() == tier && (t.GetNode() == "" || t.GetNode() == m.Node) && strings.HasPrefix(t.GetLocation(), "/") {
			return Place{t.GetLocation(), strings.Trim(path, "/")}, nil
		}
	}
	return Place{}, fmt.Errorf("%w: the replica at %s is on no tier that has a directory on this node", mover.ErrUnsupported, mover.Printable(location))
}

// Drop lets go of everything that a holder has.
func (m *Mover) Drop(ctx context.Context, holder string) error {
	m.forget(holder)
	c, err := m.service(ctx)
	if err != nil {
		return err
	}
	for l, err := range c.Leases(ctx, &datamovev1.ListLeasesRequest{Node: m.Node, Holder: holder}) {
		if err != nil {
			return err
		}
		if _, err := c.DropLease(ctx, &datamovev1.DropLeaseRequest{Id: l.GetId()}); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Holders returns the holders that begin with a prefix and have something on this node.
func (m *Mover) Holders(ctx context.Context, prefix string) (all []string, err error) {
	c, err := m.service(ctx)
	if err != nil {
		return nil, err
	}
	for l, err := range c.Leases(ctx, &datamovev1.ListLeasesRequest{Node: m.Node}) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(l.GetHolder(), prefix) {
			all = append(all, l.GetHolder())
		}
	}
	return all, nil
}

// Keep renews, until ctx is over, the leases of holders that begin with a prefix and are alive, and drops those that are
// not: who held them died without saying so.
func (m *Mover) Keep(ctx context.Context, prefix string, alive func(holder string) bool, told func(error)) {
	for {
		if err := m.keep(ctx, prefix, alive); err != nil && ctx.Err() == nil {
			told(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewal):
		}
	}
}

func (m *Mover) keep(ctx context.Context, prefix string, alive func(string) bool) error {
	c, err := m.service(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for l, err := range c.Leases(ctx, &datamovev1.ListLeasesRequest{Node: m.Node}) {
		switch {
		case err != nil:
			return err
		case !strings.HasPrefix(l.GetHolder(), prefix):
			continue
		case alive(l.GetHolder()):
			_, err = c.RenewLease(ctx, &datamovev1.RenewLeaseRequest{Id: l.GetId(), Ttl: durationpb.New(ttl)})
		case time.Since(l.GetCreateTime().AsTime()) < cmp.Or(m.Grace, 10*time.Minute):
			continue
		default:
			_, err = c.DropLease(ctx, &datamovev1.DropLeaseRequest{Id: l.GetId()})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
