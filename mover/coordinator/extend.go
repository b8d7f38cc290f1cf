package coordinator

import (
	"context"
	"errors"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/server/authz"
)

// extensions are what servers beside the coordinator have added to it, before Run.
type extensions struct {
	added  []*chore
	labels []func(c authz.Caller, labels map[string]string) error
}

// AddChore has Run do something every so often. It is called before Run.
func (s *Service) AddChore(every time.Duration, what string, do func(context.Context) error) {
	s.added = append(s.added, &chore{every: every, what: what, do: do})
}

// CheckLabels adds a check of the labels of a lease: an error of may refuses the lease. It is called before Run.
func (s *Service) CheckLabels(may func(c authz.Caller, labels map[string]string) error) {
	s.labels = append(s.labels, may)
}

func (s *Service) checkLabels(c authz.Caller, labels map[string]string) (err error) {
	for _, may := range s.labels {
		err = errors.Join(err, may(c, labels))
	}
	return err
}

// Submit accepts a task of the caller in ctx.
func (s *Service) Submit(ctx context.Context, spec *pb.TaskSpec, key string) (*pb.Task, error) {
	return s.submit(ctx, spec, key, nil)
}

// NearestReplica returns where a task of a caller would read a dataset, and on which node.
func (s *Service) NearestReplica(c authz.Caller, dataset string, by *pb.TaskSpec) (at, node string, err error) {
	one := copySpec(dataset, by.GetTarget())
	one.Project, one.Node = by.GetProject(), by.GetNode()
	err = s.datasets.resolve(c, one)
	return one.GetSource(), one.GetNode(), err
}

// Assigned returns a copy of the task that the agent in ctx leads in an epoch. The error is mover.ErrHeld where it does not.
func (s *Service) Assigned(ctx context.Context, id string, epoch uint64) (*pb.Task, error) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	l, err := s.agents.held(ctx, id, epoch)
	if err != nil {
		return nil, err
	}
	return copyOf(l.task), nil
}

// Overlap reports whether a location, of a node if that is not empty, and a shared one have anything in common.
func (s *Service) Overlap(at, node, shared string) bool {
	return overlap(address(at, node, s.conf()), address(shared, "", s.conf()))
}
