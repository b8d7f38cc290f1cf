package p2p

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/bufpool"
)

// Peers is how members are asked, and how they ask this one.
type Peers interface {
	// Get asks a member for a piece, and fills into with it, checked. atHome says that it is the piece's home, and has to read it where it has
	// it not. ErrNotExist is the answer of a member without the piece; every other error says that it can not be asked now.
	Get(ctx context.Context, m Member, p *Piece, atHome bool, into []byte) error
	// Put gives a piece that was read from the source to the members that ask this one. It may keep nothing of data when it returns.
	Put(ctx context.Context, p *Piece, data []byte) error
}

// Options are what a swarm needs. Peers has to be given, and PieceBytes, the same to all members: see [PieceBytes].
type Options struct {
	PieceBytes int64
	Memory     int64 // bytes of pieces at one time; 0 means 256 MiB
	Peers      Peers
	View       View // of the beginning; see [Swarm.Update]
	// Pay is called before so many bytes are read from the source; nil is free.
	Pay    func(ctx context.Context, bytes int64) error
	Logger *slog.Logger
}

const (
	usualMemory = 256 << 20
	outMost     = 16 // pieces of drafts that are given at one time
)

// Swarm is one member's part of a tree that many bring to themselves.
type Swarm struct {
	o     Options
	view  atomic.Pointer[View]
	tree  tree
	store store
	out   *bufpool.Pool // memory for what is given of drafts

	begun        chan struct{} // closed by Source
	outer, inner mover.Source  // set before that
	hand         openFiles
	queue        queue // of what is read from the source
	lines        lines
	drafts       drafts
	places       sync.RWMutex // held for reading while one of the places is used for others
	over         bool         // they are closed; guarded by places

	patience peerTimeouts
	trust    trust
	given    marks  // indices of what this member has read as a home
	sought   recent // indices of what another one has asked this one for, and did not get

	ctx                           context.Context // of what is read ahead
	cancel                        context.CancelFunc
	loading                       sync.WaitGroup
	fetched, read, unsure, direct atomic.Int64
}

// New returns a swarm of nothing; [Swarm.Source] and [Swarm.Target] say of what. Close ends it.
func New(o Options) *Swarm {
	if o.Memory <= 0 {
		o.Memory = usualMemory
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Pay == nil {
		o.Pay = func(context.Context, int64) error { return nil }
	}
	s := &Swarm{o: o, begun: make(chan struct{}), out: bufpool.New(outMost * o.PieceBytes)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.queue = queue{ofAll: readsOfAll, least: readsLeast, limit: readsMost, pace: new(pace)}
	s.lines.reads = &s.queue
	s.store.open(o.Memory, o.PieceBytes)
	s.tree.forget()
	s.Update(o.View)
	return s
}

// Update sets the members that are there now.
func (s *Swarm) Update(v View) {
	v.heard, v.over = time.Now(), make(chan struct{})
	if was := s.view.Swap(&v); was != nil {
		close(was.over)
	}
}

// Relies says that another member looks at what there is in the whole source: the home of the first piece does that for all.
func (s *Swarm) Relies() bool {
	v := s.view.Load()
	return v.Owner(0) != v.Self
}

// alone says that there is no member to ask for a piece, as far as this member has heard.
func (s *Swarm) alone(ctx context.Context, index int) bool {
	v := s.view.Load()
	if v.alone() && s.contested(index) {
		s.hear(ctx, v)
	}
	return s.view.Load().alone()
}

// Close ends what is read ahead, and waits for it. A later request gets nothing.
func (s *Swarm) Close() {
	s.shut()
	s.loading.Wait()
	s.store.close()
}

// shut ends the use of both places: they are about to be closed.
func (s *Swarm) shut() {
	s.cancel()
	s.places.Lock()
	s.over = true
	s.places.Unlock()
	s.hand.close()
}

// use says whether the places can be used, until done is called.
func (s *Swarm) use() (done func(), err error) {
	s.places.RLock()
	if s.over {
		s.places.RUnlock()
		return nil, fmt.Errorf("%w: this member has ended", mover.ErrNotExist)
	}
	return s.places.RUnlock, nil
}

// Counts are bytes so far.
type Counts struct {
	Fetched int64 // from other members
	Read    int64 // from the source, as a home
	Unsure  int64 // of Read: pieces that another member may have had, and none gave
	Direct  int64 // from the source, for this member alone: there was no member to ask, or none gave
}

// Counts returns how much came from where.
func (s *Swarm) Counts() Counts {
	return Counts{s.fetched.Load(), s.read.Load(), s.unsure.Load(), s.direct.Load()}
}

// window is how many pieces are on their way ahead of what is asked for: each member has some to give, so that no link has nothing to do,
// within what memory allows.
func (s *Swarm) window() int {
	v := s.view.Load()
	return min(max(16*len(v.Members), 32), max(int(s.o.Memory/s.o.PieceBytes)/2, 1))
}
