package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"datamove.dev/mover/agent/sandbox"
)

// The start of its process is most of the time of a small task. An account with one task
// often has another one. So when a process has ended, the agent starts the next one of its
// account, which waits to hear what it may reach.
const prestartedLast = time.Minute

// prestarter has the processes that wait, at most one for each account.
type prestarter struct {
	ready func(sandbox.Options) (Waiting, error)
	most  func() int // accounts, as it is configured now

	mu      sync.Mutex
	closed  bool
	waiting []prestarted // the one that waits longest first; guarded by mu, as closed
}

type prestarted struct {
	key     string
	since   time.Time
	process Waiting
}

// prestartKey tells apart what can not be changed any more when a process waits.
func prestartKey(o sandbox.Options) string {
	return fmt.Sprintf("%s %q %d %d %v %v %q", o.Path, o.Args, o.Account.UID, o.Account.GID, o.Account.Groups, o.Account.Apart, o.Env)
}

// begin starts a process, or has one begin that waits. A file system that did not answer one does not answer the next one.
func (s *prestarter) begin(ctx context.Context, o sandbox.Options, waits func(path string)) (Worker, error) {
	if w := s.take(prestartKey(o)); w != nil {
		p, err := w.Confine(ctx, o.Roots, waits)
		if silent := (*sandbox.Unanswered)(nil); err == nil || ctx.Err() != nil || errors.As(err, &silent) {
			return p, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w, err := s.ready(o)
	if err != nil {
		return nil, err
	}
	return w.Confine(ctx, o.Roots, waits)
}

func (s *prestarter) take(key string) Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.waiting, func(w prestarted) bool { return w.key == key })
	if i < 0 {
		return nil
	}
	w := s.waiting[i].process
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return w
}

// prepare starts a process like one that has ended, unless one waits. When that fails, the
// task that wants it will say why.
func (s *prestarter) prepare(o sandbox.Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := prestartKey(o)
	most := s.most()
	if s.closed || most <= 0 || slices.ContainsFunc(s.waiting, func(w prestarted) bool { return w.key == key }) {
		return
	}
	s.drop(max(len(s.waiting)-most+1, 0))
	if w, err := s.ready(o); err == nil {
		s.waiting = append(s.waiting, prestarted{key, time.Now(), w})
	}
}

// tend ends those that have waited for too long, and all when ctx ends.
func (s *prestarter) tend(ctx context.Context) {
	defer s.close()
	tick := time.NewTicker(prestartedLast / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.expire(now)
		}
	}
}

func (s *prestarter) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(len(s.waiting)-s.most(), 0) // they may be fewer now
	for n < len(s.waiting) && now.Sub(s.waiting[n].since) >= prestartedLast {
		n++
	}
	s.drop(n)
}

// close ends all, and there will be no more.
func (s *prestarter) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.drop(len(s.waiting))
}

// drop ends the first n. prestarter.mu is held.
func (s *prestarter) drop(n int) {
	for _, w := range s.waiting[:n] {
		_ = w.process.Stop() // it has nothing to lose
	}
	s.waiting = slices.Delete(s.waiting, 0, n)
}
