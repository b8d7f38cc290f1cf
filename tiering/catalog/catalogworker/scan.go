package catalogworker

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/catalog"
)

// Scan is the Runner that walks the source, and has the walk brought into the catalog. Where the connection breaks, it walks
// again: what the catalog has already costs it little.
type Scan struct{ worker.FollowsLinks }

// Run implements worker.Runner.
func (Scan) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	begun := time.Now()
	l, err := j.At(j.Spec().GetSource())
	if err != nil {
		return engine.Report{}, err
	}
	var found *agentv1.PutWalkResponse
	err = engine.Visit(ctx, l, j.Open, func(place mover.Backend) error {
		return j.Resend(ctx, "catalog", func(ctx context.Context) (err error) {
			j.State(engine.Moving, "")
			found, err = sendWalk(ctx, j, place)
			return err
		})
	})
	if err != nil {
		return engine.Report{Elapsed: time.Since(begun)}, err
	}
	note := fmt.Sprintf("%s of %s in %s", units.Plural(found.GetFiles(), "file", "files"), units.Bytes(found.GetBytes()), units.Plural(found.GetDirs(), "folder", "folders"))
	if n := found.GetOthers(); n > 0 {
		note += ", and " + units.Plural(n, "other name", "other names")
	}
	notes := []string{note}
	if n := found.GetUnread(); n > 0 {
		notes = append(notes, fmt.Sprintf("%s could not be read: what is known of what is in them is as old as it was", units.Plural(n, "folder", "folders")))
	}
	return engine.Report{Elapsed: time.Since(begun), Notes: notes}, nil
}

func sendWalk(ctx context.Context, j *worker.Job, place mover.Backend) (*agentv1.PutWalkResponse, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the stream when the walk fails
	defer cancel()
	stream, err := j.Agent().Walk(ctx)
	if err != nil {
		return nil, worker.FromAgent(ctx, err)
	}
	at := &paced{Backend: place, job: j}
	stop := at.tell(ctx)
	out := &walked{stream: stream}
	err = catalog.Send(ctx, out, at, mover.WalkOptions{After: string(j.Spec().GetScanPart().GetAfter())})
	stop()
	if err != nil && out.err == nil {
		return nil, err // of the walk
	}
	answer, err := stream.CloseAndRecv() // says also why it takes no more
	return answer.GetFound(), worker.FromAgent(ctx, err)
}

// walked is an io.Writer that sends what it is given.
type walked struct {
	stream agentv1.WorkerService_WalkClient
	err    error // of sending: the answer says why
}

func (s *walked) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); sent += walkChunk {
		if s.err = s.stream.Send(&agentv1.WalkRequest{Data: p[sent:min(len(p), sent+walkChunk)]}); s.err != nil {
			return sent, s.err
		}
	}
	return len(p), nil
}

const (
	walkChunk = 64 << 10    // bytes that one message has at most
	walkTurn  = 5000        // entries between two turns: walks wait in line as everything does
	walkTold  = time.Second // between two words of how far it is
)

// paced is a backend with a walk that waits for its turn now and then, and reports its progress.
type paced struct {
	mover.Backend
	job  *worker.Job
	seen atomic.Int64
}

// Unwrap shows what else the backend can do.
func (p *paced) Unwrap() any { return p.Backend }

// Walk implements catalog.Source.
func (p *paced) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range p.Backend.Walk(ctx, o) {
			if p.seen.Add(1)%walkTurn == 1 {
				granted, err := p.job.AcquireSlot(ctx, transfer.SlotRequest{Ops: walkTurn, Most: 1, Fill: 1})
				if err != nil {
					yield(mover.Entry{}, err)
					return
				}
				granted.Done(0) // a turn that is kept would wait for the catalog, too
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// tell says now and then how far it is, until stop is called.
func (p *paced) tell(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(walkTold)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.job.State(engine.Moving, units.Count(p.seen.Load())+" names were seen")
			}
		}
	}()
	return func() { cancel(); <-done }
}
