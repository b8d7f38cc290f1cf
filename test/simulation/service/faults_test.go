package service

import (
	"testing/synctest"
	"time"

	"datamove.dev/mover"
)

var faultDeeds = []deed{{"kill", 5}, {"sleep", 4}, {"agent", 3}, {"cut", 4}, {"crash", 4}, {"full", 2}, {"break", 3}, {"hour", 1}}

// faults are what goes wrong with processes, nodes, networks and disks.
type faults struct {
	*running
	plain
	full map[int]bool // targets without room
}

func (r *faults) do(s step) {
	node := nodeName(s.a % r.w.agents)
	switch s.do {
	case "hour":
		r.pass(10 * time.Minute)
	case "crash":
		if !r.up {
			return
		}
		r.Crash()
		r.up = false
		r.later(s.b, s.do, func() bool { r.Start(); r.up = true; return true })
	case "full":
		dst := s.b % targets
		if r.full[dst] {
			return
		}
		r.full[dst] = true
		to := r.byName["tasks"].(*tasks).targets
		r.Refuse(to[dst].dir, mover.ErrFull)
		r.later(s.c, s.do, func() bool { r.Refuse(to[dst].dir, nil); r.full[dst] = false; return true })
	default:
		if !r.gone[node] {
			r.failing(s, node)
		}
	}
}

// failing has a node, or a worker on it, fail.
func (r *faults) failing(s step, node string) {
	switch s.do {
	case "agent":
		r.KillAgent(node)
		r.gone[node] = true
		r.later(s.b, s.do, func() bool {
			if !r.up {
				return false
			}
			r.Join(node)
			delete(r.gone, node)
			return true
		})
	case "cut":
		r.cut(s.b, node)
	case "break":
		r.Agents[node].Breaks.Store(true)
	case "kill", "sleep":
		synctest.Wait()
		var ids []string
		for _, a := range r.asked {
			if a.id != "" && len(r.Working(node, a.id)) > 0 {
				ids = append(ids, a.id)
			}
		}
		if len(ids) == 0 {
			return
		}
		id := ids[s.b%len(ids)]
		if s.do == "kill" {
			r.Kill(node, id)
			return
		}
		pids := r.Sleep(node, id)
		r.later(s.c, s.do, func() bool { r.Wake(pids); return true })
		if s.c%2 == 0 {
			r.cut(s.c, node)
		}
	}
}

func (r *faults) cut(n int, node string) {
	r.Cut(node)
	r.later(n, "cut", func() bool {
		if !r.gone[node] {
			r.Mend(node)
		}
		return true
	})
}
