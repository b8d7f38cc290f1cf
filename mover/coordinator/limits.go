package coordinator

import (
	"slices"
	"strings"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/fairshare"
	"datamove.dev/mover/task/convert"
)

// limit is a limit of the configuration with its windows read.
type limit struct {
	direction fairshare.Direction
	windows   *fairshare.Windows
}

// readLimits reads the limits of a configuration. Config has checked them; one that is
// wrong all the same is left out and told.
func (s *scheduler) readLimits(c *config.Config) (all []limit) {
	for _, l := range c.Limits {
		w, err := fairshare.NewHeld(l.Zone, fairshare.Rate{Bytes: int64(l.Rate), Ops: l.Ops}, l.Windows...)
		if err != nil {
			s.log.Error("a limit does not hold", "endpoint", l.Endpoint, "err", err)
			continue
		}
		for _, write := range []bool{false, true} {
			if l.Direction == "" || write == (l.Direction == "write") {
				all = append(all, limit{fairshare.Direction{Endpoint: l.Endpoint, Write: write}, w})
			}
		}
	}
	return all
}

// tellLimits divides each limit among the agents that use its endpoint, and that of each
// task among its processes, by what they use: what one leaves goes to those that could use
// more. The weights of projects are the same everywhere.
func (s *scheduler) tellLimits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLimits()
}

// sendLimits tells every agent that is there. scheduler.mu is held.
func (s *scheduler) sendLimits() {
	s.forgetLeft()
	for _, l := range s.leads {
		s.tellParts(l)
	}
	c := s.conf()
	if c != s.limitsOf {
		if s.limitsOf != nil { // those that are there were told of the tiers of before
			for _, n := range s.agents {
				s.c.agents.tellLacks(n)
			}
		}
		s.limits, s.limitsOf = s.readLimits(c), c
	}
	projects := weights(c).Projects
	if len(s.limits)+len(projects) == 0 && !s.limited {
		return
	}
	now := s.now()
	each := map[string]*agentv1.Limits{}
	for name, a := range s.agents {
		if a.orders != nil {
			each[name] = &agentv1.Limits{Projects: projects}
		}
	}
	for _, l := range s.limits {
		if r := l.windows.Rate(now); r != (fairshare.Rate{}) {
			s.divide(l.direction, r, each)
		}
	}
	s.limited = len(s.limits)+len(projects) > 0
	for name, l := range each {
		s.send(name, &agentv1.Order{What: &agentv1.Order_Limits{Limits: l}})
	}
}

// divide gives each agent its part of one rate. scheduler.mu is held.
func (s *scheduler) divide(d fairshare.Direction, r fairshare.Rate, each map[string]*agentv1.Limits) {
	used := s.used(d)
	names := make([]string, 0, len(each))
	demands := make([]int64, 0, len(each))
	for name := range each {
		// Twice what it uses, so that it can grow, and something for an agent that begins now.
		names, demands = append(names, name), append(demands, 2*used[name]+r.Bytes/20+1)
	}
	bytes, ops := fairshare.Divide(r.Bytes, demands, nil), fairshare.Divide(r.Ops, demands, nil)
	for i, name := range names {
		l := &agentv1.Limit{Endpoint: d.Endpoint, Write: d.Write}
		if r.Bytes > 0 {
			l.BytesPerSecond = max(bytes[i], 1) // 0 is no limit
		}
		if r.Ops > 0 {
			l.OpsPerSecond = max(ops[i], 1)
		}
		each[name].Limits = append(each[name].Limits, l)
	}
}

// used is how many bytes a second each agent moves in one direction of an endpoint.
func (s *scheduler) used(d fairshare.Direction) map[string]int64 {
	used := map[string]int64{}
	for _, l := range s.leads {
		if !uses(l.task.GetSpec(), d) {
			continue
		}
		used[l.agent] += int64(l.task.GetProgress().GetBytesPerSecond()) + 1
		for _, b := range l.batches {
			if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN {
				used[b.meta.GetAgent()] += int64(l.task.GetProgress().GetBytesPerSecond()) + 1
			}
		}
	}
	return used
}

// uses says whether a task moves in one direction of an endpoint.
func uses(spec *pb.TaskSpec, d fairshare.Direction) bool {
	reads, writes := append([]string{spec.GetSource()}, spec.GetSources()...), spec.GetBurst().GetHomes()
	if convert.ComesHome(spec) {
		reads = append(reads, spec.GetTarget())
	} else {
		writes = append(writes, spec.GetTarget())
	}
	all := reads
	if d.Write {
		all = writes
	}
	return slices.ContainsFunc(all, func(text string) bool { return at(text, d.Endpoint) })
}

func at(text, endpoint string) bool {
	l, err := convert.Locate(text)
	return err == nil && (l.Tier == endpoint || l.Bucket != "" && strings.TrimPrefix(endpoint, "s3://") == l.Bucket)
}
