package slurm

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/dataset/datasetclient"
)

// Service is the mover of a node. It is a [Mover].
type Service struct {
	*datasetclient.Mover        // of the node
	Tier                 string // of the directories of jobs
}

// LetGo implements Mover. The call is made as the owner of the holding: root of a node may only look.
func (s *Service) LetGo(ctx context.Context, h datasetclient.Holding) error {
	return s.Mover.LetGo(as(ctx, h.Owner), h)
}

// Renew implements Mover. It is done as the user of the job; each of its nodes may do it.
func (s *Service) Renew(ctx context.Context, j Job, before time.Time) error {
	ctx = as(ctx, j.UID)
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for l, err := range c.Leases(ctx, &datamovev1.ListLeasesRequest{Labels: j.Labels()}) {
		switch {
		case err != nil:
			return err
		case !strings.HasPrefix(l.GetHolder(), j.holders()) || l.GetOwner().GetUid() != j.UID: // labels are anybody's
		case j.Others(l.GetLabels()) || l.GetNode() != "" && l.GetNode() != s.Node || l.GetExpireTime() == nil || l.GetExpireTime().AsTime().After(before):
		default:
			errs = append(errs, Renew(ctx, c, l.GetId()))
		}
	}
	return errors.Join(errs...)
}

// Renew renews a lease of a job, if it has not just ended.
func Renew(ctx context.Context, c *api.Client, lease string) error {
	_, err := c.RenewLease(ctx, &datamovev1.RenewLeaseRequest{Id: lease, Ttl: durationpb.New(LeaseTTL)})
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	return err
}

// as is a call in the name of a user.
func as(ctx context.Context, uid uint32) context.Context {
	if uid == uint32(os.Geteuid()) {
		return ctx
	}
	return api.For(ctx, uid)
}

// Moves implements Mover: copies of the job to and from its directory here, by the tasks that have its label. Of those that are the same copy,
// tried again, the newest counts. It is asked as the user of the job: root of a node may not see what others do.
func (s *Service) Moves(ctx context.Context, j Job) (moves []Move, err error) {
	ctx = as(ctx, j.UID)
	c, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	own, seen := path.Join(Jobs, j.Dir()), map[string]bool{}
	for t, err := range c.Tasks(ctx, &datamovev1.ListTasksRequest{Brief: true, Labels: j.Labels()}) {
		if err != nil {
			return nil, err
		}
		labels := t.GetSpec().GetLabels()
		key := labels[CopyLabel]
		if t.GetOwner().GetUid() != j.UID || j.Others(labels) || key != "" && seen[key] { // labels are anybody's
			continue
		}
		seen[key] = true
		if part := labels[PartLabel]; part != "" && part != Watch {
			continue // what waits counts for it, which may have been superseded
		}
		if labels[Leaves] != AllNodes && t.GetSpec().GetNode() != s.Node {
			continue
		}
		m := Move{State: stateOf(t), Run: labels[RunLabel], After: labels[Leaves] == s.Node && labels[PartLabel] == ""}
		for _, text := range append(t.GetSpec().GetSources(), t.GetSpec().GetSource()) {
			m.Out = m.Out || s.within(text, own)
		}
		if m.Out || s.within(t.GetSpec().GetTarget(), own) {
			moves = append(moves, m.named(t.GetSpec().GetTarget(), s.Tier+":"+own+"/"))
		}
	}
	return moves, nil
}

// within says whether a location lies in a directory of the tier of jobs.
func (s *Service) within(text, dir string) bool {
	l, err := location.Parse(text)
	return err == nil && l.InTier() && l.Tier == s.Tier && mover.Within(l.Path, dir)
}

// stateOf is how far a copy is.
func stateOf(t *datamovev1.Task) MoveState {
	switch t.GetState() {
	case datamovev1.TaskState_TASK_STATE_DONE:
		return Moved
	case datamovev1.TaskState_TASK_STATE_CANCELLED:
		return Given
	}
	return Moving
}
