package posix

import (
	"runtime"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
)

// do lists n, which the caller has begun, and lets others know.
func (w *walk) do(n *node) {
	w.list(n)
	w.mu.Lock()
	if n.early {
		w.names += len(n.listing.arena)
	}
	if n.err == nil && n.seek() {
		w.ahead = append(w.ahead, n)
		w.wake.Broadcast()
	}
	w.mu.Unlock()
	close(n.ready)
}

// begin makes the node of record i of n, which is a directory. w.mu is held.
func (n *node) begin(i int, early bool) *node {
	s := &node{
		name:  mover.Join(n.name, string(n.listing.name(n.listing.records[i]))),
		ready: make(chan struct{}), early: early, fd: -1,
	}
	if n.inner && i == 0 {
		s.after = n.rest
	}
	if n.subs == nil {
		n.subs = map[int]*node{}
	}
	n.subs[i] = s
	n.at = max(n.at, i+1)
	return s
}

// sub is the directory that record i of n is, listed.
func (w *walk) sub(n *node, i int) *node {
	w.start()
	w.mu.Lock()
	s, begun := n.subs[i]
	if !begun {
		s = n.begin(i, false)
	}
	w.mu.Unlock()
	if !begun {
		w.do(s)
		return s
	}
	<-s.ready
	w.reached(s)
	return s
}

// reached takes a directory that a worker has listed out of what is ahead.
func (w *walk) reached(s *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirs--
	w.names -= len(s.listing.arena)
	w.wake.Signal()
}

// chunk is chunk c of n, examined.
func (w *walk) chunk(n *node, c int) *chunk {
	ch := &n.chunks[c]
	if c == 0 {
		return ch
	}
	w.start()
	w.mu.Lock()
	begun := ch.begun
	ch.begun = true
	w.mu.Unlock()
	if !begun {
		w.fillChunk(n, c)
		return ch
	}
	<-ch.done
	return ch
}

// consumed gives back the memory of a chunk that was yielded.
func (w *walk) consumed(n *node, c int) {
	ch := &n.chunks[c]
	entryChunks.Put((*[chunkLen]mover.Entry)(ch.entries[:chunkLen]))
	w.mu.Lock()
	defer w.mu.Unlock()
	ch.entries = nil
	if ch.early {
		ch.early = false
		w.entries -= chunkLen
		w.wake.Signal()
	}
}

// abandon gives up what was read ahead in n, of which nothing more is yielded.
func (w *walk) abandon(n *node) {
	w.mu.Lock()
	n.at = len(n.listing.records)
	for c := range n.chunks {
		if n.chunks[c].early {
			w.entries -= chunkLen
		}
	}
	subs := n.subs
	n.subs = nil
	w.mu.Unlock()
	for _, s := range subs {
		<-s.ready
		w.reached(s)
		w.abandon(s)
	}
}

// fillChunk examines chunk c of n, which the caller has begun.
func (w *walk) fillChunk(n *node, c int) {
	w.mu.Lock()
	fd := n.fd
	w.mu.Unlock()
	kept := fd >= 0
	var err error
	if !kept {
		fd, err = w.openDir(n.name)
	}
	if err != nil {
		n.chunks[c].err = err
	} else {
		w.examine(n, c, fd)
	}
	w.mu.Lock()
	n.left--
	over := kept && n.left == 0
	if over {
		delete(w.open, n)
		n.fd = -1
	}
	w.mu.Unlock()
	if over || !kept {
		kernel.Close(fd)
	}
}

// start begins the read-ahead, when the consumer sees that there is something to
// read: a small directory is not worth a goroutine.
func (w *walk) start() {
	if w.started {
		return
	}
	w.started = true
	for range w.place.readers {
		w.workers.Add(1)
		go w.work()
	}
}

// readersOf is how many goroutines of a walk read ahead: on local file systems as
// many as there are processors, on others, which answer late, more.
func readersOf(s *fstype.Type) int {
	if s.Durable == fstype.EachFile {
		return max(16, runtime.NumCPU())
	}
	return min(runtime.NumCPU(), 16)
}

// work does what is next in the order of the walk, until the end.
func (w *walk) work() {
	defer w.workers.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.stopped {
		do := w.next()
		if do == nil {
			w.wake.Wait()
			continue
		}
		w.mu.Unlock()
		do()
		w.mu.Lock()
	}
}

// next begins the work that the consumer will need first, or returns nil when
// there is none, or no room for its result. w.mu is held.
func (w *walk) next() func() {
	var first *node
	kept := w.ahead[:0]
	for _, n := range w.ahead {
		if !n.seek() {
			continue // all of it has been begun
		}
		kept = append(kept, n)
		if first == nil || n.before(first) {
			first = n
		}
	}
	clear(w.ahead[len(kept):])
	w.ahead = kept
	switch {
	case first == nil:
		return nil
	case first.atChunk():
		return w.nextChunk(first)
	}
	return w.nextDir(first)
}

func (w *walk) nextChunk(n *node) func() {
	if w.entries >= aheadEntries {
		return nil
	}
	c := n.at / chunkLen
	ch := &n.chunks[c]
	ch.begun, ch.early, ch.done = true, true, make(chan struct{})
	w.entries += chunkLen
	return func() {
		w.fillChunk(n, c)
		close(ch.done)
	}
}

func (w *walk) nextDir(n *node) func() {
	if w.dirs >= aheadDirs*w.place.readers || w.names >= aheadNames || w.entries >= aheadEntries {
		return nil
	}
	s := n.begin(n.at, true)
	w.dirs++
	return func() { w.do(s) }
}

// seek moves n.at to the next record that needs work: the first of a chunk that
// no goroutine has begun, or a directory.
func (n *node) seek() bool {
	for ; n.at < len(n.listing.records); n.at++ {
		if n.atChunk() {
			return true
		}
		if n.listing.records[n.at].kind == mover.Dir && n.subs[n.at] == nil {
			return true
		}
	}
	return false
}

func (n *node) atChunk() bool { return n.at%chunkLen == 0 && !n.chunks[n.at/chunkLen].begun }

// before reports whether the work at n comes before that at m in the walk, or
// nearly so: it decides what is read first, not what is yielded first.
func (n *node) before(m *node) bool {
	a, b := n.name, m.name
	if mover.Within(a, b) { // n is in m: m's next work is behind or inside it
		return a != b
	}
	if mover.Within(b, a) {
		return false
	}
	return a < b
}

// end stops the workers and closes what is open.
func (w *walk) end() {
	w.mu.Lock()
	w.stopped = true
	w.wake.Broadcast()
	w.mu.Unlock()
	w.workers.Wait()
	for n := range w.open {
		kernel.Close(n.fd)
	}
}
