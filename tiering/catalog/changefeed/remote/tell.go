package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
)

// Teller is the stream as the telling side has it.
type Teller interface {
	Send(*agentv1.FollowRequest) error
	Recv() (*agentv1.FollowResponse, error)
}

const (
	namesMost = 4096     // in one batch, and in one look
	bytesMost = 1 << 20  // of them
	walkChunk = 64 << 10 // bytes of a walk in one message
	waitLeast = time.Second
	waitMost  = time.Minute
)

// Tell tells of changes in a tree, and answers what it is asked, until the stream or ctx ends, or the feed says that it can not be had. open makes the feed that is
// asked for.
func Tell(ctx context.Context, s Teller, src catalog.Source, open func(*agentv1.FollowFeed) (changefeed.Feed, error), log *slog.Logger) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	f, err := open(first.GetFeed())
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	t := &teller{stream: s, src: src, log: log, heard: make(chan heard)}
	go t.hear(ctx) // which nothing ends but the stream: a feed that can not be had is told of while it waits
	g.Go(func() error { return t.listen(ctx, g) })
	g.Go(func() error { return t.run(ctx, f) })
	return g.Wait()
}

type teller struct {
	stream Teller
	src    catalog.Source
	log    *slog.Logger
	heard  chan heard

	asking  sync.Mutex // held while a question waits for its answer
	sending sync.Mutex

	mu     sync.Mutex // guards all below
	batch  uint64     // the last that was told
	awaits *awaits    // nil: no question waits; an answer may come after its question was given up
}

// heard is one message, or the end of the stream.
type heard struct {
	r   *agentv1.FollowResponse
	err error
}

// hear passes on what comes, until the context or the stream ends.
func (t *teller) hear(ctx context.Context) {
	for {
		r, err := t.stream.Recv()
		select {
		case t.heard <- heard{r, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// awaits is an answer that is waited for: to a batch, or of the mark of a part.
type awaits struct {
	batch  uint64
	part   string
	answer chan []byte // has room for it
}

// ask sends a question, and waits for the answer to it, and to no other.
func (t *teller) ask(ctx context.Context, r *agentv1.FollowRequest) ([]byte, error) {
	t.asking.Lock()
	defer t.asking.Unlock()
	w := &awaits{part: r.GetMarkOf(), answer: make(chan []byte, 1)}
	t.mu.Lock()
	if r.GetBatch() != nil {
		t.batch++
		r.Batch.Id, w.batch = t.batch, t.batch
	}
	t.awaits = w
	t.mu.Unlock()
	if err := t.send(r); err != nil {
		return nil, fmt.Errorf("%w: %w", errStream, err)
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case value := <-w.answer:
		return value, nil
	}
}

// answered passes on an answer, if it is the one that a question waits for.
func (t *teller) answered(batch uint64, part string, value []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.awaits; w != nil && w.batch == batch && w.part == part {
		t.awaits = nil
		w.answer <- value
	}
}

func (t *teller) send(r *agentv1.FollowRequest) error {
	t.sending.Lock()
	defer t.sending.Unlock()
	return t.stream.Send(r)
}

// run runs the feed again when it breaks off.
func (t *teller) run(ctx context.Context, f changefeed.Feed) error {
	for wait := waitLeast; ; wait = min(2*wait, waitMost) {
		began := time.Now()
		err := f.Run(ctx, func(part string) ([]byte, error) { return t.markOf(ctx, part) }, t.take)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, mover.ErrUsage) || errors.Is(err, mover.ErrPermission) || errors.Is(err, errStream) {
			return err
		}
		if time.Since(began) > waitMost {
			wait = waitLeast
		}
		t.log.Warn("the feed of changes broke off, and is begun again", "in", wait, "err", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// errStream is the end of the conversation.
var errStream = errors.New("the conversation has ended")

func (t *teller) markOf(ctx context.Context, part string) ([]byte, error) {
	return t.ask(ctx, &agentv1.FollowRequest{MarkOf: part})
}

// take hands over a batch, in parts if it is large. What is said of all of it comes with the last one.
func (t *teller) take(ctx context.Context, b changefeed.Batch) error {
	for {
		part := &agentv1.FollowBatch{All: b.All, Why: b.Why, Since: timestamppb.New(b.Since)}
		bytes := 0
		for len(b.Names) > 0 && len(part.Names) < namesMost && bytes < bytesMost {
			part.Names = append(part.Names, []byte(b.Names[0]))
			bytes += len(b.Names[0])
			b.Names = b.Names[1:]
		}
		last := len(b.Names) == 0
		if last {
			part.Events = int64(b.Events)
			for _, m := range b.Marks {
				part.Marks = append(part.Marks, &agentv1.FollowMark{Part: m.Feed, Value: m.Value})
			}
		}
		if b.Since.IsZero() {
			part.Since = nil
		}
		if _, err := t.ask(ctx, &agentv1.FollowRequest{Batch: part}); err != nil || last {
			return err
		}
	}
}

// listen takes answers and questions.
func (t *teller) listen(ctx context.Context, g *errgroup.Group) error {
	for {
		var now heard
		select {
		case now = <-t.heard:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		r := now.r
		switch {
		case now.err != nil:
			return fmt.Errorf("%w: %w", errStream, now.err)
		case r.GetTaken() != 0:
			t.answered(r.GetTaken(), "", nil)
		case r.GetMark() != nil:
			t.answered(0, r.GetMark().GetPart(), r.GetMark().GetValue())
		case r.GetLook() != nil:
			g.Go(func() error { return t.look(ctx, r.GetLook()) })
		case r.GetWalk() != nil:
			g.Go(func() error { return t.walk(ctx, r.GetWalk()) })
		}
	}
}

func (t *teller) look(ctx context.Context, ask *agentv1.FollowLook) error {
	names := make([]string, len(ask.GetNames()))
	for i, name := range ask.GetNames() {
		names[i] = string(name)
	}
	seen, err := catalog.See(ctx, t.src, names)
	if err != nil {
		return err
	}
	answer := &agentv1.FollowSights{Id: ask.GetId()}
	for i := range seen {
		one := &agentv1.FollowSight{}
		if one.Trouble, one.Why = troubleOf(seen[i].Err); seen[i].Err == nil {
			one.Entry = catalog.AppendEntry(nil, &seen[i].Entry)
		}
		answer.Sights = append(answer.Sights, one)
	}
	return t.send(&agentv1.FollowRequest{Sights: answer})
}

// walk walks, and sends what it sees. That a walk fails is an answer.
func (t *teller) walk(ctx context.Context, ask *agentv1.FollowDir) error {
	out := &walking{t: t, id: ask.GetId()}
	w := bufio.NewWriterSize(out, walkChunk)
	err := catalog.Send(ctx, w, t.src, mover.WalkOptions{Dir: string(ask.GetDir())})
	if err == nil {
		err = w.Flush()
	}
	if out.err != nil || ctx.Err() != nil {
		return errors.Join(out.err, context.Cause(ctx))
	}
	end := &agentv1.FollowWalk{Id: ask.GetId(), End: true}
	end.Trouble, end.Why = troubleOf(err)
	return t.send(&agentv1.FollowRequest{Walk: end})
}

// walking sends what is written.
type walking struct {
	t   *teller
	id  uint64
	err error // of sending
}

func (w *walking) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); sent += walkChunk {
		if w.err = w.t.send(&agentv1.FollowRequest{Walk: &agentv1.FollowWalk{Id: w.id, Data: p[sent:min(len(p), sent+walkChunk)]}}); w.err != nil {
			return sent, w.err
		}
	}
	return len(p), nil
}

var _ io.Writer = (*walking)(nil)

func troubleOf(err error) (agentv1.FollowSight_Trouble, string) {
	switch {
	case err == nil:
		return agentv1.FollowSight_TROUBLE_UNSPECIFIED, ""
	case errors.Is(err, mover.ErrNotExist):
		return agentv1.FollowSight_TROUBLE_NOT_EXIST, ""
	case errors.Is(err, mover.ErrPermission):
		return agentv1.FollowSight_TROUBLE_PERMISSION, ""
	}
	return agentv1.FollowSight_TROUBLE_OTHER, mover.Printable(err.Error())
}

func errorOf(trouble agentv1.FollowSight_Trouble, why string) error {
	switch trouble {
	case agentv1.FollowSight_TROUBLE_UNSPECIFIED:
		return nil
	case agentv1.FollowSight_TROUBLE_NOT_EXIST:
		return mover.ErrNotExist
	case agentv1.FollowSight_TROUBLE_PERMISSION:
		return mover.ErrPermission
	}
	return errors.New(mover.Printable(why))
}
