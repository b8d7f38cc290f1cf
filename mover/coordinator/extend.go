package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy/treecontext"
)

// extensions are what servers beside the coordinator have added to it, before Run.
type extensions struct {
	added []*chore
	loops []func(context.Context)

	onEnd   []func(tx *state.Tx, t *pb.Task) error
	onEnded []func(t *pb.Task)
	onDone  []func(t *pb.Task) error
	labels  []func(c authz.Caller, labels map[string]string) error
}

// AddChore has Run do something every so often. It is called before Run.
func (s *Service) AddChore(every time.Duration, what string, do func(context.Context) error) {
	s.added = append(s.added, &chore{every: every, what: what, do: do})
}

// AddLoop has Run run something until its context ends. It is called before Run.
func (s *Service) AddLoop(run func(context.Context)) { s.loops = append(s.loops, run) }

// OnTaskEnd has do called in the change in which a task ends. It is called before Run.
func (s *Service) OnTaskEnd(do func(tx *state.Tx, t *pb.Task) error) { s.onEnd = append(s.onEnd, do) }

// OnTaskEnded has do called after a task has ended. It is called before Run.
func (s *Service) OnTaskEnded(do func(t *pb.Task)) { s.onEnded = append(s.onEnded, do) }

func (s *Service) taskEnds(tx *state.Tx, t *pb.Task) (err error) {
	for _, do := range s.onEnd {
		err = errors.Join(err, do(tx, t))
	}
	return err
}

func (s *Service) taskEnded(t *pb.Task) {
	for _, do := range s.onEnded {
		do(t)
	}
}

// NewTask returns a task of the service itself, which is not stored yet.
func (s *Service) NewTask(spec *pb.TaskSpec) *pb.Task { return s.newTask(self(), spec) }

// Submitted has a task assigned that was stored; nil is none.
func (s *Service) Submitted(ctx context.Context, t *pb.Task) { s.submitted(ctx, t) }

// RemoveReplica stores a task that removes a replica with the rights of its owner, or reports why the replica has to stay. With evict it makes
// room: an ephemeral tier promises nothing, and its replica goes without a look at the copy that survives.
func (s *Service) RemoveReplica(tx *state.Tx, r *pb.Replica, labels map[string]string, evict bool) (*pb.Task, error) {
	may := s.datasets.mayRelease
	if evict {
		labels, may = maps.Clone(labels), s.datasets.mayEvict
		labels[evictedLabel] = r.GetTier()
	}
	if err := may(tx, r, ""); err != nil {
		return nil, err
	}
	t := s.datasets.byMaker(r, labels)
	if evict && s.conf().Tiers[r.GetTier()].Ephemeral {
		return s.datasets.removes(tx, t, r)
	}
	return s.datasets.releases(tx, t, r, func(string) error { return nil })
}

// Tree reads what is known of a tree beside the catalog.
func (s *Service) Tree(tree catalog.Tree) (*treecontext.Context, error) { return s.facts.tree(tree) }

// Rooms are the latest reports of agents on the room of a tier: one for each node, or one for all.
func (s *Service) Rooms(tier string, eachNode bool) (rooms []*agentv1.Room) {
	for _, r := range s.datasets.rooms(tier, eachNode) {
		rooms = append(rooms, r.Room)
	}
	return rooms
}

// Reaching are the nodes that are connected and reach a tier, sorted.
func (s *Service) Reaching(tier string) []string { return s.tiers.reaching(tier) }

// TierOf is the tier that a location is in, and whether each node has its own; "" is none.
func (s *Service) TierOf(l location.Location) (tier string, nodeLocal bool, err error) {
	return tierOf(l, s.conf())
}

// InTier reads a location, the tier of which has to be in the configuration if it names one.
func (s *Service) InTier(text string) (location.Location, error) { return s.tiers.inTier(text) }

// NodeOf is the node of a caller.
func (s *Service) NodeOf(c authz.Caller) string { return s.here(c) }

// MayRead reports why a caller may not read a location for a project.
func (s *Service) MayRead(c authz.Caller, project, at string) error {
	return s.mayUseAt(c, project, at, false)
}

// OwnTasks are the tasks of the service itself that have not ended.
func (s *Service) OwnTasks() state.TaskFilter {
	return state.TaskFilter{States: []pb.TaskState{task.Queued, task.Running, task.Paused}, Owner: state.User(accountOf(self()))}
}

// Cancel cancels a task of the service itself.
func (s *Service) Cancel(ctx context.Context, t *pb.Task) error {
	_, err := s.steered(authz.With(ctx, self()), t, task.Cancelled)
	return err
}

// Sends is Assigned for an agent that begins to send something about its task: it does so once at a time, until it calls done.
func (s *Service) Sends(ctx context.Context, id string, epoch uint64) (t *pb.Task, done func(), err error) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	l, err := s.agents.held(ctx, id, epoch)
	if err != nil {
		return nil, nil, err
	}
	if l.sending {
		return nil, nil, fmt.Errorf("%w: task %s is sending already", mover.ErrTransient, id)
	}
	l.sending = true
	return copyOf(l.task), func() {
		s.scheduler.mu.Lock()
		defer s.scheduler.mu.Unlock()
		l.sending = false
	}, nil
}

// OnDone has done asked about a task that its agent calls done: why it is not. It is called before Run.
func (s *Service) OnDone(done func(t *pb.Task) error) { s.onDone = append(s.onDone, done) }

// judge reports why a task that its agent calls done is not done.
func (s *Service) judge(l *lead, t *pb.Task, r *agentv1.FinishRequest) error {
	if err := s.kindOf(t.GetSpec()).Judge(l, t, r); err != nil {
		return err
	}
	for _, done := range s.onDone {
		if err := done(t); err != nil {
			return err
		}
	}
	return nil
}

// NoTier is the error of an operation on a tier that the configuration does not have.
func (s *Service) NoTier(op, tier string) error { return s.tiers.noTier(op, tier) }

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
