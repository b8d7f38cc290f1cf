package datasetworker

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
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
)

// Describe is the Runner of a dataset that is added: its source is read, and the manifest of that stored.
type Describe struct{}

// Run implements worker.Runner.
func (Describe) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	return describe(ctx, j, j.Spec().GetSource())
}

// Strict implements worker.Runner.
func (Describe) Strict(j *worker.Job, l location.Location) bool {
	return isAt(j, l, j.Spec().GetSource())
}

// describe reads what lies at a location and has its manifest stored. That is written
// down here first: contents are read once, however often it has to be sent.
func describe(ctx context.Context, j *worker.Job, at string) (engine.Report, error) {
	begun := time.Now()
	l, err := j.At(at)
	if err != nil {
		return engine.Report{}, err
	}
	spool, err := os.CreateTemp(j.Order().GetStateDir(), "manifest-")
	if err != nil {
		return engine.Report{}, err
	}
	defer spool.Close()
	if err := os.Remove(spool.Name()); err != nil { // it goes with this process
		return engine.Report{}, err
	}
	out := bufio.NewWriterSize(spool, 64<<10)
	if err = engine.WriteManifest(ctx, l, out, j.Open); err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = j.Resend(ctx, "manifest", func(ctx context.Context) error { return sendManifest(ctx, j, spool) })
	} else if errors.Is(err, mover.ErrConflict) && task.Of(j.Spec()).NoTarget {
		err = &mover.Error{Op: "add", Location: at, Err: fmt.Errorf("%w: a dataset is a folder, or what is below a prefix: %s", mover.ErrUsage, err.Error())}
	}
	return engine.Report{Elapsed: time.Since(begun)}, err
}

func sendManifest(ctx context.Context, j *worker.Job, spool io.ReadSeeker) error {
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	stream, err := j.Agent().Describe(ctx)
	if err != nil {
		return worker.FromAgent(ctx, err)
	}
	out := chunks{stream, make([]byte, 64<<10)}
	if _, err := io.CopyBuffer(out, struct{ io.Reader }{spool}, out.buffer); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err = stream.CloseAndRecv() // says also why it takes no more
	return worker.FromAgent(ctx, err)
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
