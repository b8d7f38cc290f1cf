package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/catalog/query"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/policy"
)

// hopOf is a way of checkpoints from tier to tier.
type hopOf struct{ source, target string }

// waiting is how it stands with checkpoints that policies bring on a hop.
type waiting struct {
	longest   time.Duration // age of the oldest that is complete, and newer than what is verified at the target
	objective time.Duration // how long they may wait: the shortest time that a rule says
}

// objectives tells how long checkpoints wait where policies say how long they may.
func (s *policyServer) objectives(ctx context.Context) (map[hopOf]waiting, error) {
	hops := map[hopOf]waiting{}
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
func (s *policyServer) waitIn(ctx context.Context, p *policy.Program, a query.Area, hops map[hopOf]waiting) error {
	for rule := range p.Policy.Spec.Rules {
		act := &p.Policy.Spec.Rules[rule].Action
		for _, to := range act.To {
			text, _ := policy.OnPeer(to)
			l, err := location.Parse(targetOf(text))
			if act.RPO == 0 || err != nil {
				continue
			}
			longest, err := s.longest(ctx, p, rule, a, to)
			if err != nil {
				return err
			}
			hop := hopOf{a.Tree.Tier, l.Tier}
			w, known := hops[hop]
			if w.longest = max(w.longest, longest); !known || time.Duration(act.RPO) < w.objective {
				w.objective = time.Duration(act.RPO)
			}
			hops[hop] = w
		}
	}
	return nil
}

// longest is the age of the oldest checkpoint of an area that a rule is to bring to a place, and that is newer than what is there; 0 is none.
func (s *policyServer) longest(ctx context.Context, p *policy.Program, rule int, a query.Area, to string) (longest time.Duration, err error) {
	h, _ := a.Ground().(*here) // as areas makes them
	for folder, all := range h.folders {
		if !mover.Within(folder, a.Dir) {
			continue
		}
		for _, c := range h.behind(all, to) {
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

// behind are the checkpoints of a folder that are not at a place, and newer than what is.
func (h *here) behind(all []*checkpointAt, to string) (late []*checkpointAt) {
	order := func(c *checkpointAt) checkpoint.Held {
		return checkpoint.Held{Name: string(c.GetName()), Step: c.GetStep(), Saved: c.GetMadeNs()}
	}
	var newest *checkpointAt
	for _, c := range all {
		if c.GetTracker() || c.GetState() < complete {
			continue
		}
		if there := (&standing{h, c}).There(to); !there {
			late = append(late, c)
		} else if newest == nil || order(c).Compare(order(newest)) > 0 {
			newest = c
		}
	}
	return slices.DeleteFunc(late, func(c *checkpointAt) bool { return newest != nil && order(c).Compare(order(newest)) <= 0 })
}

// meantBy says whether a checkpoint is what a rule of a policy is about, as a file of it says. One of which the catalog has no file yet may be.
func (s *policyServer) meantBy(ctx context.Context, p *policy.Program, rule int, a query.Area, c *checkpointAt) (bool, error) {
	reader := s.reader()
	reader.Ground = a.Ground
	for f, err := range reader.Find(ctx, query.Question{Tree: a.Tree, Dir: c.name(), Now: s.now()}, query.ByName, 1) {
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
