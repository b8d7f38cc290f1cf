package p2p

import (
	"context"
	"errors"
	"sync"

	"datamove.dev/mover"
)

// openFiles are the files of the source that are held open because more pieces of them will be read: a large one is opened once,
// and not once for each piece.
type openFiles struct {
	mu   sync.Mutex
	held []*holding // guarded by mu, the one that was used last behind the others
}

// holding is an open file.
type holding struct {
	name    string
	ready   chan struct{} // closed when it is open
	content mover.Content // set before ready is closed, as err
	err     error
	users   int // guarded by openFiles.mu
}

// handMost is how many files without a reader are held open.
const handMost = 8

// open opens the file of a segment, until done is called.
func (h *openFiles) open(ctx context.Context, s *Swarm, seg Segment) (c mover.Content, done func(), err error) {
	if seg.Off == 0 && seg.Length < s.o.PieceBytes { // a small file: it is all of it
		c, err := s.openSource(ctx, seg)
		return c, func() { _ = c.Close() }, err
	}
	h.mu.Lock()
	x := h.find(seg.Name)
	if x == nil {
		x = &holding{name: seg.Name, ready: make(chan struct{})}
		h.held = append(h.held, x)
		go func() {
			x.content, x.err = s.openSource(mover.Ranged(context.WithoutCancel(ctx)), seg)
			close(x.ready)
		}()
	}
	x.users++
	closing := h.surplus()
	h.mu.Unlock()
	closeAll(closing)
	select {
	case <-x.ready:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		err = x.err
	}
	if err != nil {
		h.leave(x, true)
		return nil, nil, err
	}
	return x.content, func() { h.leave(x, false) }, nil
}

// find moves a file behind the others. mu is held.
func (h *openFiles) find(name string) *holding {
	for i, x := range h.held {
		if x.name == name {
			h.held = append(append(h.held[:i:i], h.held[i+1:]...), x)
			return x
		}
	}
	return nil
}

// surplus takes out files without a reader, the oldest first, until there are few. mu is held.
func (h *openFiles) surplus() (out []*holding) {
	for i := 0; i < len(h.held) && len(h.held) > handMost; {
		if x := h.held[i]; x.users == 0 {
			out = append(out, x)
			h.held = append(h.held[:i:i], h.held[i+1:]...)
			continue
		}
		i++
	}
	return out
}

// leave ends the use of a file. One that could not be opened is tried anew the next time.
func (h *openFiles) leave(x *holding, failed bool) {
	h.mu.Lock()
	x.users--
	for i := range h.held {
		if failed && h.held[i] == x && x.users == 0 {
			h.held = append(h.held[:i:i], h.held[i+1:]...)
			defer closeAll([]*holding{x})
			break
		}
	}
	h.mu.Unlock()
}

// close closes all.
func (h *openFiles) close() {
	h.mu.Lock()
	all := h.held
	h.held = nil
	h.mu.Unlock()
	closeAll(all)
}

func closeAll(all []*holding) {
	for _, x := range all {
		<-x.ready
		if x.content != nil {
			_ = x.content.Close()
		}
	}
}

// openSource opens a file of the source that a piece of is to be read: as the walk has seen it, or as it is now where the walk has not come to it, is past
// it, or has seen it as it was when its manifest was made.
func (s *Swarm) openSource(ctx context.Context, seg Segment) (mover.Content, error) {
	if e, ok := s.tree.entry(seg.Name); ok {
		if c, err := s.openFor(ctx, e, seg); !errors.Is(err, mover.ErrChanged) {
			return c, err
		}
	}
	e, err := s.inner.Stat(ctx, seg.Name)
	if err != nil {
		return nil, err
	}
	return s.openFor(ctx, e, seg)
}

func (s *Swarm) openFor(ctx context.Context, e mover.Entry, seg Segment) (mover.Content, error) {
	if e.Kind != mover.File || seg.Off+seg.Length > e.Size {
		return nil, &mover.Error{Op: "read", Location: s.inner.String(), Name: seg.Name, Err: mover.ErrChanged}
	}
	return s.inner.Open(ctx, e)
}
