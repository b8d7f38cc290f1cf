package p2p

import (
	"context"
	"fmt"
	"time"

	"datamove.dev/mover"
)

// Give returns a piece that another member asks this one for, and what to call when it is used no more. atHome says that this one is its home, and
// has to read it, and answers ErrHeld when that takes a while: it is to be asked again. Else the answer is ErrNotExist where it is not there, and
// ErrHeld where it is being read. What is published already others look for themselves.
func (s *Swarm) Give(ctx context.Context, p *Piece, atHome bool) (data []byte, done func(), err error) {
	if err := p.Check(); err != nil {
		return nil, nil, err
	}
	if p.Bytes() > s.o.PieceBytes {
		return nil, nil, fmt.Errorf("%w: a piece of %d bytes, and they have at most %d", mover.ErrUsage, p.Bytes(), s.o.PieceBytes)
	}
	if t := s.store.ready(p.Key()); t != nil {
		return t.data, func() { s.store.give(t, 0) }, nil
	}
	if data, done, err = s.drafted(ctx, p); err == nil {
		return data, done, nil
	}
	if !atHome {
		return nil, nil, s.sendAway(p)
	}
	if err := s.wakes(ctx); err != nil {
		return nil, nil, err
	}
	t, mine, err := s.store.take(ctx, p.Key(), others)
	if err != nil {
		return nil, nil, err
	}
	if !mine && t.asks.Load() { // two take each other for the home, and would wait for each other
		s.store.give(t, 0)
		if t, mine, err = s.store.take(ctx, p.Key().twin(), others); err != nil {
			return nil, nil, err
		}
	}
	if mine {
		s.begin(t, p, true)
	}
	if err := s.waitAWhile(ctx, t); err != nil {
		return nil, nil, err
	}
	return t.data, func() { s.store.give(t, 0) }, nil
}

// aWhile is the time after which a member that waits for a piece is told that it will come. Without an answer it takes this member for dead.
const aWhile = 4 * time.Second

// waitAWhile waits until a slot is there, or for a while; after an error it is given back.
func (s *Swarm) waitAWhile(ctx context.Context, t *slot) error {
	patience := time.NewTimer(aWhile)
	defer patience.Stop()
	select {
	case <-t.done:
	case <-ctx.Done():
	case <-patience.C:
		t.promised.Store(true)
		s.store.give(t, 0)
		return fmt.Errorf("%w: it will be read", mover.ErrHeld)
	}
	return s.wait(ctx, t)
}

// sendAway is the error for a member that asks for a piece, but does not take this one for its home.
func (s *Swarm) sendAway(p *Piece) error {
	if s.store.reads(p.Key()) || s.store.reads(p.Key().twin()) {
		return fmt.Errorf("%w: it is being read", mover.ErrHeld)
	}
	s.sought.add(p.Index)
	return mover.ErrNotExist
}

// waking is for how long others wait for a member that has not opened its source yet.
const waking = 3 * time.Second

func (s *Swarm) wakes(ctx context.Context) error {
	patience := time.NewTimer(waking)
	defer patience.Stop()
	select {
	case <-s.begun:
		return nil
	case <-patience.C:
		return fmt.Errorf("%w: it has not begun", mover.ErrTransient)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drafted returns a piece of what is written, published or not, and what to call when it is used no more.
func (s *Swarm) drafted(ctx context.Context, p *Piece) (data []byte, done func(), err error) {
	if data, err = s.out.Get(ctx, int(p.Bytes())); err != nil {
		return nil, nil, err
	}
	if err := s.readDrafts(ctx, p, data); err != nil {
		s.out.Put(data)
		return nil, nil, err
	}
	return data, func() { s.out.Put(data) }, nil
}

func (s *Swarm) readDrafts(ctx context.Context, p *Piece, into []byte) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	for _, seg := range p.Segments {
		if err := s.drafts.read(ctx, seg, into[:seg.Length]); err != nil {
			return err
		}
		into = into[seg.Length:]
	}
	return nil
}
