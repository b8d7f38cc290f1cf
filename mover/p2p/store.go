package p2p

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"datamove.dev/mover/engine/bufpool"
)

// store is the pieces that are in memory, within a limit.
type store struct {
	slotBytes int64
	most      int           // slots
	memory    *bufpool.Pool // of them: they are too large, and too many, to be looked after by the collector

	mu    sync.Mutex
	slots map[Key]*slot // guarded by mu, as all below
	idle  list.List     // of *slot without users, the one to go first in front
	room  chan struct{} // closed, and made anew, when a slot may be had
	over  bool          // what is given back is dropped
}

// slot is a piece in memory, or on its way there.
type slot struct {
	key  Key
	done chan struct{} // closed when it is there, or is not to be had
	data []byte        // of the piece; set before done is closed, as err and from
	err  error
	from string // the member that gave it; "" is the source, or this one

	asks  atomic.Bool // another member was asked for it, as its home
	reads atomic.Bool // the source is being read, and no other member is waited for

	promised atomic.Bool // another member will ask for it again

	users int           // guarded by store.mu, as all below
	taken int           // bytes that were read by our own; all of them: it needs not stay
	place *list.Element // in idle; nil while it is used
}

func (s *store) open(memory, slotBytes int64) {
	s.slotBytes, s.most = slotBytes, max(int(memory/slotBytes), 4)
	s.memory = bufpool.New(int64(s.most) * slotBytes)
	s.slots, s.room = map[Key]*slot{}, make(chan struct{})
}

// priority is how much of the memory a request may use. What others wait for comes first, so that two members never wait for each
// other's memory; what is read ahead comes last.
type priority int

const (
	ahead priority = iota
	own
	others
)

func (s *store) limit(p priority) int {
	switch p {
	case ahead:
		return max(s.most/2, 1)
	case own:
		return max(s.most*3/4, 2)
	}
	return s.most
}

// take returns the slot of a piece, to be given back. mine says that it is new, and is to be loaded by the caller. It waits for
// memory. A caller that reads ahead gets a nil slot when there is none, or when the piece has a slot already.
func (s *store) take(ctx context.Context, key Key, p priority) (t *slot, mine bool, err error) {
	for {
		s.mu.Lock()
		if t := s.slots[key]; t != nil {
			if p == ahead {
				s.mu.Unlock()
				return nil, false, nil
			}
			s.use(t)
			s.mu.Unlock()
			return t, false, nil
		}
		if t := s.make(key, p); t != nil || p == ahead {
			s.mu.Unlock()
			return t, t != nil, nil
		}
		room := s.room
		s.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// ready returns the slot of a piece that is there, to be given back; nil is none.
func (s *store) ready(key Key) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.slots[key]
	if t == nil || !t.loaded() || t.err != nil {
		return nil
	}
	s.use(t)
	return t
}

// reads says whether a piece comes from the source just now.
func (s *store) reads(key Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.slots[key]
	return t != nil && t.reads.Load()
}

// claim marks a slot before its piece is read from the source. Where that comes in the other way already, or has come, it returns
// the slot of that instead, to be given back.
func (s *store) claim(t *slot) (other *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.slots[t.key.twin()]; x != nil && (x.loaded() && x.err == nil || !x.loaded() && x.reads.Load()) {
		s.use(x)
		return x
	}
	t.reads.Store(true)
	return nil
}

// loaded says that a slot is there, or is not to be had.
func (t *slot) loaded() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// use keeps a slot from going. mu is held.
func (s *store) use(t *slot) {
	if t.place != nil {
		s.idle.Remove(t.place)
		t.place = nil
	}
	t.users++
}

// make makes a slot within the limit, in the place of an idle one where it has to; nil is no room. mu is held.
func (s *store) make(key Key, p priority) *slot {
	for len(s.slots) >= s.limit(p) {
		oldest := s.idle.Front()
		if oldest == nil || p == ahead && !oldest.Value.(*slot).spent() {
			return nil
		}
		s.drop(oldest.Value.(*slot))
	}
	t := &slot{key: key, done: make(chan struct{}), users: 1}
	s.slots[key] = t
	return t
}

// drop forgets an idle slot. mu is held.
func (s *store) drop(t *slot) {
	if t.place != nil {
		s.idle.Remove(t.place)
		t.place = nil
	}
	delete(s.slots, t.key)
	if t.data != nil {
		s.memory.Put(t.data)
		t.data = nil
	}
}

// buffer is memory for the bytes of a piece. There is some: slots are not more than it has room for.
func (s *store) buffer(ctx context.Context, n int64) ([]byte, error) {
	b, err := s.memory.Get(ctx, int(s.slotBytes))
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// close gives back the memory: at once that of slots without users.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for oldest := s.idle.Front(); oldest != nil; oldest = s.idle.Front() {
		s.drop(oldest.Value.(*slot))
	}
	s.memory.Trim()
}

// spent says that our own have read all of it. store.mu is held.
func (t *slot) spent() bool { return t.taken >= len(t.data) }

// give ends the use of a slot, of which so many bytes were read by our own. One that is spent goes before others.
func (s *store) give(t *slot, taken int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.taken += taken
	if t.users--; t.users > 0 {
		return
	}
	switch {
	case t.err != nil, s.over:
		s.drop(t)
	case t.spent():
		t.place = s.idle.PushFront(t)
	default:
		t.place = s.idle.PushBack(t)
	}
	close(s.room)
	s.room = make(chan struct{})
}
