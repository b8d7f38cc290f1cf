package service

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
)

var faultDeeds = []deed{
	{"kill", 5}, {"sleep", 4}, {"agent", 3}, {"cut", 4}, {"crash", 4}, {"power", 2}, {"full", 2}, {"break", 3}, {"clock", 1}, {"hour", 1}, {"trap", 12},
}

// faults are what goes wrong with processes, nodes, networks, clocks and disks.
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
	case "clock":
		r.SetClock([]time.Duration{-3 * time.Hour, -40 * time.Second, 0, 40 * time.Second, 3 * time.Hour}[s.b%5])
	case "trap":
		do, t := s.trapped(), trap{node: node, point: points[s.b%len(points)], left: s.b / len(points) % 6}
		if do != "die" || strings.Contains(t.point, " ") { // a message is of no worker
			t.do = func(node string, pid int) { r.fail(do, node, pid, s) }
		}
		r.sky.set(t)
	default:
		r.fail(s.do, node, 0, s)
	}
}

// trapped is what a trap does.
func (s step) trapped() string {
	all := []string{"kill", "kill", "die", "sleep", "agent", "cut", "crash", "power", "full", "break", "cancel", "pause"}
	return all[s.c%len(all)]
}

// power reports whether a step, or its trap, cuts the power of the coordinator's machine.
func (s step) power() bool { return s.do == "power" || s.do == "trap" && s.trapped() == "power" }

// fail has something go wrong: with a worker, if there is one, or else with one of the node.
func (r *faults) fail(do, node string, pid int, s step) {
	switch do {
	case "crash", "power":
		if !r.up {
			return
		}
		if do == "power" {
			r.PowerCut(rand.New(rand.NewPCG(r.w.seed, uint64(s.c))))
		} else {
			r.Crash()
		}
		r.up = false
		r.later(s.b, do, func() bool { r.Start(); r.up = true; return true })
	case "full":
		dst := s.b % targets
		if r.full[dst] {
			return
		}
		r.full[dst] = true
		to := r.byName["tasks"].(*tasks).targets
		r.Refuse(to[dst].dir, mover.ErrFull)
		r.later(s.c, do, func() bool { r.Refuse(to[dst].dir, nil); r.full[dst] = false; return true })
	case "cancel", "pause":
		r.byName["tasks"].(*tasks).steer(step{do: do, a: s.a / 8})
	default:
		if !r.gone[node] {
			r.failing(do, node, pid, s)
		}
	}
}

// failing has a node, or a worker on it, fail.
func (r *faults) failing(do, node string, pid int, s step) {
	switch do {
	case "agent":
		r.KillAgent(node)
		r.gone[node] = true
		r.later(s.b, do, func() bool {
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
	case "kill", "die", "sleep":
		pids := []int{pid}
		if pid == 0 {
			pids = r.working(node, s.b)
		}
		if len(pids) == 0 {
			return
		}
		if do != "sleep" {
			r.KillWorkers(pids...)
			return
		}
		r.SleepWorkers(pids...)
		r.later(s.c, do, func() bool { r.Wake(pids); return true })
		if s.c%2 == 0 {
			r.cut(s.c, node)
		}
	}
}

// working are the workers of a node for one of the tasks.
func (r *faults) working(node string, n int) []int {
	synctest.Wait()
	var all [][]int
	for _, a := range r.asked {
		if pids := r.Working(node, a.id); a.id != "" && len(pids) > 0 && !slices.ContainsFunc(all, func(p []int) bool { return slices.Equal(p, pids) }) {
			all = append(all, pids)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[n%len(all)]
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
