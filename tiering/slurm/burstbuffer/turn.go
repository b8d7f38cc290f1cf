package burstbuffer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"datamove.dev/mover"
)

// Turn is one pre_run of a run of a job. When slurmctld has ended in it, and has begun again, another one takes its place.
type Turn struct {
	Record
	token string
}

// comeback is how long a run waits for a slurmctld that has ended: a restarted slurmctld without its state of the job never tears it down.
const comeback = 15 * time.Minute

// Take begins a turn of the run with that RunID; mover.ErrNotExist is none, since the job has asked for nothing, and mover.ErrConflict is
// that another one has begun.
func (c *Controller) Take(job uint32, run string) (t Turn, err error) {
	err = c.records().locked(func() error {
		if t.Record, err = c.Run(job); err != nil {
			return err
		}
		if t.RunID() != run {
			return anotherRun(job)
		}
		t.token = rand.Text()
		return c.records().write(job, fileTurn, t.token)
	})
	return t, err
}

func anotherRun(job uint32) error {
	return fmt.Errorf("%w: this run of job %d is over, and another one has begun", mover.ErrConflict, job)
}

// goesOn says whether a run goes on, as far as can be seen.
func (c *Controller) goesOn(x Record) bool {
	now, err := c.Run(x.Job)
	return err == nil && now.RunID() == x.RunID() || err != nil && !errors.Is(err, mover.ErrNotExist)
}

// over says whether a turn is another one's now, or its run is over, as far as can be seen.
func (c *Controller) over(t Turn) bool {
	var token string
	x, err := c.Run(t.Job)
	return err != nil || x.RunID() != t.RunID() || c.records().read(t.Job, fileTurn, &token) != nil || token != t.token
}

// Forsake waits after the end of a slurmctld until another process takes the turn, or ends its run. When none comes the run is given up: if
// slurmctld comes later, the job is made ready anew.
func (c *Controller) Forsake(ctx context.Context, t Turn) error {
	limit := time.NewTimer(comeback)
	defer limit.Stop()
	look := time.NewTicker(askPause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return c.giveUp(ctx, t.Record, func() bool { return !c.over(t) })
		case <-look.C:
			if c.over(t) {
				return nil
			}
		}
	}
}
