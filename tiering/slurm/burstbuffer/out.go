package burstbuffer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// mark has a task wait for each request that brings something from the job's directory on its nodes: hooks there see that the directory
// is wanted still, whatever happens to the controller, and people what is going to leave.
func (w *work) mark(ctx context.Context) error {
	deeds, err := w.marks()
	for _, d := range deeds {
		if err == nil {
			err = w.marked(ctx, d)
		}
	}
	return err
}

// marks are what leaves the job's directory, from a node that is not known: for values that the job does not have yet something else stands.
func (w *work) marks() ([]deed, error) {
	s := w.site
	s.values.Name, s.values.Task, s.values.Array = "_", "_", "_"
	all, err := s.leaving(w.Asked, []string{"_"})
	for i := range all {
		all[i].mark = true
	}
	return slices.DeleteFunc(all, func(d deed) bool { return d.node == "" }), err
}

// marked submits a mark, once.
func (w *work) marked(ctx context.Context, d deed) error {
	last, err := w.stage.Last(ctx, w.key(d))
	if err != nil || last != nil {
		return err
	}
	err = w.stage.Copy(ctx, datasetclient.Order{Key: w.key(d), From: d.from.String(), To: d.to.String(), Labels: map[string]string{slurm.Leaves: slurm.AllNodes}, Paused: true})
	if errors.As(err, new(*datasetclient.Underway)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.summary(), err)
	}
	return nil
}

// exitPatience is how long the exit status of a job may take to be known: another hook writes it down at the same time.
const exitPatience = 10 * time.Second

// State is Slurm's job_state of a job that has ended: its low byte is one of enum job_states (slurm.h), the rest are flags. 0 is not told:
// burst_buffer.lua hears it from Slurm 23.02 on (CHANGELOG/slurm-23.02.md).
type State uint32

const (
	stateMask     State = 0xff
	stateComplete State = 3 // what is less has not ended: a job that Slurm is about to begin again
)

// Out brings away what a job has written, and waits for it. What fails for good is an error when everything else is done; it stays
// where it is. Then it purges what the job wanted to be purged, if nothing failed.
func (c *Controller) Out(ctx context.Context, job uint32, s State) error {
	w, err := c.begin(job)
	if err != nil {
		return err
	}
	defer w.close()
	if !slices.ContainsFunc(w.Asked.Requests, func(r directive.Request) bool { return r.Verb != directive.StageIn }) {
		return nil
	}
	ctx = api.For(ctx, w.UID)
	if err := w.records().write(job, fileLeaves, w.RunID()); err != nil {
		return err
	}
	var p Place
	if err := w.records().read(job, filePlace, &p); err != nil {
		return fmt.Errorf("it is not known on which nodes the job was, and its results stay there: %w", err)
	}
	w.at(p)
	asked := w.Asked
	if onSuccess := func(r directive.Request) bool { return r.When == directive.Success }; slices.ContainsFunc(asked.Requests, onSuccess) && !w.succeeded(ctx, p, s) {
		asked.Requests = slices.DeleteFunc(slices.Clone(asked.Requests), onSuccess)
	}
	deeds, err := w.leaving(asked, p.Nodes)
	if err == nil {
		err = w.carry(ctx, deeds)
	}
	w.account(ctx, true)
	if err == nil {
		err = w.purge(ctx, asked)
	}
	if err != nil && w.again(p) {
		w.tell("the job begins again all the same: %v", err)
		return nil
	}
	return err
}

// again says whether Slurm is about to begin the job again. After an error it would not; nor does it tell when a node died.
func (w *work) again(p Place) bool {
	var e End
	return w.records().read(w.Job, fileEnd, &e) == nil && e.Count > p.Count
}

// succeeded says whether the job has, as far as Slurm tells. Without a state that is its exit status, which is 0 also where Slurm ended the
// run. The job is to begin again, was cancelled, had no time left or lost a node. Of these only the first is seen, and is none. Without an exit status,
// it counts as if it had: a result that is not wanted does less harm than one that is gone.
func (w *work) succeeded(ctx context.Context, p Place, s State) bool {
	if base := s & stateMask; base >= stateComplete {
		return base == stateComplete
	}
	ctx, cancel := context.WithTimeout(ctx, exitPatience)
	defer cancel()
	for {
		var e End
		if err := w.records().read(w.Job, fileEnd, &e); !errors.Is(err, mover.ErrNotExist) {
			return err != nil || e.Status == 0 && e.Count == p.Count
		}
		select {
		case <-ctx.Done():
			w.tell("how the job has ended is not known, and its results are kept")
			return true
		case <-time.After(placePause):
		}
	}
}

// carry begins everything that leaves, then takes back the marks, since the copies themselves are seen from now on, and waits for all.
// Where one can not begin the marks stay.
func (w *work) carry(ctx context.Context, deeds []deed) error {
	begun := false
	err := w.patient(ctx, func(ctx context.Context) (err error) {
		begun, err = w.depart(ctx, deeds)
		return err
	})
	if err == nil {
		err = w.records().drop(w.Job, fileLeaves)
	}
	if err == nil && begun {
		err = w.patient(ctx, w.unmark)
	}
	if err != nil {
		return err
	}
	errs := make([]error, len(deeds))
	var carrying sync.WaitGroup
	for i, d := range deeds {
		carrying.Go(func() {
			wait := w.carried
			if d.watched() {
				wait = w.left
			}
			if err := wait(ctx, d); err != nil {
				errs[i] = fmt.Errorf("%s: %w", d.summary(), err)
			}
		})
	}
	carrying.Wait()
	return errors.Join(errs...)
}

// depart begins copies, in the order in which they are asked for, also those that have failed before this call. It says
// whether all are begun; an error is a mover that is away.
func (w *work) depart(ctx context.Context, deeds []deed) (all bool, err error) {
	all = true
	for _, d := range deeds {
		last, err := w.stage.Last(ctx, w.key(d))
		if state := last.GetState(); err == nil && state != datamovev1.TaskState_TASK_STATE_DONE && state != datamovev1.TaskState_TASK_STATE_CANCELLED {
			err = w.stage.Copy(ctx, w.order(d))
		}
		switch {
		case err == nil, errors.As(err, new(*datasetclient.Underway)), last != nil && !away(err): // the last one of it had failed
		case away(err):
			return false, err
		default: // the phase that waits for it says why
			all = false
		}
	}
	return all, nil
}

func (w *work) order(d deed) datasetclient.Order {
	o := datasetclient.Order{Key: w.key(d), From: d.from.String(), To: d.to.String(), Node: d.node, Labels: map[string]string{slurm.Leaves: cmp.Or(d.node, "shared")}}
	if d.node != "" { // not every node has written something
		o.Options = &datamovev1.Options{SourceMayBeAbsent: true}
	}
	if d.aside != "" { // files that look alike may have come from two nodes at the same moment
		o.Options.BackupDir, o.Options.Checksum = d.aside, true
	}
	if d.watched() {
		o.Paused, o.Class, o.Labels[slurm.PartLabel] = true, datamovev1.TaskClass_TASK_CLASS_CHECKPOINT, slurm.Watch
		o.Labels[slurm.CheckpointLabel] = fmt.Sprintf("%s,%d", d.request.Profile, d.request.Keep)
	}
	return o
}

// carried waits for one copy, and begins it again as long as that may help.
func (w *work) carried(ctx context.Context, d deed) error {
	var node silence
	for fails, spell := 0, time.Duration(0); ; {
		last, err := w.stage.Last(ctx, w.key(d))
		switch {
		case err != nil: // is told below
		case last.GetState() == datamovev1.TaskState_TASK_STATE_DONE:
			return nil
		case last.GetState() == datamovev1.TaskState_TASK_STATE_CANCELLED:
			w.tell("%s: it was cancelled (task %s)", d.summary(), last.GetId())
			return nil
		case node.gone(ctx, w, last):
			return w.put(ctx, d, last)
		}
		if failed := datasetclient.Failed(last); err == nil && failed != nil {
			if fails++; fails > mostFails || !datasetclient.Passes(failed) && !away(failed) {
				return fmt.Errorf("%w; it is on the node still, in %s", failed, d.from.String())
			}
		}
		if err == nil {
			err = w.stage.Copy(ctx, w.order(d)) // nil when it is there by now
		}
		var u *datasetclient.Underway
		if err != nil && !errors.As(err, &u) && !away(err) && datasetclient.Failed(last) == nil {
			if last != nil && !api.Ended(last.GetState()) {
				continue // it has failed since it was looked at, and begins again
			}
			return err // it can not begin
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: it goes on by itself (datamove task list --slurm-job %d)", mover.ErrTimeout, w.Job)
		}
		if err != nil {
			w.tell("%s: %v", d.summary(), err)
			w.rest(ctx, &spell, u)
		}
	}
}

// unmark takes back the marks.
func (w *work) unmark(ctx context.Context) error {
	deeds, err := w.marks()
	for _, d := range deeds {
		if err == nil {
			err = w.stage.Stop(ctx, w.key(d))
		}
	}
	return err
}

// purge removes what the job wanted to be removed at its end. Its directory goes anyway.
func (w *work) purge(ctx context.Context, asked directive.Job) error {
	var errs []error
	for r := range asked.Of(directive.Purge) {
		if w.tiers.OfJob(r.From) {
			continue
		}
		at, err := w.values.Expand(r.From)
		if err == nil {
			err = w.purged(ctx, at.String())
		}
		if err != nil && !errors.Is(err, mover.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s: %w", r.Summary(), err))
		}
	}
	return errors.Join(errs...)
}

func (w *work) purged(ctx context.Context, at string) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%s", w.Job, w.RunID(), at))
	var t *datamovev1.Task
	err := w.patient(ctx, func(ctx context.Context) error {
		client, err := w.stage.Client(ctx)
		if err == nil {
			t, err = client.Purge(ctx, &datamovev1.PurgeRequest{Location: at, IdempotencyKey: "slurm-" + hex.EncodeToString(sum[:])})
		}
		if err == nil {
			t, err = client.Wait(ctx, t.GetId(), nil)
		}
		return err
	})
	if err == nil && t.GetState() == datamovev1.TaskState_TASK_STATE_FAILED {
		return fmt.Errorf("%w (task %s): %s", mover.KindNamed(t.GetErrorKind()), t.GetId(), mover.Printable(t.GetError()))
	}
	return err
}
