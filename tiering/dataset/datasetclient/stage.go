// Package datasetclient asks the mover for datasets on a node, and holds them there: for drivers, which live long, and for hooks, which
// live for a second.
//
// Its words: a holder is a user of one dataset on a node, with a name that it makes up. Its lease keeps the
// replica where it is. A client that needs several has a name for each. [Mover.Ask] says at once where it is, or how far; it can be asked again
// and again. [Mover.Stage] waits some seconds for it, [Mover.All] for everything that a client needs, as long as it takes.
// [Mover.Keep] renews the leases of holders that are alive.
//
// A lease counts only for the account that owns it: any account may take one in the name of any holder.
//
// What is held is in the mover's ledger, and not here: after a restart nothing is lost but since when a holder has waited for what
// was on its way before; it counts as waiting since that was asked for. No call outlasts its context. A mover that is not
// there, or does not answer a connection, is mover.ErrUnreachable. An [Away] gives what its host had before even then. It knows nothing of Kubernetes or Slurm. TestAsk and TestAll show it with a mover.
package datasetclient

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
	"datamove.dev/mover/task"
	"datamove.dev/mover/units"
)

// Mover stages by a service. It may be used by many.
type Mover struct {
	Dial func(context.Context) (*api.Client, error) // called until it succeeds once
	// Node is where, for node-local tiers, as the mover names it. Without one each Source says its own, and calls that
	// let go, or look, do so on all nodes.
	Node string
	// Label finds the copies and the stagings that are asked for: a word that no other user of the mover has, as csi-copy. Without one Drop ends only
	// the stagings that this Mover has seen.
	Label  string
	Labels map[string]string // that copies have beside it, to find them by; nil is none
	TTL    time.Duration     // of leases; 0 is a day
	Glance time.Duration     // how long Stage waits for what is nearly there; 0 is 8 seconds
	// Grace is for how long Keep leaves a lease alone that has no live holder: its holder may be about to come. 0 is ten minutes.
	Grace time.Duration

	mu     sync.Mutex
	client *api.Client    // guarded by mu; nil until a Dial succeeded
	waits  map[where]wait // guarded by mu
	began  time.Time      // when the first holder was remembered; guarded by mu
}

// where is a holder on a node.
type where struct{ holder, node string }

// wait is for what is on its way to it.
type wait struct {
	task  string
	since time.Time
}

const (
	renewal = time.Hour // between renewals, where a lease is not a short one
	pause   = time.Second
)

func (m *Mover) ttl() time.Duration     { return cmp.Or(m.TTL, 24*time.Hour) }
func (m *Mover) glance() time.Duration  { return cmp.Or(m.Glance, 8*time.Second) }
func (m *Mover) renewal() time.Duration { return min(renewal, m.ttl()/3) }
func (m *Mover) grace() time.Duration   { return cmp.Or(m.Grace, 10*time.Minute) }

// Source is what is needed.
type Source struct {
	Location string // as on the command line
	Tier     string // "" is the hottest that the node has
	Node     string // "" is that of the Mover
}

// Staged is where a staged source is.
type Staged struct {
	Root, Path string
	Digest     string // of what is there; "" of what is no dataset
	Away       bool   // the coordinator does not know that it is held
}

// Underway is the error for what is not there yet.
type Underway struct {
	Task  string
	Since time.Time // that its holder has waited
	How   string    // how far it is, as Progress says it
	Why   string    // it does not go on; "" is that it does
}

// Error says how far it is.
func (u *Underway) Error() string {
	return fmt.Sprintf("it is on its way (task %s, for %s): %s", u.Task, units.Duration(time.Since(u.Since)), u.How)
}

// Unwrap makes it something to ask for again.
func (u *Underway) Unwrap() error { return mover.ErrHeld }

// Stage returns where a source is, held for a holder, or an *Underway after some seconds, or at the end of ctx. A staging that failed is told
// once; the next call tries again.
func (m *Mover) Stage(ctx context.Context, s Source, holder string) (Staged, error) {
	limit, cancel := context.WithTimeout(ctx, m.glance())
	defer cancel()
	for {
		place, err := m.Ask(ctx, s, holder)
		var u *Underway
		if !errors.As(err, &u) || limit.Err() != nil {
			return place, err
		}
		m.await(limit, u.Task)
		if ctx.Err() != nil {
			return place, err
		}
	}
}

// await waits until a task has ended, or a while where that can not be heard.
func (m *Mover) await(ctx context.Context, task string) {
	if err := m.Follow(ctx, task); err == nil || errors.Is(err, mover.ErrUnreachable) { // the next call returns the error
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// Follow hears of a task until it has ended. It does not wait for a mover that is away, as api.Client.Wait does.
func (m *Mover) Follow(ctx context.Context, task string) error {
	c, err := m.Client(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := c.WatchTask(ctx, &datamovev1.WatchTaskRequest{Id: task})
	for err == nil {
		var t *datamovev1.Task
		if t, err = changes.Recv(); api.Ended(t.GetState()) {
			return nil
		}
	}
	return err
}

// Client is the connection to the mover, which is made once. A mover that is not there may come later.
func (m *Mover) Client(ctx context.Context) (*api.Client, error) {
	m.mu.Lock()
	c := m.client
	m.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := m.Dial(ctx)
	if errors.Is(err, mover.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) { // the service did not answer
		err = fmt.Errorf("%w: %s", mover.ErrUnreachable, err.Error())
	}
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

// Ask returns where a source is, held for a holder, or how far it is, an *Underway, and waits for nothing. It looks at the task, then for
// the lease, which is there when a task is done, and then asks for both: two questions of one holder at the same time make two leases.
func (m *Mover) Ask(ctx context.Context, s Source, holder string) (Staged, error) {
	c, err := m.Client(ctx)
	if err != nil {
		return Staged{}, err
	}
	at := where{holder, cmp.Or(s.Node, m.Node)}
	t := m.task(ctx, c, at)
	for l, err := range own(ctx, c, &datamovev1.ListLeasesRequest{Node: at.node, Holder: holder}) {
		if err != nil {
			return Staged{}, err
		}
		return m.place(ctx, c, at, l.GetTier(), l.GetLocation(), l.GetDigest())
	}
	if t != nil && !api.Ended(t.GetState()) {
		return Staged{}, m.underway(at, t)
	} else if t.GetState() == datamovev1.TaskState_TASK_STATE_FAILED {
		m.forget(at)
		return Staged{}, failed(t)
	}
	r, err := c.Stage(ctx, &datamovev1.StageRequest{Source: s.Location, Tier: s.Tier, Node: at.node, LeaseTtl: durationpb.New(m.ttl()), Holder: holder, Labels: m.labelsOf(holder)})
	if err != nil {
		return Staged{}, err
	}
	if t := r.GetTask(); t != nil {
		return Staged{}, m.underway(at, t)
	}
	return m.place(ctx, c, at, r.GetReplica().GetTier(), r.GetReplica().GetLocation(), r.GetReplica().GetDigest())
}

// task is what a holder waits for; nil is nothing that is known.
func (m *Mover) task(ctx context.Context, c *api.Client, at where) *datamovev1.Task {
	m.mu.Lock()
	w, waits := m.waits[at]
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
	what := "staging"
	if !task.Of(t.GetSpec()).Shared {
		what = "the copy"
	}
	return fmt.Errorf("%w: %s failed (task %s): %s", kind, what, t.GetId(), mover.Printable(t.GetError()))
}

func (m *Mover) underway(at where, t *datamovev1.Task) *Underway {
	return &Underway{Task: t.GetId(), Since: m.waiting(at, t), How: Progress(t), Why: t.GetWhy()}
}

// waiting remembers for what a holder waits, and returns since when. What was asked for before this process remembered anybody, a holder
// that comes now may have waited for all the time.
func (m *Mover) waiting(at where, t *datamovev1.Task) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waits == nil {
		m.waits, m.began = map[where]wait{}, time.Now()
	}
	w, known := m.waits[at]
	if created := t.GetCreateTime().AsTime(); !known && created.Before(m.began) {
		w.since = created
	} else if !known {
		w.since = time.Now()
	}
	w.task = t.GetId()
	m.waits[at] = w
	return w.since
}

func (m *Mover) forget(at where) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waits, at)
}

// place is where a location of a tier is on a node. The directory of a tier is the same on all nodes, and the coordinator knows it also while the agent of the node is away.
func (m *Mover) place(ctx context.Context, c *api.Client, at where, tier, location, digest string) (Staged, error) {
	m.forget(at)
	tiers, err := c.ListTiers(ctx, &datamovev1.ListTiersRequest{})
	if err != nil {
		return Staged{}, err
	}
	path, ok := strings.CutPrefix(location, tier+":")
	for _, t := range tiers.GetTiers() {
		if ok && t.GetName() == tier && strings.HasPrefix(t.GetLocation(), "/") {
			return Staged{t.GetLocation(), strings.Trim(path, "/"), digest, false}, nil
		}
	}
	return Staged{}, fmt.Errorf("%w: the replica at %s is on no tier that has a directory", mover.ErrUnsupported, mover.Printable(location))
}
