package policyserver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering/catalog/query"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/treecontext"
)

// Hop is a way of checkpoints from tier to tier.
type Hop struct{ Source, Target string }

// Waiting is how it stands with checkpoints that policies bring on a hop.
type Waiting struct {
	Longest   time.Duration // age of the oldest that is complete, and newer than what is verified at the target
	Objective time.Duration // how long they may wait: the shortest time that a rule says
}

// Objectives tells how long checkpoints wait where policies say how long they may.
func (s *Server) Objectives(ctx context.Context) (map[Hop]Waiting, error) {
	hops := map[Hop]Waiting{}
	for _, p := range s.policies() {
		timed := slices.ContainsFunc(p.Policy.Spec.Rules, func(r policy.Rule) bool { return r.Action.RPO > 0 })
		if !timed || modeOf(p) == string(policy.ModePlan) || s.o.Catalog == nil {
			continue
		}
		areas, err := s.areas(p)
		if err != nil {
			return nil, err
		}
		for _, a := range areas {
			if err := s.waitIn(ctx, p, a, hops); err != nil {
				return nil, err
			}
		}
	}
	return hops, nil
}

// waitIn adds how long checkpoints of an area wait that a policy brings somewhere.
func (s *Server) waitIn(ctx context.Context, p *policy.Program, a query.Area, hops map[Hop]Waiting) error {
	for rule := range p.Policy.Spec.Rules {
		act := &p.Policy.Spec.Rules[rule].Action
		for _, to := range act.To {
			text, _ := policy.OnPeer(to)
			l, err := location.Parse(policy.Target(text))
			if act.RPO == 0 || err != nil {
				continue
			}
			longest, err := s.longest(ctx, p, rule, a, to)
			if err != nil {
				return err
			}
			hop := Hop{a.Tree.Tier, l.Tier}
			w, known := hops[hop]
			if w.Longest = max(w.Longest, longest); !known || time.Duration(act.RPO) < w.Objective {
				w.Objective = time.Duration(act.RPO)
			}
			hops[hop] = w
		}
	}
	return nil
}

// longest is the age of the oldest checkpoint of an area that a rule is to bring to a place, and that is newer than what is there; 0 is none.
func (s *Server) longest(ctx context.Context, p *policy.Program, rule int, a query.Area, to string) (longest time.Duration, err error) {
	h, _ := a.Ground().(*treecontext.Here) // as areas makes them
	for folder := range h.Folders {
		if !mover.Within(folder, a.Dir) {
			continue
		}
		for _, c := range h.Behind(folder, to) {
			age := s.now().Sub(time.Unix(0, c.GetMadeNs()))
			if age <= longest {
				continue
			}
			meant, err := s.meantBy(ctx, p, rule, a, c)
			if err != nil {
				return 0, err
			}
			if meant {
				longest = age
			}
		}
	}
	return longest, nil
}

// meantBy says whether a checkpoint is what a rule of a policy is about, as a file of it says. One of which the catalog has no file yet may be.
func (s *Server) meantBy(ctx context.Context, p *policy.Program, rule int, a query.Area, c *treecontext.Checkpoint) (bool, error) {
	reader := s.reader()
	reader.Ground = a.Ground
	for f, err := range reader.Find(ctx, query.Question{Tree: a.Tree, Dir: c.Path(), Now: s.now()}, query.ByName, 1) {
		if errors.Is(err, mover.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		_, _, v := reader.Judged(p, a, &f.File, s.now())
		return v.Err == nil && v.Rule == rule, nil
	}
	return true, nil
}

// hopCache has what objectives found last, for metrics.
type hopCache struct {
	mu    sync.Mutex
	hops  map[Hop]Waiting // guarded by mu, as all below
	at    time.Time       // when they were read
	pause time.Duration   // until they are read again
}

// How long what metrics tell stands: reading it takes one part of so many of the time.
const (
	hopsEvery = 10 * time.Second
	hopsShare = 20
)

// sampled has metrics tell how long checkpoints wait, until ctx ends.
func (s *Server) sampled(ctx context.Context) {
	defer s.o.Metrics.Sample(s.sample)()
	<-ctx.Done()
}

func (s *Server) sample(m *telemetry.Sample) {
	c := &s.hops
	c.mu.Lock()
	defer c.mu.Unlock()
	if begun := time.Now(); begun.Sub(c.at) >= c.pause {
		var err error
		if c.hops, err = s.Objectives(context.Background()); err != nil {
			s.log.Warn("how long checkpoints wait can not be told", "err", err)
		}
		c.at = time.Now()
		c.pause = max(hopsEvery, hopsShare*c.at.Sub(begun))
	}
	for hop, w := range c.hops {
		m.CheckpointsWait(hop.Source, hop.Target, w.Longest, w.Objective)
	}
}
