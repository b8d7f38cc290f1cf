package service

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"time"

	"datamove.dev/test/cluster/rig"
)

// sky is the weather of a world.
type sky struct {
	w    *world
	mu   sync.Mutex
	seen map[string]uint64 // how many there were; guarded by mu, as traps

	traps  []trap
	sprung chan sprung // for pass
}

// trap has something go wrong at the very moment of a call or a message.
type trap struct {
	node, point string
	left        int                        // so many pass before
	do          func(node string, pid int) // nil is that the worker dies
}

// sprung is a trap that has sprung; the worker is 0 where the point is a message.
type sprung struct {
	do   func(node string, pid int)
	node string
	pid  int
}

// trapsMost is how many traps there may be at once.
const trapsMost = 32

// holdTime is how long a call or message is held at a trap: what goes wrong does so meanwhile.
const holdTime = 3 * time.Millisecond

// points are where traps are: calls of workers, and messages of an agent to and from the coordinator.
var points = []string{"begin", "hear", "lock", "open", "read", "draft", "adopt", "write", "finish", "publish", "mkdir", "update", "remove", "drop", "sync", "stat",
	"sent Attend", "got Attend", "sent Confirm", "sent Finish", "sent Give", "sent Reply", "sent Keep", "sent PutManifest", "got ReadManifest"}

// set lays a trap.
func (s *sky) set(t trap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.traps) < trapsMost {
		s.traps = append(s.traps, t)
	}
}

// passes springs the traps at a point, and returns how long what is there is held, or that its worker dies.
func (s *sky) passes(node, point string, pid int) (hold time.Duration, dies bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.traps {
		t := &s.traps[i]
		if t.point != point || t.node != node {
			continue
		}
		if t.left--; t.left >= 0 {
			continue
		}
		hit, dies := sprung{t.do, node, pid}, t.do == nil
		s.traps = slices.Delete(s.traps, i, i+1)
		if dies {
			return 0, true
		}
		select {
		case s.sprung <- hit:
			return holdTime, false
		default: // nothing comes of it
			return 0, false
		}
	}
	return 0, false
}

// dice are of the next thing that is called so.
func (s *sky) dice(name string) *rand.Rand {
	s.mu.Lock()
	n := s.seen[name]
	s.seen[name]++
	s.mu.Unlock()
	return rand.New(rand.NewPCG(s.w.seed, sumOf([]byte(name))+n))
}

func (s *sky) Message(agentName, method string, sent bool) rig.Fate {
	d, r := s.dice(fmt.Sprint(agentName, method, sent)), &s.w.rates
	var f rig.Fate
	if d.Float64() < r.delay {
		f.Delay = time.Duration(d.Int64N(int64(r.longest)))
	}
	f.Answered = d.Float64() < r.answered
	f.Lost = f.Answered || d.Float64() < r.lost
	f.Twice = d.Float64() < r.twice
	way := "got "
	if sent {
		way = "sent "
	}
	hold, _ := s.passes(agentName, way+path.Base(method), 0)
	f.Delay += hold
	return f
}

func (s *sky) Call(agentName string, pid int, op string) (time.Duration, bool) {
	hold, dies := s.passes(agentName, op, pid)
	d, r := s.dice(agentName+" "+op), &s.w.rates
	if d.Float64() >= r.slow || dies {
		return hold, dies
	}
	return hold + time.Duration(d.Int64N(int64(r.longest))), false
}
