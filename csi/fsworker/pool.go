package fsworker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"datamove.dev/mover"
)

// Pool starts hands and asks them. The zero Pool runs this program again with the argument "hand".
type Pool struct {
	Program string        // "" is this one
	Args    []string      // nil is "hand"
	Stuck   int           // hands of a lane that may hang before its calls fail at once; 0 means 4
	Default time.Duration // how long a call without a deadline in its context may take; 0 means 30 s
	Idle    time.Duration // after which a hand without calls is ended: it holds some MiB; 0 means 10 s
	Logger  *slog.Logger  // nil is no log

	// Here are methods that this process does itself, for tests of what asks: a call that hangs is not ended then. Nil starts processes.
	Here map[string]Method

	mu    sync.Mutex
	lanes map[string]*lane // guarded by mu
	ended bool             // guarded by mu
}

// lane is what hangs together. Its fields are guarded by the mutex of its Pool.
type lane struct {
	at    *child          // that calls are given to; nil until the next one
	hands map[*child]*use // all that are not gone
}

// use is what is known of a hand.
type use struct {
	calls int         // under way
	rest  *time.Timer // ends it; nil while it has calls
	hung  time.Time   // since when it is known to hang; zero is one that works
}

// stuck are the times since when hands hang.
func (l *lane) stuck() (since []time.Time) {
	for _, u := range l.hands {
		if !u.hung.IsZero() {
			since = append(since, u.hung)
		}
	}
	return since
}

// Call asks the hand of a lane. When ctx is over by its deadline, the hand is killed and
// the error is mover.ErrTimeout; whether the call was done is not known. Other calls that it
// had fail with mover.ErrTransient then.
func (c *Pool) Call(ctx context.Context, name, method string, args, reply any) error {
	h, err := c.hand(name)
	if err != nil {
		return err
	}
	defer c.release(name, h)
	return c.ask(ctx, name, h, method, args, reply)
}

// Alone is Call with a hand that is started for it, and ends with it. It is never refused because others hang, and costs
// a process each time.
func (c *Pool) Alone(ctx context.Context, name, method string, args, reply any) error {
	h, err := c.alone(name)
	if err != nil {
		return err
	}
	defer h.kill()
	return c.ask(ctx, name, h, method, args, reply)
}

func (c *Pool) ask(ctx context.Context, name string, h *child, method string, args, reply any) error {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmp.Or(c.Default, 30*time.Second))
		defer cancel()
	}
	a, err := h.ask(ctx, method, args)
	if errors.Is(err, context.DeadlineExceeded) {
		c.dismiss(name, h)
		return fmt.Errorf("%w: %s of %s: it does not answer", mover.ErrTimeout, method, name)
	}
	if err == nil {
		err = a.failed()
	}
	if err != nil || reply == nil {
		return err
	}
	return json.Unmarshal(a.Reply, reply)
}

// hand returns the one of a lane that takes calls, which is started where there is none. It is not ended before release.
func (c *Pool) hand(name string) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lane(name)
	if l.at == nil || l.at.over() {
		if stuck := l.stuck(); len(stuck) >= cmp.Or(c.Stuck, 4) {
			since := slices.MinFunc(stuck, time.Time.Compare)
			return nil, fmt.Errorf("%w: %s has not answered since %s, and %d processes hang in it", mover.ErrUnreachable, name, since.UTC().Format(time.TimeOnly), len(stuck))
		}
		h, err := c.begin(name, l)
		if err != nil {
			return nil, err
		}
		l.at = h
	}
	if u := l.hands[l.at]; u != nil { // it may have died just now
		u.calls++
		if u.rest != nil {
			u.rest.Stop()
			u.rest = nil
		}
	}
	return l.at, nil
}

// release is the end of a call. A hand without calls has some time until it is ended.
func (c *Pool) release(name string, h *child) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[name]
	u := l.hands[h]
	if u == nil {
		return
	}
	if u.calls--; u.calls > 0 || !u.hung.IsZero() {
		return
	}
	var rest *time.Timer
	rest = time.AfterFunc(cmp.Or(c.Idle, 10*time.Second), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if u.rest != rest {
			return // it was asked again meanwhile
		}
		if l.at == h {
			l.at = nil
		}
		h.kill()
	})
	u.rest = rest
}

// alone starts one that takes no other calls.
func (c *Pool) alone(name string) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begin(name, c.lane(name))
}

// lane returns the one of that name. The mutex is held.
func (c *Pool) lane(name string) *lane {
	if c.lanes == nil {
		c.lanes = map[string]*lane{}
	}
	if c.lanes[name] == nil {
		c.lanes[name] = &lane{hands: map[*child]*use{}}
	}
	return c.lanes[name]
}

// begin starts a hand, which its lane knows until it is gone. The mutex is held.
func (c *Pool) begin(name string, l *lane) (*child, error) {
	if c.ended {
		return nil, fmt.Errorf("%w: the driver is stopping", mover.ErrTransient)
	}
	h, err := c.start()
	if err != nil {
		return nil, fmt.Errorf("start a process for %s: %w", name, err)
	}
	l.hands[h] = &use{}
	go func() {
		<-h.gone
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(l.hands, h)
	}()
	return h, nil
}

// dismiss kills a hand that did not answer. It hangs until the kernel lets it go.
func (c *Pool) dismiss(name string, h *child) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[name]
	u := l.hands[h]
	if u == nil || !u.hung.IsZero() {
		return // another call that waited for it was faster
	}
	if l.at == h {
		l.at = nil
	}
	u.hung = time.Now()
	if c.Logger != nil {
		c.Logger.Warn("a file system does not answer; its process is killed", "lane", name, "pid", h.pid())
	}
	h.kill()
}

// Hanging says how many hands of each lane hang.
func (c *Pool) Hanging() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	hanging := map[string]int{}
	for name, l := range c.lanes {
		hanging[name] = len(l.stuck())
	}
	return hanging
}

// Close ends all hands, and waits for those that do not hang.
func (c *Pool) Close() {
	c.mu.Lock()
	c.ended = true
	var busy []*child
	for _, l := range c.lanes {
		for h, u := range l.hands {
			if u.hung.IsZero() {
				busy = append(busy, h)
			}
		}
	}
	c.mu.Unlock()
	for _, h := range busy {
		h.kill()
	}
	limit := time.After(5 * time.Second)
	for _, h := range busy {
		select {
		case <-h.gone:
		case <-limit:
			return
		}
	}
}
