package checkpointer

import (
	"context"
	"slices"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
)

// besides are the watches of other nodes that bring to the same place.
func (r *round) besides() (all []watch) {
	for _, w := range r.job.watches {
		if w.node != r.Node && w.source.String() == r.watch.source.String() && w.target.String() == r.watch.target.String() {
			all = append(all, w)
		}
	}
	return all
}

// whole says whether all other nodes have brought their parts of a save: moved, or given when one never will.
func (r *round) whole(ctx context.Context, s checkpoint.Set) (state, error) {
	if len(r.others) == 0 {
		return moved, nil
	}
	c, err := r.mover.Client(ctx)
	if err != nil {
		return going, err
	}
	have := map[string]bool{}
	for t, err := range datasetclient.Tasks(ctx, c, &datamovev1.ListTasksRequest{PageSize: 1000, Brief: true, Labels: r.labels(saveLabel, s.Save.String(), slurm.PartLabel, partOther)}) {
		if err != nil {
			return going, err
		}
		missing := t.GetState() == datamovev1.TaskState_TASK_STATE_FAILED && r.stateOf(t) == given
		if t.GetSpec().GetTarget() == in(r.watch.target, s.Name) && (missing || r.stateOf(t) == moved) {
			have[t.GetSpec().GetNode()] = true
		}
	}
	how := moved
	for _, w := range r.others {
		switch {
		case have[w.node]:
		case w.ended:
			r.tell(r.job, "a part of a checkpoint never came from its node: it stays without its mark at the target", "name", mover.Printable(s.Name), "node", w.node)
			return given, nil
		default:
			how = going
		}
	}
	return how, nil
}

// answersMost is how many saves of other nodes are looked at: the newest.
const answersMost = 200

// answer brings away our parts of the saves of which other nodes have told. done says whether it has.
func (r *round) answer(ctx context.Context) (done bool, err error) {
	if len(r.others) == 0 {
		return true, nil
	}
	c, err := r.mover.Client(ctx)
	if err != nil {
		return false, err
	}
	looked := 0
	var wants []want
	for t, err := range datasetclient.Tasks(ctx, c, &datamovev1.ListTasksRequest{PageSize: answersMost, Brief: true, Labels: r.labels(slurm.PartLabel, partLead)}) {
		if err != nil {
			return false, err
		}
		if looked++; looked > answersMost {
			break
		}
		if name, ok := r.named(t); ok {
			wants = append(wants, r.part(name, t.GetSpec().GetLabels()[saveLabel]))
		}
	}
	done = true
	for _, w := range wants {
		how, err := r.answered(ctx, baseOf(w.from), w)
		if err != nil {
			return false, err
		}
		done = done && how != going
	}
	return done, nil
}

// part is the copy of what is here of a save of another node.
func (r *round) part(name, save string) want {
	w := want{part: partOther, from: in(r.watch.source, name), to: in(r.watch.target, name), save: save, merges: true, labels: map[string]string{saveLabel: save}}
	if s, here := r.seen.view.Set(name); here && s.Mark != "" {
		w.except = []string{s.Mark}
	}
	return w
}

// answered brings it away when it does not change, and remembers what was brought. Where nothing is here, a copy that fails says so.
func (r *round) answered(ctx context.Context, name string, w want) (state, error) {
	print, set := r.seen.tree.Print(name), r.set(name)
	e, ended := r.ends[r.key(w)]
	if _, known := r.parts[set]; !ended || !known {
		r.parts[set] = print
	}
	switch {
	case ended:
		return e.how, nil
	case print != checkpoint.Print{} && !r.seen.still(name, r.quietFor()):
		return going, nil
	}
	return r.copied(ctx, w)
}

// named is the checkpoint that another node tells of.
func (r *round) named(t *datamovev1.Task) (name string, ok bool) {
	spec := t.GetSpec()
	i := slices.IndexFunc(r.others, func(w watch) bool { return w.node == spec.GetNode() && t.GetCreateTime().AsTime().After(w.made) })
	if i < 0 || t.GetOwner().GetUid() != r.UID || t.GetState() == datamovev1.TaskState_TASK_STATE_CANCELLED {
		return "", false // or it is of a run of the job before this one
	}
	name = baseOf(spec.GetSource())
	return name, name != "" && checkpoint.Speakable(name) && spec.GetSource() == in(r.watch.source, name) && spec.GetTarget() == in(r.watch.target, name)
}

func baseOf(text string) string {
	l, err := location.Parse(text)
	if err != nil {
		return ""
	}
	return l.Base()
}

// all is the task that says that we have told of all our saves.
func (r *round) all() want {
	return want{part: partAll, from: r.watch.source.String(), to: r.watch.target.String(), save: r.watch.task, paused: true}
}

// othersTold tells other nodes that we have told of all our saves, and says whether they have. Until then they may tell of one that we have a part of, which is not
// left over. It waits for a silent node up to slurm.Grace after the end of the job.
func (r *round) othersTold(ctx context.Context) (bool, error) {
	if len(r.others) == 0 {
		return true, nil
	}
	if !r.toldAll {
		return false, nil
	}
	if _, err := r.copied(ctx, r.all()); err != nil {
		return false, err
	}
	c, err := r.mover.Client(ctx)
	if err != nil {
		return false, err
	}
	told := map[string]time.Time{}
	for t, err := range datasetclient.Tasks(ctx, c, &datamovev1.ListTasksRequest{PageSize: 1000, Brief: true, Labels: r.labels(slurm.PartLabel, partAll)}) {
		if err != nil {
			return false, err
		}
		spec := t.GetSpec()
		if spec.GetSource() != r.watch.source.String() || spec.GetTarget() != r.watch.target.String() {
			continue
		}
		if _, newer := told[spec.GetNode()]; !newer {
			told[spec.GetNode()] = t.GetCreateTime().AsTime()
		}
		if spec.GetNode() == r.Node && !api.Ended(t.GetState()) {
			r.waits = append(r.waits, t.GetId())
		}
	}
	for _, w := range r.others {
		if !w.ended && !told[w.node].After(w.made) && r.now.Sub(r.over) < slurm.Grace {
			return false, nil
		}
	}
	// What they told of before they said so is answered by a look that began later.
	first, known := r.heard[r.watch.task]
	if !known {
		r.heard[r.watch.task] = r.now
	}
	return known && first.Before(r.now), nil
}
