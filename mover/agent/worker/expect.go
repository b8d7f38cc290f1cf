package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
)

// expect gets the manifest of the dataset that is copied. It lies here while the process
// lives, so that nothing depends on the coordinator being there when it is read.
func (j *Job) expect(ctx context.Context) (engine.Expectation, error) {
	if !j.order.GetExpects() {
		return nil, nil
	}
	spool, err := os.CreateTemp(j.order.GetStateDir(), "manifest-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(spool.Name()); err != nil { // it goes with this process
		return nil, errors.Join(err, spool.Close())
	}
	var size int64
	for {
		size, err = j.receiveManifest(ctx, spool)
		if !errors.Is(err, mover.ErrUnreachable) && !errors.Is(err, mover.ErrTransient) {
			break
		}
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(resendPause):
			continue
		}
		break
	}
	if err != nil {
		return nil, errors.Join(err, spool.Close())
	}
	return func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(spool, 0, size)), nil
	}, nil
}

func (j *Job) receiveManifest(ctx context.Context, into *os.File) (size int64, err error) {
	stream, err := j.agent.Manifest(ctx, &agentv1.ManifestRequest{})
	if err != nil {
		return 0, FromAgent(ctx, err)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, FromAgent(ctx, err)
		}
		n, err := into.WriteAt(m.GetData(), size)
		if size += int64(n); err != nil {
			return 0, err
		}
	}
}

// expected is what a helper has of a manifest: its lead gives it the checksums.
func (j *Job) expected() engine.Expectation {
	if !j.order.GetExpects() {
		return nil
	}
	return func(context.Context) (io.ReadCloser, error) { return nil, mover.ErrNotExist }
}
