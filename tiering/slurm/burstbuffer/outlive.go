package burstbuffer

import (
	"context"
	"errors"
	"time"

	"datamove.dev/mover"
)

// First is the process of a phase that Slurm knows, as the one sees it that outlives it.
type First interface {
	Run() string            // of the job, when the process began; "" is none
	Ended() <-chan struct{} // closed some time after it is gone
	Gone() bool             // whether it is gone now
	Deserted() bool         // of one that is gone: whether its slurmctld goes, too. It waits for that
}

// undoPatience is how long a run that is given up may keep its phase.
const undoPatience = 20 * time.Second

// Outlive is a phase in a process that Slurm does not know. It ends what was asked for a job that is cancelled. After the end of its slurmctld, a job has
// what was asked for it go on, for the next time that the phase begins. When this process is to end, because systemd ends all of slurmctld's, that is so, too.
func (c *Controller) Outlive(ctx context.Context, job uint32, f First, do func(context.Context, uint32) error) error {
	if f.Gone() { // it has asked for nothing, and the turn may be a later phase's by now
		return c.abandon(ctx, job, f)
	}
	turn, none := c.Take(job, f.Run())
	if errors.Is(none, mover.ErrConflict) {
		return none // the first one was killed before we began, and what is there now is not ours to end
	}
	limit, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		defer cancel() // and not when we return: what the job waits for anew would be stopped, if this process ended slowly
		done <- do(limit, job)
	}()
	var err error
	select {
	case err = <-done:
		done <- err
		if !f.Gone() {
			return err
		}
	case <-f.Ended():
	case <-ctx.Done():
		return ctx.Err()
	}
	if none != nil {
		return none
	}
	if f.Deserted() {
		if err := c.Forsake(ctx, turn); err != nil || c.goesOn(turn.Record) {
			return err
		}
	}
	cancel() // where the run was ended meanwhile, what is asked for after its teardown is undone, too
	undo, stop := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer stop()
	return errors.Join(<-done, c.GiveUp(undo, turn.Record))
}

// abandon ends the run of a phase where the process that Slurm knows was gone before this one began. Where slurmctld is gone, too, its next one begins the phase anew.
func (c *Controller) abandon(ctx context.Context, job uint32, f First) error {
	x, err := c.Run(job)
	if err == nil && x.RunID() != f.Run() {
		err = anotherRun(job)
	}
	if err != nil || f.Deserted() {
		return err
	}
	undo, stop := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer stop()
	return c.GiveUp(undo, x)
}
