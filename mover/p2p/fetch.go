package p2p

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"datamove.dev/mover"
)

// get returns a piece in memory, to be given back, from wherever it is to be had. An error says that it is not to be had from
// others, nor from the source.
func (s *Swarm) get(ctx context.Context, p *Piece) (*slot, error) {
	t, mine, err := s.store.take(ctx, p.Key(), own)
	if err != nil {
		return nil, err
	}
	if mine {
		s.begin(t, p, false)
	}
	return t, s.wait(ctx, t)
}

// wait waits until a slot is there; after an error it is given back.
func (s *Swarm) wait(ctx context.Context, t *slot) error {
	select {
	case <-t.done:
	case <-ctx.Done():
		s.store.give(t, 0)
		return context.Cause(ctx)
	}
	if t.err != nil {
		s.store.give(t, 0)
		return t.err
	}
	return nil
}

// begin loads a slot, for all readers that wait for it: it goes on when one of them has gone.
func (s *Swarm) begin(t *slot, p *Piece, demanded bool) {
	s.loading.Add(1)
	s.store.mu.Lock()
	t.users++ // of the loading
	s.store.mu.Unlock()
	go func() {
		defer s.loading.Done()
		if t.data, t.err = s.store.buffer(s.ctx, p.Bytes()); t.err == nil {
			t.err = s.load(s.ctx, t, p, t.data, demanded)
		}
		close(t.done)
		s.store.give(t, 0)
	}()
}

// prefetch begins to load the pieces behind one.
func (s *Swarm) prefetch(index int) {
	if s.view.Load().alone() {
		return
	}
	for i := index + 1; i <= index+s.window(); i++ {
		p, known := s.tree.piece(i)
		if !known {
			continue
		}
		t, mine, err := s.store.take(s.ctx, p.Key(), ahead)
		if err != nil || !mine {
			continue
		}
		s.begin(t, p, false)
		s.store.give(t, 0)
	}
}

// load fills into with a piece. demanded says that another member takes this one for its home.
func (s *Swarm) load(ctx context.Context, t *slot, p *Piece, into []byte, demanded bool) error {
	for begun, doubt := time.Now(), false; ; {
		v, asked := s.view.Load(), time.Now()
		unsure, err := s.fromOthers(ctx, v, t, p, demanded, doubt, into)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, errMoved) {
			continue
		}
		turn, err := s.queue.enter(ctx, p.Index, v.owners())
		if err != nil {
			return err
		}
		now := s.view.Load()
		home, passed := s.homeOf(now, p.Index)
		if now != v && home.Name != "" && !demanded { // another home has come in the meantime
			turn.pass()
			continue
		}
		if asked.Before(v.heard.Add(hearing)) && time.Since(v.heard) >= hearing { // an earlier home may have read it before it heard of this view
			turn.pass()
			continue
		}
		if !doubt && !passed && s.contested(p.Index) {
			turn.pass()
			s.hear(ctx, v)
			doubt = true
			continue
		}
		if other := s.store.claim(t); other != nil {
			turn.pass()
			if err := s.copy(ctx, t, other, into); err == nil || ctx.Err() != nil {
				return err
			}
			continue
		}
		err = s.readSource(ctx, p, into)
		turn.done()
		if err != nil {
			return err
		}
		s.patience.took(time.Since(begun))
		s.given.add(p.Index)
		s.read.Add(int64(len(into)))
		if unsure {
			s.unsure.Add(int64(len(into)))
		}
		s.put(ctx, p, into, demanded && !t.promised.Load())
		return nil
	}
}

// copy fills into with a piece that the slot of the other key is loading. That slot reads from the source, and waits for no member.
func (s *Swarm) copy(ctx context.Context, t, other *slot, into []byte) error {
	if err := s.wait(ctx, other); err != nil {
		return err
	}
	defer s.store.give(other, 0)
	t.from = other.from
	copy(into, other.data)
	return nil
}

// fromOthers fills into with a piece that another member has, or reads as its home. After an error this one has to read it. unsure says that an
// unknown member may have it, or one that did not answer. Then all are asked, as they are with doubt.
func (s *Swarm) fromOthers(ctx context.Context, v *View, t *slot, p *Piece, demanded, doubt bool, into []byte) (unsure bool, err error) {
	home, passed := s.homeOf(v, p.Index)
	if home.Name != "" && !demanded {
		t.asks.Store(true)
		err := s.askOwner(ctx, v, home, p, into)
		if err == nil || ctx.Err() != nil || errors.Is(err, errMoved) {
			t.from = home.Name
			return false, err
		}
		t.asks.Store(false)
		passed = true
	}
	given := s.given.has(p.Index)
	if given && s.askSelf(ctx, v, p, into) == nil {
		return false, nil
	}
	doubt = doubt || passed || demanded && home.Name != "" || given
	if t.from, err = s.askHolders(ctx, v, p, doubt, into); err == nil {
		s.put(ctx, p, into, demanded) // others ask this one
	}
	return doubt, err
}

// hearing is how long a member waits for another view before it reads a piece that another member has asked it for in vain.
const hearing = time.Second

// contested says that another member has asked for a piece just now, and may be reading it itself.
func (s *Swarm) contested(index int) bool {
	ago, ok := s.sought.take(index)
	return ok && ago < hearing
}

// hear waits until there is another view.
func (s *Swarm) hear(ctx context.Context, v *View) {
	patience := time.NewTimer(hearing)
	defer patience.Stop()
	select {
	case <-v.over:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// put gives a piece to the members that ask for it. A member that demanded the piece gets it in another way.
func (s *Swarm) put(ctx context.Context, p *Piece, data []byte, demanded bool) {
	if demanded || s.view.Load().alone() {
		return
	}
	if err := s.o.Peers.Put(ctx, p, data); err != nil && ctx.Err() == nil {
		s.o.Logger.Debug("a piece can not be given to others", "piece", p.Index, "err", err)
	}
}

// askLongest is for how long a home that answers is waited for.
const (
	askLongest = 2 * time.Minute
	askPause   = 100 * time.Millisecond // until it is asked again, whatever it answers
)

// errMoved is the answer when another member is home of a piece now.
var errMoved = errors.New("another member is home")

// askHome asks the home of a piece in a view to read it, again and again as long as it answers that it will.
func (s *Swarm) askOwner(ctx context.Context, v *View, home Member, p *Piece, into []byte) (err error) {
	for begun := time.Now(); time.Since(begun) < askLongest; {
		if err = s.ask(ctx, v, home, p, true, into); !errors.Is(err, mover.ErrHeld) {
			return err
		}
		pause := time.NewTimer(askPause) // others are asked in the meantime
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
	return err
}

// homeOf is the member to ask for a piece; none is this one. passed says that another one was passed over.
func (s *Swarm) homeOf(v *View, index int) (home Member, passed bool) {
	if len(v.Homes) == 0 {
		return Member{}, false
	}
	names := v.Homes[len(v.Homes)-1]
	for i := range names {
		name := ownerAmong(names, index+i)
		if name == v.Self {
			return Member{}, passed
		}
		if m, there := v.member(name); there && !s.patience.passes(name) {
			return m, passed
		}
		passed = true
	}
	return Member{}, passed
}

// askHolders asks the members that may have a piece.
func (s *Swarm) askHolders(ctx context.Context, v *View, p *Piece, doubt bool, into []byte) (from string, err error) {
	who := v.Holders(p.Index)
	if doubt {
		v.eachFrom(p.Index, func(m Member) bool { return m.Name != v.Self }, func(m Member) {
			if !slices.Contains(who, m) {
				who = append(who, m)
			}
		})
	}
	err = mover.ErrNotExist
	for _, m := range who {
		if s.patience.passes(m.Name) {
			continue
		}
		if err = s.ask(ctx, v, m, p, false, into); errors.Is(err, mover.ErrHeld) { // it will have it soon
			err = s.askOwner(ctx, v, m, p, into)
		}
		if err == nil || ctx.Err() != nil {
			return m.Name, err
		}
	}
	return "", err
}

// askSelf asks for what this member has read before, and given to others: they may have been so far ahead that it is not in memory
// any more.
func (s *Swarm) askSelf(ctx context.Context, v *View, p *Piece, into []byte) error {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.Name == v.Self })
	if i < 0 {
		return mover.ErrNotExist
	}
	return s.o.Peers.Get(ctx, v.Members[i], p, false, into)
}

// ask asks one member, and remembers when it does not answer, or takes much longer than others do.
func (s *Swarm) ask(ctx context.Context, v *View, m Member, p *Piece, atHome bool, into []byte) error {
	turn, err := s.lines.of(line{m.Name, atHome}).enter(ctx, p.Index, len(v.Members)-1)
	if err != nil {
		return err
	}
	defer turn.pass()
	if now := s.view.Load(); atHome && now != v {
		if home, _ := s.homeOf(now, p.Index); home.Name != m.Name {
			return errMoved
		}
	}
	if s.patience.passes(m.Name) {
		return mover.ErrTimeout // others have not got an answer in the meantime
	}
	begun := time.Now()
	actx, cancel := context.WithTimeout(ctx, s.patience.most(atHome))
	defer cancel()
	err = s.o.Peers.Get(actx, m, p, atHome, into)
	switch {
	case err == nil:
		s.fetched.Add(int64(len(into)))
		s.patience.gave(m.Name, time.Since(begun))
	case ctx.Err() != nil, errors.Is(err, mover.ErrNotExist), errors.Is(err, mover.ErrHeld):
	case actx.Err() != nil, errors.Is(err, mover.ErrTimeout):
		if s.patience.slow(m.Name, len(v.Members)) {
			s.o.Logger.Info("a peer is slow, and is passed over for a while", "member", m.Name)
		}
		err = mover.ErrTimeout
	case errors.Is(err, mover.ErrPermission):
		s.patience.refused(m.Name)
	case s.patience.fails(m.Name):
		s.o.Logger.Info("a peer does not give, and is passed over for a while", "member", m.Name, "err", err)
	}
	return err
}

// readSource fills into with a piece from the source itself.
func (s *Swarm) readSource(ctx context.Context, p *Piece, into []byte) error {
	if err := s.o.Pay(ctx, p.Bytes()); err != nil {
		return err
	}
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	for _, seg := range p.Segments {
		if err := s.readSegment(ctx, seg, into[:seg.Length]); err != nil {
			return err
		}
		into = into[seg.Length:]
	}
	return nil
}

func (s *Swarm) readSegment(ctx context.Context, seg Segment, into []byte) error {
	c, done, err := s.hand.open(ctx, s, seg)
	if err != nil {
		return err
	}
	defer done()
	if err := readRange(ctx, c, seg.Off, into); err != nil || s.inner.Capabilities().Remote {
		return err // each answer of a store says of which version it is
	}
	return c.Check(ctx)
}

func readRange(ctx context.Context, c mover.Content, off int64, into []byte) error {
	r, err := c.Range(ctx, off, int64(len(into)))
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.ReadFull(r, into)
	return err
}
