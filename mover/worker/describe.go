package worker

import (
	"bufio"
	"context"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/local"
	"datamove.dev/mover/wire"
)

// describe reads the source and sends its manifest.
func (w *worker) describe(ctx context.Context) (local.Report, error) {
	begun := time.Now()
	l, err := wire.Locate(w.job.GetSpec().GetSource())
	if err == nil {
		l, err = w.resolve(l)
	}
	if err != nil {
		return local.Report{}, err
	}
	stream, err := w.agent.Describe(ctx)
	if err != nil {
		return local.Report{}, fromAgent(ctx, err)
	}
	out := bufio.NewWriterSize(chunks{stream}, 64<<10)
	err = local.WriteManifest(ctx, l, out, w.site().Open)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return local.Report{}, err
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		return local.Report{}, fromAgent(ctx, err)
	}
	return local.Report{Elapsed: time.Since(begun)}, nil
}

// chunks is an io.Writer that sends what it is given, 64 KiB at a time at most.
type chunks struct {
	stream agentv1.WorkerService_DescribeClient
}

func (c chunks) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, 64<<10)
		if err := c.stream.Send(&agentv1.DescribeRequest{Data: p[sent : sent+n]}); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}
