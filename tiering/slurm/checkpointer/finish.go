package checkpointer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/checkpoint"
)

// finish brings away what is left when the job has ended, and ends the watch. all says whether everything else has left.
func (r *round) finish(ctx context.Context, all bool) error {
	ready, err := r.othersTold(ctx)
	if err != nil || !all || !ready {
		return err
	}
	wants, err := r.left(ctx)
	if err != nil {
		return err
	}
	done, errs := true, []error{}
	for _, w := range wants {
		how, err := r.copied(ctx, w)
		done, errs = done && how != going, append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || !done {
		return err
	}
	return r.end(ctx)
}

// left are the copies of what is no checkpoint that is complete, nor was one when it left.
func (r *round) left(ctx context.Context) (wants []want, err error) {
	v, apart := r.seen.view, slices.Clone(r.seen.view.Aside)
	for _, s := range v.Sets {
		if !checkpoint.Speakable(s.Name) {
			continue // it leaves with the rest
		}
		apart = append(apart, s.Name)
		if part, told := r.parts[r.set(s.Name)]; s.Complete || told && part == s.Print {
			continue
		}
		if has, err := r.hasLeft(ctx, s); err != nil || has {
			if err != nil {
				return nil, err
			}
			continue
		}
		r.tell(r.job, "a checkpoint is not complete, and leaves under another name", "name", mover.Printable(s.Name), "why", mover.Printable(s.Why))
		wants = append(wants, want{part: partLeft, from: in(r.watch.source, s.Name), to: in(r.watch.target, fmt.Sprintf("%s.incomplete-%d", s.Name, r.ID)),
			save: s.Print.String(), merges: true})
	}
	for _, t := range v.Trackers {
		apart = append(apart, t.Name)
	}
	if len(v.Rest) > 0 || r.seen.blind || len(apart) < len(v.Sets)+len(v.Trackers)+len(v.Aside) {
		wants = append(wants, want{part: partLeft, from: r.watch.source.String(), to: r.watch.target.String(), except: apart, merges: true})
	}
	return wants, nil
}

// hasLeft says whether a checkpoint is whole at the target as it looks: it was complete before what is beside it said otherwise.
func (r *round) hasLeft(ctx context.Context, s checkpoint.Set) (bool, error) {
	set := r.set(s.Name)
	if _, known := r.saved[set]; !known {
		save, err := r.lastSaved(ctx, set)
		if err != nil {
			return false, err
		}
		r.saved[set] = save
	}
	return r.saved[set] == s.Save.String(), nil
}

// end ends the watch: nothing is to leave any more.
func (r *round) end(ctx context.Context) error {
	for _, task := range slices.Concat(r.waits, r.watch.older, []string{r.watch.task}) {
		if err := r.cancel(ctx, task); err != nil {
			return err
		}
	}
	r.asked = time.Time{}
	return nil
}

func (r *round) cancel(ctx context.Context, task string) error {
	c, err := r.mover.Client(ctx)
	if err != nil {
		return err
	}
	if _, err := c.CancelTask(ctx, &datamovev1.CancelTaskRequest{Id: task}); err != nil && !errors.Is(err, mover.ErrConflict) {
		return err // in conflict is one that has ended
	}
	return nil
}
