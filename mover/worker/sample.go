package worker

import (
	"context"
	"time"

	"datamove.dev/mover/local"
)

// sample sees whether whoever we are may read the source.
func (w *worker) sample(ctx context.Context) (local.Report, error) {
	begun := time.Now()
	l, err := w.at(w.job.GetSpec().GetSource())
	if err == nil {
		err = local.Sample(ctx, l, w.open)
	}
	return local.Report{Elapsed: time.Since(begun)}, err
}
