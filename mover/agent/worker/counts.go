package worker

import (
	"context"
	"maps"
	"slices"
	"sync"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/metered"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// counts is what this process has done since it began.
type counts struct {
	paths  map[string]string // where tiers are
	target string            // the tier of the target
	write  bool              // else nothing is moved: contents are compared

	mu     sync.Mutex
	tiers  map[string]*tierCounts // by name, "" for outside of all; guarded by mu, as all below
	files  int64
	bytes  int64
	errors map[string]int64 // by the kind
	number uint64           // of what was told last
	peers  func() int64     // bytes that came from other nodes; nil is none
}

type tierCounts struct {
	metered.Counter
	mismatches, removed, pauses int64 // guarded by counts.mu
}

func newCounts(job *agentv1.Job) *counts {
	c := &counts{paths: job.GetTierPaths(), tiers: map[string]*tierCounts{}, errors: map[string]int64{}, write: !task.Of(job.GetSpec()).ReadOnly}
	if l, err := convert.Locate(job.GetSpec().GetTarget()); err == nil {
		c.target = convert.TierOf(l, c.paths)
	}
	return c
}

// metered counts the calls of the backends that open opens.
func (c *counts) metered(open engine.Opener) engine.Opener {
	return func(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
		p, err := open(ctx, l, o)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return metered.New(p, &c.tier(convert.TierOf(l, c.paths)).Counter), nil
	}
}

// tier returns what is counted of a tier. counts.mu is held.
func (c *counts) tier(name string) *tierCounts {
	t := c.tiers[name]
	if t == nil {
		t = &tierCounts{}
		c.tiers[name] = t
	}
	return t
}

// item counts what became of an entry.
func (c *counts) item(it *engine.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case it.Err != nil:
		kind := mover.KindName(it.Err)
		c.errors[kind]++
		if kind == mover.KindName(mover.ErrCorrupt) {
			c.tier(c.target).mismatches++
		}
	case it.Op == plan.Remove:
		c.tier(c.target).removed++
	case c.write && it.Kind == mover.File && it.Op != plan.Link && it.Op != plan.Update:
		c.files++
		c.bytes += it.Bytes
	}
}

// countPeers has the bytes counted that come from other nodes.
func (c *counts) countPeers(fetched func() int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers = fetched
}

// paused counts that the target is full.
func (c *counts) paused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tier(c.target).pauses++
}

// wire is the counts on the wire.
func (c *counts) wire() *agentv1.Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	out := &agentv1.Counts{Number: c.number, Files: c.files, Bytes: c.bytes, Errors: maps.Clone(c.errors)}
	if c.peers != nil {
		out.PeerBytes = c.peers()
	}
	for _, name := range slices.Sorted(maps.Keys(c.tiers)) {
		t := c.tiers[name]
		out.Tiers = append(out.Tiers, &agentv1.TierCounts{
			Tier: name, ReadBytes: t.Read(), WrittenBytes: t.Written(), Operations: t.Operations(), Retries: t.Passing(),
			Mismatches: t.mismatches, Removed: t.removed, RoomPauses: t.pauses,
		})
	}
	return out
}
