package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// What servers beside the coordinator ask of its tasks and agents.

// NewTask returns a task of the service itself, which is not stored yet.
func (s *Service) NewTask(spec *pb.TaskSpec) *pb.Task {
	return state.NewTask(spec, authz.AccountOf(authz.Self()), s.now())
}

// Submitted has a task assigned that was stored; nil is none.
func (s *Service) Submitted(ctx context.Context, t *pb.Task) {
	if t == nil {
		return
	}
	s.metrics.countNew(t)
	s.scheduler.requeue(ctx, t)
}

// Resumed has a task assigned that was paused.
func (s *Service) Resumed(ctx context.Context, t *pb.Task) {
	s.watch.tell(t.GetId())
	s.scheduler.requeue(ctx, t)
}

// HandOn has a task that was paused or cancelled go on for an account that waits for it.
func (s *Service) HandOn(tx *state.Tx, t *pb.Task) (bool, error) { return handedOn(tx, t) }

// Admit checks a request of a caller, and completes it.
func (s *Service) Admit(c authz.Caller, asked *pb.TaskSpec) (*pb.TaskSpec, error) {
	spec, _, err := s.admit(c, asked)
	return spec, err
}

// Cancel cancels a task of the service itself.
func (s *Service) Cancel(ctx context.Context, t *pb.Task) error {
	_, err := s.steering.steered(authz.With(ctx, authz.Self()), t, task.Cancelled)
	return err
}

// OwnTasks are the tasks of the service itself that have not ended.
func (s *Service) OwnTasks() state.TaskFilter {
	return state.TaskFilter{States: []pb.TaskState{task.Queued, task.Running, task.Paused}, Owner: state.User(authz.AccountOf(authz.Self()))}
}

// Watch tells when a task may have changed, until done is called.
func (s *Service) Watch(id string) (changed <-chan struct{}, done func(), err error) {
	c, err := s.watch.add(id)
	return c, func() { s.watch.drop(id, c) }, err
}

// Waits notes why a queued task is not given out.
func (s *Service) Waits(ctx context.Context, t *pb.Task, why string) { s.scheduler.waits(ctx, t, why) }

// EachRunning calls do with each running task. do must not wait, and must not keep the task.
func (s *Service) EachRunning(do func(*pb.Task)) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for _, l := range s.scheduler.leads {
		do(l.task)
	}
}

// Proved notes what the agent in ctx has found for the task that it leads in an epoch.
func (s *Service) Proved(ctx context.Context, id string, epoch uint64, found taskkind.Result) (*pb.Task, error) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	l, err := s.agents.held(ctx, id, epoch)
	if err != nil {
		return nil, err
	}
	l.proof = found
	return copyOf(l.task), nil
}

// WhileNoneSends calls do with what the agents of tasks have found, unless one sends something about its task. Before do returns no agent begins to send,
// and no task ends.
func (s *Service) WhileNoneSends(do func(found []taskkind.Result) error) error {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	var found []taskkind.Result
	for _, l := range s.scheduler.leads {
		if l.sending {
			return nil
		}
		found = append(found, l.proof)
	}
	return do(found)
}

// Reachable says whether an agent could work on a request now.
func (s *Service) Reachable(c authz.Caller, spec *pb.TaskSpec) bool {
	n, err := placement.Of(spec, s.conf(), s.here(c))
	if err != nil {
		return false
	}
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for _, a := range s.scheduler.agents {
		if a.ready() && a.reaches(n, authz.AccountOf(c)) {
			return true
		}
	}
	return false
}

// ReadyAgents are the agents that could act for an account, with the tiers that they reach, and "/" for the paths of their node.
func (s *Service) ReadyAgents(owner *pb.Account) (ready []*pb.Agent) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for _, n := range s.scheduler.agents {
		if !n.ready() || !n.hello.GetRoot() && n.hello.GetUid() != owner.GetUid() {
			continue
		}
		a := &pb.Agent{Name: n.name, State: pb.AgentState_AGENT_STATE_READY}
		for _, r := range n.hello.GetReaches() {
			a.Reaches = append(a.Reaches, cmp.Or(r.GetTier(), "/"))
		}
		ready = append(ready, a)
	}
	return ready
}

// Rooms is how full a tier is: for a node-local tier on each node, else by the latest report of an agent.
func (s *Service) Rooms(tier string, eachNode bool) (rooms []placement.Room) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for _, n := range s.scheduler.agents {
		r := n.room[tier]
		switch {
		case r == nil || n.orders == nil:
		case eachNode:
			rooms = append(rooms, placement.Room{Room: r, Node: n.name, At: n.seen})
		case len(rooms) == 0:
			rooms = append(rooms, placement.Room{Room: r, At: n.seen})
		case n.seen.After(rooms[0].At):
			rooms[0] = placement.Room{Room: r, At: n.seen}
		}
	}
	return rooms
}

// Reaching are the agents that are there and reach a tier, by name.
func (s *Service) Reaching(tier string) (names []string) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for _, n := range s.scheduler.agents {
		for _, r := range n.hello.GetReaches() {
			if r.GetTier() == tier && n.orders != nil {
				names = append(names, n.name)
			}
		}
	}
	slices.Sort(names)
	return names
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

// BurstTask returns the id of a running task that changes the burst of a name, whatever it writes to; "" is none.
func (s *Service) BurstTask(name string) (id string) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for id, l := range s.scheduler.leads {
		if convert.ChangesBurst(l.task.GetSpec()) && l.task.GetSpec().GetBurst().GetName() == name {
			return id
		}
	}
	return ""
}

// Fail ends a task that was about to be done.
func (s *Service) Fail(tx *state.Tx, t *pb.Task, err error) error {
	s.scheduler.ended(t, task.Failed, mover.KindName(err), err.Error())
	return state.Tasks.Put(tx, t)
}

// MayHold reports why a caller may not have one more of a resource.
func (s *Service) MayHold(c authz.Caller, what quota.Resource) error { return s.usage.MayHold(c, what) }
