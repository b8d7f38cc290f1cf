package burstbuffer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// watched says whether a deed is the node's: checkpoints leave the job's directory while it runs, and what is left when it has
// ended (tiering/slurm/checkpointer). Its task only waits, and the node ends it.
func (d deed) watched() bool { return d.request.Verb == directive.Checkpoint && d.node != "" }

// watch has nodes look at what the job writes there. One that can not be told now is told at the end.
func (w *work) watch(ctx context.Context, p Place) {
	deeds, err := w.leaving(w.Asked, p.Nodes)
	for _, d := range deeds {
		if err == nil && d.watched() {
			err = w.watchedBy(ctx, d)
		}
	}
	if err != nil {
		w.tell("its checkpoints leave at its end only: %v", err)
	}
}

// watchedBy asks a node to look, once.
func (w *work) watchedBy(ctx context.Context, d deed) error {
	last, err := w.stage.Last(ctx, w.key(d))
	if err != nil || last != nil {
		return err
	}
	if err = w.stage.Copy(ctx, w.order(d)); errors.As(err, new(*datasetclient.Underway)) {
		return nil
	}
	return err
}

// left waits until a node has brought away what is left.
func (w *work) left(ctx context.Context, d deed) error {
	var node silence
	for {
		last, err := w.stage.Last(ctx, w.key(d))
		switch {
		case err != nil && !away(err):
			return err
		case err != nil:
			w.tell("will ask again: %v", err)
		case last == nil, api.Ended(last.GetState()):
			return nil
		case node.gone(ctx, w, last):
			return w.put(ctx, d, last)
		default:
			w.tell("%s: the node brings away what is left (datamove task list --slurm-job %d)", d.summary(), w.Job)
			if err := w.stuck(ctx, d); err != nil {
				return fmt.Errorf("%w; it is on the node still, in %s", err, d.from.String())
			}
		}
		limit, cancel := context.WithTimeout(ctx, rarely)
		if err != nil || w.stage.Follow(limit, last.GetId()) != nil {
			select { // it goes on, or the service can not be asked
			case <-limit.Done():
			case <-time.After(askPause):
			}
		}
		cancel()
		if ctx.Err() != nil {
			return fmt.Errorf("%w: it goes on by itself (datamove task list --slurm-job %d)", mover.ErrTimeout, w.Job)
		}
	}
}

// stuck is what keeps a node from bringing away what it is to, and will not pass by itself.
func (w *work) stuck(ctx context.Context, d deed) error {
	if !d.watched() {
		return nil
	}
	client, err := w.stage.Client(ctx)
	if err != nil {
		return nil // the waiting phase asks again
	}
	seen, leaves := map[string]bool{}, w.own.Labels()
	leaves[slurm.Leaves] = d.node
	for t, err := range datasetclient.Tasks(ctx, client, &datamovev1.ListTasksRequest{Brief: true, Labels: leaves}) {
		if err != nil {
			return nil
		}
		key := t.GetSpec().GetLabels()[slurm.CopyLabel]
		if seen[key] || !strings.HasPrefix(t.GetSpec().GetTarget()+"/", strings.TrimSuffix(d.to.String(), "/")+"/") {
			continue
		}
		seen[key] = true
		if api.Ended(t.GetState()) && lasts(t) {
			return fmt.Errorf("%w (task %s): %s", mover.KindNamed(t.GetErrorKind()), t.GetId(), mover.Printable(t.GetError()))
		}
	}
	return nil
}

// lasts says whether a copy of a checkpoint has failed for what does not pass by itself. All else its node tries again.
func lasts(t *datamovev1.Task) bool {
	kind := mover.KindNamed(t.GetErrorKind())
	return errors.Is(kind, mover.ErrPermission) || errors.Is(kind, mover.ErrUsage) || errors.Is(kind, mover.ErrRefused)
}
