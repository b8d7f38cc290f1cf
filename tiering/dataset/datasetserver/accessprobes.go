package datasetserver

import (
	"fmt"
	"strings"
	"sync"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
)

// accessProber has agents check what a caller may read.
type accessProber struct {
	*core
	looks looks
}

// LookCounts is for how long the result of a look counts, for the same account, replica and node;
// seenKept is how much of it is remembered.
const (
	LookCounts = 5 * time.Second
	seenKept   = 10_000
)

// looks holds recent access checks and the checks under way. A restart drops them.
type looks struct {
	mu    sync.Mutex
	of    map[string]*look // by lookKey; guarded by mu, as below
	tasks []lookTask       // to be forgotten, the oldest first
}

// look is the check of one account's access to the sources of one replica.
type look struct {
	done  chan struct{} // closed when it is over
	err   error
	until time.Duration // it counts, once it is over
}

type lookTask struct {
	id string
	at time.Time
}

// lookKey identifies a check: the account and the replica. For a node-local tier the node is part of the key.
func lookKey(a *pb.Account, r *pb.Replica) string {
	which := []string{state.User(a), fmt.Sprint(a.GetUid()), r.GetTask(), state.Time(r.GetCreateTime())} // another one may lie there later
	return strings.Join(append(which, state.ReplicaKey(r)...), "\x00")
}

// counts says whether a recent check found that the account may read.
func (l *looks) counts(key string, now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.of[key]
	return was != nil && was.err == nil && now < was.until
}

// note records that the account may read, as of now.
func (l *looks) note(key string, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was := l.of[key]; was != nil && was.until == 0 { // a check is under way
		return
	}
	l.room(now)
	x := &look{done: make(chan struct{}), until: now + LookCounts}
	close(x.done)
	l.of[key] = x
}

// begin returns the look that is under way, or has ended since counts and counts now, or begins one: mine.
func (l *looks) begin(key string, now time.Duration) (x *look, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x = l.of[key]; x != nil && (x.until == 0 || now < x.until) {
		return x, false
	}
	l.room(now)
	x = &look{done: make(chan struct{})}
	l.of[key] = x
	return x, true
}

func (l *looks) end(key string, x *look, err error, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.err, x.until = err, now+LookCounts
	if err != nil {
		delete(l.of, key)
	}
	close(x.done)
}

// room forgets what counts no more, and all when there is still too much: then it is looked again. looks.mu is held.
func (l *looks) room(now time.Duration) {
	if l.of == nil {
		l.of = map[string]*look{}
	}
	for _, over := range []func(*look) bool{func(x *look) bool { return now >= x.until }, func(*look) bool { return true }} {
		if len(l.of) < seenKept {
			return
		}
		for key, x := range l.of {
			if x.until != 0 && over(x) {
				delete(l.of, key)
			}
		}
	}
}

func (l *looks) forgetLater(id string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = append(l.tasks, lookTask{id, now})
}

// due takes the tasks that began before a time.
func (l *looks) due(before time.Time) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.tasks) > 0 && l.tasks[0].at.Before(before) {
		ids = append(ids, l.tasks[0].id)
		l.tasks = l.tasks[1:]
	}
	return ids
}
