package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
)

// Hearer is the stream as the hearing side has it.
type Hearer interface {
	Send(*agentv1.FollowResponse) error
	Recv() (*agentv1.FollowRequest, error)
}

// Far is a tree that is told of. It is run once.
type Far struct {
	stream  Hearer
	asked   chan *agentv1.FollowRequest // batches, and questions for marks
	sending sync.Mutex

	mu     sync.Mutex // guards all below
	next   uint64
	sights map[uint64]chan *agentv1.FollowSights
	walks  map[uint64]*io.PipeWriter
	ended  error
	end    chan struct{} // is closed when ended is set
}

// Hear asks for a feed, and hears what is told, until the stream ends; Listen has to be called, too.
func Hear(s Hearer, kind *agentv1.FollowFeed) (*Far, error) {
	f := &Far{stream: s, asked: make(chan *agentv1.FollowRequest), sights: map[uint64]chan *agentv1.FollowSights{}, walks: map[uint64]*io.PipeWriter{}, end: make(chan struct{})}
	return f, s.Send(&agentv1.FollowResponse{Feed: kind})
}

func (f *Far) send(r *agentv1.FollowResponse) error {
	f.sending.Lock()
	defer f.sending.Unlock()
	return f.stream.Send(r)
}

// Listen takes what comes until the stream ends, and returns why it did.
func (f *Far) Listen(ctx context.Context) error {
	err := f.listen(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = fmt.Errorf("%w: who tells of changes is gone: %w", mover.ErrUnreachable, err)
	close(f.end)
	for _, w := range f.walks {
		_ = w.CloseWithError(f.ended) // it returns none
	}
	return err
}

func (f *Far) listen(ctx context.Context) error {
	for {
		r, err := f.stream.Recv()
		if err != nil {
			return err
		}
		switch {
		case r.GetBatch() != nil, r.GetMarkOf() != "":
			select {
			case f.asked <- r:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case r.GetSights() != nil:
			f.mu.Lock()
			c := f.sights[r.GetSights().GetId()]
			delete(f.sights, r.GetSights().GetId())
			f.mu.Unlock()
			if c != nil {
				c <- r.GetSights()
			}
		case r.GetWalk() != nil:
			f.walked(r.GetWalk())
		}
	}
}

// walked passes on a part of a walk. The reader of a walk closes it when it wants no more.
func (f *Far) walked(w *agentv1.FollowWalk) {
	f.mu.Lock()
	to := f.walks[w.GetId()]
	if w.GetEnd() {
		delete(f.walks, w.GetId())
	}
	f.mu.Unlock()
	switch {
	case to == nil:
	case w.GetEnd():
		_ = to.CloseWithError(errorOf(w.GetTrouble(), w.GetWhy())) // it returns none; nil is the end
	default:
		_, _ = to.Write(w.GetData()) // the reader has its own reason not to read
	}
}

// Run implements changefeed.Feed. What ends it ends the conversation: a batch that was not taken is told again in the next one.
func (f *Far) Run(ctx context.Context, marks changefeed.Marks, take changefeed.Take) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.end:
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, f.ended)
		case r := <-f.asked:
			if err := f.serve(ctx, r, marks, take); err != nil {
				return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
			}
		}
	}
}

func (f *Far) serve(ctx context.Context, r *agentv1.FollowRequest, marks changefeed.Marks, take changefeed.Take) error {
	if part := r.GetMarkOf(); part != "" {
		value, err := marks(part)
		if err != nil {
			return err
		}
		return f.send(&agentv1.FollowResponse{Mark: &agentv1.FollowMark{Part: part, Value: value}})
	}
	told := r.GetBatch()
	b := changefeed.Batch{All: told.GetAll(), Why: told.GetWhy(), Events: int(told.GetEvents())}
	if told.GetSince() != nil {
		b.Since = told.GetSince().AsTime()
	}
	for _, name := range told.GetNames() {
		if whole := strings.TrimSuffix(string(name), "/"); whole != "" && mover.ValidName(whole) {
			b.Names = append(b.Names, string(name))
		}
	}
	for _, m := range told.GetMarks() {
		b.Marks = append(b.Marks, catalog.Mark{Feed: m.GetPart(), Value: m.GetValue()})
	}
	if err := take(ctx, b); err != nil {
		return err
	}
	return f.send(&agentv1.FollowResponse{Taken: told.GetId()})
}

// See implements catalog.Seer.
func (f *Far) See(ctx context.Context, names []string) (all []catalog.StatResult, err error) {
	for some := range slices.Chunk(names, namesMost) {
		seen, err := f.see(ctx, some)
		if err != nil {
			return nil, err
		}
		all = append(all, seen...)
	}
	return all, nil
}

func (f *Far) see(ctx context.Context, names []string) ([]catalog.StatResult, error) {
	ask := &agentv1.FollowLook{}
	for _, name := range names {
		ask.Names = append(ask.Names, []byte(name))
	}
	answer := make(chan *agentv1.FollowSights, 1)
	f.mu.Lock()
	f.next++
	ask.Id = f.next
	f.sights[ask.Id] = answer
	f.mu.Unlock()
	if err := f.send(&agentv1.FollowResponse{Look: ask}); err != nil {
		return nil, err
	}
	var seen []*agentv1.FollowSight
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-f.end:
		return nil, f.ended
	case a := <-answer:
		seen = a.GetSights()
	}
	if len(seen) != len(names) {
		return nil, fmt.Errorf("%w: %d answers for %d names", mover.ErrCorrupt, len(seen), len(names))
	}
	sights := make([]catalog.StatResult, len(names))
	for i, s := range seen {
		if sights[i].Err = errorOf(s.GetTrouble(), s.GetWhy()); sights[i].Err == nil {
			sights[i].Entry, sights[i].Err = catalog.ReadEntry(names[i], s.GetEntry())
		}
	}
	return sights, nil
}

// Stat implements catalog.Source.
func (f *Far) Stat(ctx context.Context, name string) (mover.Entry, error) {
	seen, err := f.See(ctx, []string{name})
	if err != nil {
		return mover.Entry{}, err
	}
	return seen[0].Entry, seen[0].Err
}

// Walk implements catalog.Source.
func (f *Far) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		r, w := io.Pipe()
		defer r.Close()
		f.mu.Lock()
		f.next++
		id := f.next
		f.walks[id] = w
		if f.ended != nil {
			_ = w.CloseWithError(f.ended) // it returns none
		}
		f.mu.Unlock()
		defer context.AfterFunc(ctx, func() { _ = r.CloseWithError(context.Cause(ctx)) })() // it returns none
		if err := f.send(&agentv1.FollowResponse{Walk: &agentv1.FollowDir{Id: id, Dir: []byte(o.Dir)}}); err != nil {
			yield(mover.Entry{}, err)
			return
		}
		for e, err := range catalog.Receive(r).Walk(ctx, o) {
			if !yield(e, err) {
				return
			}
		}
	}
}
