package datasetclient

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/mover/units"
)

// View is what the mover has and does for the account that asks, at one moment.
type View struct {
	leases []*datamovev1.Lease
	tasks  []*datamovev1.Task // stagings that go on, and those that failed a short while ago; it waits for some that others have asked for
}

// recent is how long a staging that failed is told of.
const recent = 15 * time.Minute

// Look takes a View.
func (m *Mover) Look(ctx context.Context) (*View, error) {
	c, err := m.Client(ctx)
	if err != nil {
		return nil, err
	}
	v := &View{}
	for l, err := range own(ctx, c, &datamovev1.ListLeasesRequest{}) {
		if err != nil {
			return nil, err
		}
		v.leases = append(v.leases, l)
	}
	for _, q := range []*datamovev1.ListTasksRequest{
		{States: []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_QUEUED, datamovev1.TaskState_TASK_STATE_RUNNING, datamovev1.TaskState_TASK_STATE_PAUSED}},
		{States: []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_FAILED}},
	} {
		q.Brief, q.PageSize = true, 500
		for t, err := range Tasks(ctx, c, q) {
			if err != nil {
				return nil, err
			}
			if ended := t.GetEndTime(); ended != nil && time.Since(ended.AsTime()) > recent {
				break // the newest come first
			}
			if task.Of(t.GetSpec()).Shared {
				v.tasks = append(v.tasks, t)
			}
		}
	}
	return v, nil
}

// On returns the nodes where holders that begin with a prefix have something.
func (v *View) On(prefix string) (nodes []string) {
	for _, l := range v.leases {
		if strings.HasPrefix(l.GetHolder(), prefix) && !slices.Contains(nodes, l.GetNode()) {
			nodes = append(nodes, l.GetNode())
		}
	}
	slices.Sort(nodes)
	return nodes
}

// Versions returns the digests that holders which begin with a prefix have.
func (v *View) Versions(prefix string) (digests []string) {
	for _, l := range v.leases {
		if strings.HasPrefix(l.GetHolder(), prefix) && l.GetDigest() != "" && !slices.Contains(digests, l.GetDigest()) {
			digests = append(digests, l.GetDigest())
		}
	}
	slices.Sort(digests)
	return digests
}

// Coming says of a source how far it is on the nodes that it is being staged to, a phrase for each.
func (v *View) Coming(source string) (phrases []string) {
	return v.phrases(source, func(t *datamovev1.Task) string {
		if t.GetState() == datamovev1.TaskState_TASK_STATE_FAILED {
			return ""
		}
		return Progress(t)
	})
}

// Failed says of a source where it could not be staged a short while ago, and why.
func (v *View) Failed(source string) (phrases []string) {
	return v.phrases(source, func(t *datamovev1.Task) string {
		if t.GetState() != datamovev1.TaskState_TASK_STATE_FAILED {
			return ""
		}
		return mover.Printable(t.GetError())
	})
}

// phrases are those of the newest staging of each node.
func (v *View) phrases(source string, of func(*datamovev1.Task) string) (phrases []string) {
	seen := map[string]bool{}
	for _, t := range v.tasks {
		node := t.GetSpec().GetNode()
		if !brings(t, source) || seen[node] {
			continue
		}
		seen[node] = true
		if text := of(t); text != "" {
			phrases = append(phrases, fmt.Sprintf("%s: %s (task %s)", node, text, t.GetId()))
		}
	}
	slices.Sort(phrases)
	return phrases
}

// brings reports whether a task stages a source: a dataset comes from whatever replica is the best.
func brings(t *datamovev1.Task, source string) bool {
	if name, ok := strings.CutPrefix(source, "dataset:"); ok {
		return t.GetDataset() == name || strings.HasPrefix(t.GetDataset(), name+"@")
	}
	return t.GetSpec().GetSource() == source
}

// Progress says how far a task is: "43% of 1.20 TiB".
func Progress(t *datamovev1.Task) string {
	done, total := t.GetProgress().GetBytesDone(), t.GetProgress().GetPlanned().GetBytes()
	text := "waiting"
	if total > 0 {
		text = fmt.Sprintf("%d%% of %s", done*100/total, units.Bytes(total))
	}
	if why := t.GetWhy(); why != "" {
		text += ": " + mover.Printable(why)
	}
	return text
}
