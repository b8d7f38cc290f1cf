// Package ratelimit divides the rate limit of a task among its processes (pure: callers guard it by their lock).
package ratelimit

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"datamove.dev/mover/fairshare"
)

const (
	partYoung = 3 * time.Second // until what a process uses tells what it could use
	partQuiet = 3 * time.Second // until a process without work has no part any more
	partFirst = 20              // what all together may have at first is one of so many pieces
)

// Parts divide the limit that a task has in its own options among its processes, by what
// they use. The sum of what they may read is never above it, but for a twentieth while
// a process comes. A process gets a larger part when another one has confirmed its
// smaller one. A process that does not confirm counts with the largest part that it was told.
type Parts struct {
	limit int64            // bytes per second
	of    map[string]*part // by agent
	split bool             // it was divided among several processes
}

// part is what one process may read.
type part struct {
	told   int64     // last; 0 is nothing, or not known
	most   int64     // that it may read: what it has not said to have heard of does not count
	used   int64     // bytes per second
	since  time.Time // when it came
	busy   time.Time // when it had work last
	works  bool      // it has work
	given  time.Time // when it got that
	reads  bool      // it works, or did when its agent was heard of last
	former bool      // it is of a lead that is over and gets no part any more
}

// Begin are those of a task that one process begins, beside processes of leads before it
// that may read still. They come of x, which may be nil.
func (x *Parts) Begin(limit int64, lead string, now time.Time) *Parts {
	next := &Parts{limit: limit, of: map[string]*part{}}
	if x != nil {
		next.of = maps.Clone(x.of)
	}
	for _, p := range next.of {
		p.former = true
	}
	next.Enlist(now, lead)
	own := next.of[lead]
	own.told = max(next.room(lead), next.first(), 1)
	own.most, next.split = max(own.most, own.told), len(next.of) > 1
	return next
}

// Unknown are those of a task that was begun under a coordinator before this one. Each
// agent may have a process that reads, of this lead or of one before it, until it is heard of.
func Unknown(limit int64, now time.Time, agents, working []string) *Parts {
	x := &Parts{limit: limit, of: map[string]*part{}, split: true}
	for _, name := range slices.Concat(agents, working) {
		x.of[name] = &part{most: limit, since: now, busy: now, reads: true, former: !slices.Contains(working, name)}
	}
	return x
}

// Enlist sets the processes that work now. One without work stays while it may read, and for partQuiet.
func (x *Parts) Enlist(now time.Time, working ...string) {
	for name, p := range x.of {
		p.works = p.works && slices.Contains(working, name)
	}
	for _, name := range working {
		p := x.of[name]
		if p == nil {
			p = &part{since: now}
		} else if p.former { // its agent ends that process before it starts another one
			p = &part{since: now, most: p.most}
		}
		if !p.works {
			p.given = now
		}
		p.works, p.reads, p.busy = true, true, now
		x.of[name] = p
	}
	maps.DeleteFunc(x.of, func(_ string, p *part) bool { return !p.reads && (p.former || now.Sub(p.busy) > partQuiet) })
}

// Heard notes what an agent says of its process: whether it has work, what it may read as
// it knows, and what it reads. That it has none may have been said before it got some.
func (x *Parts) Heard(now time.Time, name string, reads bool, has int64, used float64) {
	p := x.of[name]
	if p == nil {
		return
	}
	p.reads, p.used = reads || now.Sub(p.given) <= partYoung && p.reads, int64(used)
	switch {
	case p.former || has == 0:
	case p.told == 0:
		p.told, p.most = has, has
	case p.told == has:
		p.most = has
	}
}

// Lost notes that an agent is silent, so that its part goes to others.
func (x *Parts) Lost(name string) {
	if p := x.of[name]; p != nil {
		p.reads = false
	}
}

// Leave notes that the lead of the task is over: its processes may read until they have let go.
func (x *Parts) Leave() {
	for _, p := range x.of {
		p.former = true
	}
}

// Agents are those with a process that counts.
func (x *Parts) Agents() []string { return slices.Sorted(maps.Keys(x.of)) }

// Divide tells each process its part. A part that can not be sent does not count. A process that has
// not confirmed its last part is told that again.
func (x *Parts) Divide(now time.Time, tell func(name string, bytesPerSecond int64) bool) {
	if x.split = x.split || len(x.of) > 1; !x.split {
		return
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(x.of)), func(name string) bool { return x.of[name].former })
	wanted := make([]int64, len(names))
	for i, name := range names {
		wanted[i] = x.of[name].wants(x.limit, now)
	}
	wanted = fairshare.Divide(x.limit, wanted, nil)
	for i, name := range names {
		p := x.of[name]
		next := p.told
		if next == 0 || next == p.most {
			next = max(min(wanted[i], max(p.told, x.room(name))), x.first(), 1)
		}
		if tell(name, next) {
			p.told, p.most = next, max(p.most, next)
		}
	}
}

// first is what one may read while there is no room. The second process has at most a half
// of a piece, the third one a sixth, the next one a twelfth: all together less than one,
// in any order.
func (x *Parts) first() int64 {
	n := int64(len(x.of))
	return x.limit / (partFirst * n * max(n-1, 1))
}

// wants is twice what a process uses, so that it can grow; the use of one that has just
// come is unknown, so it wants the whole limit.
func (p *part) wants(limit int64, now time.Time) int64 {
	if now.Sub(p.since) < partYoung {
		return limit
	}
	return 2*p.used + limit/partFirst + 1
}

// room is the part of the limit that no process but one may read at this moment, in bytes per second.
func (x *Parts) room(but string) int64 {
	left := x.limit
	for name, p := range x.of {
		if name != but {
			left -= p.most
		}
	}
	return max(left, 0)
}

// Part is what one may read as it begins.
func (x *Parts) Part(name string) int64 {
	if x == nil {
		return 0 // there is no limit
	}
	p := x.of[name]
	if p == nil {
		p = &part{}
	}
	return cmp.Or(p.told, max(x.first(), 1))
}
