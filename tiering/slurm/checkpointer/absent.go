package checkpointer

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
)

// endAbsent ends the watches of jobs that have ended and have no directory here, because they never came or their prolog could not make one. Otherwise
// tasks that wait for their results wait in vain. That a job has ended says its mark (slurm.AllNodes), which waits from before it begins until its results are on their way.
func (c *Carrier) endAbsent(ctx context.Context, present []slurm.Present, live map[uint32]bool, now time.Time) error {
	if now.Before(c.later) {
		return nil
	}
	c.later = now.Add(askLate)
	client, err := c.client(ctx)
	if err != nil {
		return err
	}
	var errs []error
	marked := map[string]bool{} // by job
	for t, err := range client.Tasks(ctx, waiting(c.Node, map[string]string{slurm.PartLabel: slurm.Watch, slurm.Leaves: c.Node})) {
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		labels := t.GetSpec().GetLabels()
		text := labels[slurm.Label]
		id, err := strconv.ParseUint(text, 10, 32)
		_, lives := live[uint32(id)]
		if err != nil || lives || slices.ContainsFunc(present, func(p slurm.Present) bool { return p.ID == uint32(id) }) {
			continue
		}
		if _, known := marked[text]; !known {
			if marked[text], err = hasMark(api.For(ctx, t.GetOwner().GetUid()), client, labels); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		if marked[text] {
			continue
		}
		_, err = client.CancelTask(api.For(ctx, t.GetOwner().GetUid()), &datamovev1.CancelTaskRequest{Id: t.GetId()})
		if err != nil && !errors.Is(err, mover.ErrConflict) { // in conflict is one that has ended
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// hasMark says whether a job is to begin, or runs.
func hasMark(ctx context.Context, client *api.Client, job map[string]string) (bool, error) {
	mark := map[string]string{slurm.Label: job[slurm.Label], slurm.Leaves: slurm.AllNodes}
	if cluster := job[slurm.ClusterLabel]; cluster != "" {
		mark[slurm.ClusterLabel] = cluster
	}
	for _, err := range datasetclient.Tasks(ctx, client, waiting("", mark)) {
		return err == nil, err
	}
	return false, nil
}

func waiting(node string, labels map[string]string) *datamovev1.ListTasksRequest {
	return &datamovev1.ListTasksRequest{Node: node, Brief: true, Labels: labels, States: []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_PAUSED}}
}
