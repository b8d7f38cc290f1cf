package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/task"
)

// describe reads what lies at a location and has its manifest stored. That is written
// down here first: contents are read once, however often it has to be sent.
func (w *worker) describe(ctx context.Context, at string) (engine.Report, error) {
	begun := time.Now()
	l, err := w.at(at)
	if err != nil {
		return engine.Report{}, err
	}
	spool, err := os.CreateTemp(w.job.GetStateDir(), "manifest-")
	if err != nil {
		return engine.Report{}, err
	}
	defer spool.Close()
	if err := os.Remove(spool.Name()); err != nil { // it goes with this process
		return engine.Report{}, err
	}
	out := bufio.NewWriterSize(spool, 64<<10)
	if err = engine.WriteManifest(ctx, l, out, w.open); err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = w.sendManifest(ctx, spool)
	} else if errors.Is(err, mover.ErrConflict) && task.Of(w.job.GetSpec()).NoTarget {
		err = &mover.Error{Op: "add", Place: at, Err: fmt.Errorf("%w: a dataset is a folder, or what is below a prefix: %s", mover.ErrUsage, err.Error())}
	}
	return engine.Report{Elapsed: time.Since(begun)}, err
}

// How long it is between two tries to have a manifest stored. Where it has no room, it is
// longer each time: all of it has to be sent again.
const (
	resendPause     = 200 * time.Millisecond
	resendPauseMost = 30 * time.Second
)

// sendManifest sends a manifest until the coordinator takes or refuses it. It waits for a
// coordinator with a full disk, as for one that is away.
func (w *worker) sendManifest(ctx context.Context, spool io.ReadSeeker) error {
	for pause := resendPause; ; {
		err := w.sendOnce(ctx, spool)
		switch {
		case errors.Is(err, mover.ErrFull):
			w.state.State(engine.Waiting, "the coordinator has no room for the manifest: "+err.Error())
			pause = min(2*pause, resendPauseMost)
		case errors.Is(err, mover.ErrUnreachable), errors.Is(err, mover.ErrTransient):
			pause = resendPause
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (w *worker) sendOnce(ctx context.Context, spool io.ReadSeeker) error {
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	stream, err := w.agent.Describe(ctx)
	if err != nil {
		return fromAgent(ctx, err)
	}
	out := chunks{stream, make([]byte, 64<<10)}
	if _, err := io.CopyBuffer(out, struct{ io.Reader }{spool}, out.buffer); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err = stream.CloseAndRecv() // says also why it takes no more
	return fromAgent(ctx, err)
}

// chunks is an io.Writer that sends what it is given.
type chunks struct {
	stream agentv1.WorkerService_DescribeClient
	buffer []byte // 64 KiB: what one message has at most
}

func (c chunks) Write(p []byte) (int, error) {
	if err := c.stream.Send(&agentv1.DescribeRequest{Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}
