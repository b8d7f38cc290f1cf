package hook

import (
	"context"
	"os"
	"path"
	"strconv"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/stage"
)

// Service is the mover of a node. It is a [Mover].
type Service struct {
	*stage.Mover        // of the node
	Tier         string // of the directories of jobs
}

// LetGo implements Mover. It is done as whose it is: root of a node may only look.
func (s *Service) LetGo(ctx context.Context, h stage.Holding) error {
	if h.Owner != uint32(os.Geteuid()) {
		ctx = api.For(ctx, h.Owner)
	}
	return s.Drop(ctx, h.Holder)
}

// Leaving implements Mover: a task of the job that has not ended, and reads what is in its directory here.
func (s *Service) Leaving(ctx context.Context, j Job) (bool, error) {
	c, err := s.Client(ctx)
	if err != nil {
		return false, err
	}
	own := path.Join(Jobs, j.Dir())
	for t, err := range c.Tasks(ctx, &datamovev1.ListTasksRequest{Brief: true, Labels: map[string]string{Label: strconv.FormatUint(uint64(j.ID), 10)}}) {
		if err != nil {
			return false, err
		}
		if api.Ended(t.GetState()) || t.GetSpec().GetNode() != s.Node || t.GetOwner().GetUid() != j.UID { // labels are anybody's
			continue
		}
		for _, text := range append(t.GetSpec().GetSources(), t.GetSpec().GetSource()) {
			l, err := location.Parse(text)
			if err == nil && l.Scheme == location.InTier && l.Tier == s.Tier && mover.Within(l.Path, own) {
				return true, nil
			}
		}
	}
	return false, nil
}
