package service

import (
	"maps"
	"slices"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover/share"
)

const (
	partSettles = 400 * time.Millisecond // until a process that was told of a smaller part reads no more than that
	partYoung   = 3 * time.Second        // until what a process uses tells what it could use
	partQuiet   = 3 * time.Second        // until a process without work has no part any more
	partFirst   = 20                     // what all together may have at first is one of so many pieces
)

// parts divide the limit that a task has in its own options among its processes, by what
// they use. The sum of what they may read is never above it, but for a twentieth while
// somebody comes: what one gives, another one gets when it was given for long enough.
type parts struct {
	limit int64            // bytes per second
	of    map[string]*part // by agent
	split bool             // somebody was told
}

// part is what one process may read.
type part struct {
	told   int64     // last; 0 is not known
	was    int64     // that it may read still, for a moment after shrunk
	shrunk time.Time // when it was told of less
	used   int64     // bytes per second
	since  time.Time // when it came
	busy   time.Time // when it had work last
}

// newParts are those of a task that one process begins: it has the whole limit.
func newParts(limit int64, lead string, now time.Time) *parts {
	return &parts{limit: limit, of: map[string]*part{lead: {told: limit, since: now, busy: now}}}
}

// enlist says who works now. Who does not, stays for a while.
func (x *parts) enlist(now time.Time, working ...string) {
	for _, name := range working {
		if x.of[name] == nil {
			x.of[name] = &part{since: now}
		}
		x.of[name].busy = now
	}
	maps.DeleteFunc(x.of, func(_ string, p *part) bool { return now.Sub(p.busy) > partQuiet })
}

// uses notes what a process reads.
func (x *parts) uses(name string, bytesPerSecond float64) {
	if p := x.of[name]; p != nil {
		p.used = int64(bytesPerSecond)
	}
}

// divide tells each process its part. What can not be told is not so.
func (x *parts) divide(now time.Time, tell func(name string, bytesPerSecond int64) bool) {
	if x.split = x.split || len(x.of) > 1; !x.split {
		return
	}
	names := slices.Sorted(maps.Keys(x.of))
	wanted := make([]int64, len(names))
	for i, name := range names {
		wanted[i] = x.of[name].wants(x.limit, now)
	}
	wanted = share.Divide(x.limit, wanted, nil)
	for i, name := range names {
		p := x.of[name]
		next := max(min(wanted[i], max(p.told, x.room(name, now))), x.first(), 1)
		if tell(name, next) {
			p.tell(next, x.limit, now)
		}
	}
}

// first is what one may read while there is no room. The second process has at most a half
// of a piece, the third one a sixth, the next one a twelfth: all together less than one,
// whoever comes when.
func (x *parts) first() int64 {
	n := int64(len(x.of))
	return x.limit / (partFirst * n * max(n-1, 1))
}

// wants is twice what a process uses, so that it can grow; of one that has just come
// nobody knows what that is.
func (p *part) wants(limit int64, now time.Time) int64 {
	if now.Sub(p.since) < partYoung {
		return limit
	}
	return 2*p.used + limit/partFirst + 1
}

// room is what nobody but one may read at this moment.
func (x *parts) room(but string, now time.Time) int64 {
	left := x.limit
	for name, p := range x.of {
		if name != but {
			left -= p.most(x.limit, now)
		}
	}
	return max(left, 0)
}

// most is what a process may read at this moment.
func (p *part) most(limit int64, now time.Time) int64 {
	switch {
	case p.told == 0: // nobody knows: it was told by a coordinator before this one
		return limit
	case now.Sub(p.shrunk) < partSettles:
		return max(p.told, p.was)
	}
	return p.told
}

func (p *part) tell(next, limit int64, now time.Time) {
	if most := p.most(limit, now); next < most {
		p.was = most
		if p.told == 0 || next < p.told {
			p.shrunk = now
		}
	}
	p.told = next
}

// tellParts tells the processes of a task what each may read. Service.mu is held.
func (s *Service) tellParts(l *lead) {
	limit := l.task.GetSpec().GetOptions().GetBytesPerSecond()
	if limit <= 0 || l.closing {
		return
	}
	if l.parts == nil { // it was begun under a coordinator before this one
		l.parts = &parts{limit: limit, of: map[string]*part{}, split: true}
	}
	working := []string{l.agent}
	for _, b := range l.batches {
		if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN {
			working = append(working, b.meta.GetAgent())
		}
	}
	now := s.now()
	l.parts.enlist(now, working...)
	l.parts.divide(now, func(agent string, bytesPerSecond int64) bool {
		return s.send(agent, &agentv1.Order{What: &agentv1.Order_Part{Part: &agentv1.Part{Task: l.task.GetId(), LeadEpoch: l.epoch, BytesPerSecond: bytesPerSecond}}})
	})
}

// partOf is what an agent may read for a task; 0 is no limit. Service.mu is held.
func (l *lead) partOf(agent string) int64 {
	if l.parts == nil || l.parts.of[agent] == nil {
		return 0
	}
	return l.parts.of[agent].told
}
