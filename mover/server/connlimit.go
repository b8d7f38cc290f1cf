package server

import (
	"sync"

	"datamove.dev/mover"
)

// connLimit counts connections, of all and of each peer.
type connLimit struct {
	most, each int

	mu  sync.Mutex // guards all below
	all int
	of  map[string]int
}

func newConnLimit(most, each int) *connLimit {
	return &connLimit{most: most, each: each, of: map[string]int{}}
}

// enter counts a connection of a peer until leave is called, which may be called
// again. A privileged peer does not count towards all.
func (c *connLimit) enter(peer string, privileged bool) (leave func(), err error) {
	one := 1
	if privileged {
		one = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.of[peer] >= c.each:
		return nil, mover.Errorf(mover.ErrTransient, "%s has %d connections, and may have no more", peer, c.of[peer])
	case c.all+one > c.most:
		return nil, mover.Errorf(mover.ErrTransient, "there are %d connections, and there may be no more", c.all)
	}
	c.of[peer]++
	c.all += one
	return sync.OnceFunc(func() { c.leave(peer, one) }), nil
}

func (c *connLimit) leave(peer string, one int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all -= one
	if c.of[peer]--; c.of[peer] == 0 {
		delete(c.of, peer)
	}
}
