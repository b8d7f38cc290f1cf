package checkpointer

import (
	"context"
	"errors"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
)

// round is one look at one watch.
type round struct {
	*Carrier
	*job
	watch   watch
	seen    *seen
	now     time.Time
	others  []watch          // of other nodes that bring to the same place
	hows    map[string]state // of checkpoints that are complete here
	toldAll bool             // other nodes have been told of all of them
	waits   []string         // tasks that say so
}

// do brings away what can be.
func (r *round) do(ctx context.Context) error {
	r.others, r.hows, r.toldAll = r.besides(), map[string]state{}, true
	all := true // that is to leave has left
	var errs []error
	for _, s := range r.seen.view.Sets {
		if !s.Complete || !checkpoint.Speakable(s.Name) {
			continue
		}
		how, err := r.save(ctx, s)
		r.hows[s.Name], all, errs = how, all && how != going, append(errs, err)
	}
	done, err := r.answer(ctx)
	all, errs = all && done, append(errs, err)
	for _, t := range r.seen.view.Trackers {
		done, err := r.tracker(ctx, t)
		all, errs = all && done, append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || r.over.IsZero() {
		return err
	}
	return r.finish(ctx, all)
}

// quietFor is for how long nothing has to change. After the end of the job it is 0: the job writes no more.
func (r *round) quietFor() time.Duration {
	if !r.over.IsZero() {
		return 0
	}
	return r.quiet()
}

// save brings away one checkpoint that is complete here.
func (r *round) save(ctx context.Context, s checkpoint.Set) (state, error) {
	set, lead := r.set(s.Name), r.lead(s)
	if !r.seen.still(s.Name, r.quietFor()) {
		r.toldAll = false
		return going, nil
	}
	again, err := r.again(ctx, s)
	switch {
	case err != nil || again:
		return going, err
	case r.saved[set] == lead.save:
		return moved, nil
	}
	how, err := r.copied(ctx, lead)
	if err != nil || how != moved {
		return how, err
	}
	if how, err := r.whole(ctx, s); err != nil || how != moved {
		return how, err
	}
	if !r.before(lead) {
		r.busy = true
		return going, nil
	}
	if s.Mark != "" {
		how, err = r.copied(ctx, want{part: partLast, from: in(r.watch.source, s.Name+"/"+s.Mark), to: in(r.watch.target, s.Name+"/"+s.Mark), save: lead.save,
			labels: map[string]string{saveLabel: lead.save, setLabel: set}})
	}
	if err == nil && how == moved {
		if err := r.retain(ctx, s.Name, lead.save); err != nil {
			return going, err
		}
		r.saved[set] = lead.save
	}
	return how, err
}

// retain has those removed at the target that are not to stay, now that another one is whole there.
func (r *round) retain(ctx context.Context, name, save string) error {
	if r.watch.keep == 0 {
		return nil
	}
	c, err := r.mover.Client(ctx)
	if err != nil {
		return err
	}
	_, err = c.SubmitTask(ctx, &datamovev1.SubmitTaskRequest{
		IdempotencyKey: digest(r.key(want{part: partKeep, from: in(r.watch.source, name), to: in(r.watch.target, name), save: save})),
		Spec: &datamovev1.TaskSpec{Kind: datamovev1.TaskKind_TASK_KIND_RETAIN, Target: r.watch.target.String(), Labels: r.labels(slurm.PartLabel, partKeep),
			Retention: &datamovev1.Retention{Profile: string(r.watch.profile), Arrived: []byte(name), Last: int32(r.watch.keep)}}})
	return err
}

// lead is the copy of what is in a checkpoint, but for its mark.
func (r *round) lead(s checkpoint.Set) want {
	w := want{part: partLead, from: in(r.watch.source, s.Name), to: in(r.watch.target, s.Name), save: s.Save.String(), merges: true,
		labels: map[string]string{saveLabel: s.Save.String(), setLabel: r.set(s.Name), markLabel: s.Mark}}
	if s.Mark != "" {
		w.except = []string{s.Mark}
	}
	return w
}

// again says whether another save of that name is whole at the target, which this one would make a mix of both for as long as it is
// copied. It waits until the job has ended.
func (r *round) again(ctx context.Context, s checkpoint.Set) (bool, error) {
	same, err := r.hasLeft(ctx, s)
	if err != nil {
		return false, err
	}
	if last := r.saved[r.set(s.Name)]; same || last == "" || !r.over.IsZero() {
		return false, nil
	}
	r.tell(r.job, "a checkpoint was written again under its name, and leaves at the end of the job: give each a name of its own", "name", mover.Printable(s.Name))
	return true, nil
}

// lastSaved asks which save of a checkpoint is whole at its target; "" is none.
func (r *round) lastSaved(ctx context.Context, set string) (string, error) {
	c, err := r.mover.Client(ctx)
	if err != nil {
		return "", err
	}
	for t, err := range datasetclient.Tasks(ctx, c, &datamovev1.ListTasksRequest{Brief: true, Labels: r.labels(setLabel, set), States: []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_DONE}}) {
		if err != nil {
			return "", err
		}
		l := t.GetSpec().GetLabels()
		if l[slurm.Leaves] == r.Node && (l[slurm.PartLabel] == partLast || l[slurm.PartLabel] == partLead && l[markLabel] == "") {
			return l[saveLabel], nil
		}
	}
	return "", nil
}

// set names a checkpoint at its target, for labels.
func (r *round) set(name string) string { return digest(r.watch.target.String() + "\x00" + name) }

// tracker brings away what names the newest, when that is whole at the target.
func (r *round) tracker(ctx context.Context, t checkpoint.Tracker) (done bool, err error) {
	s, there := r.seen.view.Set(t.Names)
	switch {
	case !there || !s.Complete || !checkpoint.Speakable(t.Name) || r.hows[s.Name] == given:
		return true, nil // at the target it would name what is not there
	case r.hows[s.Name] == going || !r.seen.still(t.Name, r.quietFor()):
		return false, nil
	}
	how, err := r.copied(ctx, want{part: partLast, from: in(r.watch.source, t.Name), to: in(r.watch.target, t.Name), save: t.Print.String()})
	return how != going, err
}
