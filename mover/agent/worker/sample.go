package worker

import (
	"context"
	"time"

	"datamove.dev/mover/engine"
)

// sample checks whether the account of this worker may read the source.
func (w *worker) sample(ctx context.Context) (engine.Report, error) {
	begun := time.Now()
	l, err := w.at(w.job.GetSpec().GetSource())
	if err == nil {
		err = engine.Sample(ctx, l, w.open)
	}
	return engine.Report{Elapsed: time.Since(begun)}, err
}
