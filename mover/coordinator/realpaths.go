package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskorder"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// pathResolver has agents resolve symbolic links in the locations of tasks.
type pathResolver struct {
	*core
	c         *Service
	realPaths realPaths
}

// A symbolic link hides from the text of a path where that leads, and the coordinator may see none of these file systems. So before a task begins beside others,
// an agent that could work on it resolves its paths, as its owner: no account learns or claims by it what it can not see. One answer is for many
// tasks. A path that no agent can resolve in time is compared by its text. A task that is alone needs no comparison.
const (
	realPatience = 5 * time.Second // that a task waits for such a look
	realTold     = time.Second / 2 // after which it says so
	realMost     = 1000            // paths from which on an order asks for no further task
	unseenMost   = 10_000          // tasks that are to be looked at; what is beyond is compared by its text
	aloneMost    = 100             // tasks that are searched for another one with paths; beside more, no task is alone
)

// realPaths are the looks that are still to be had.
type realPaths struct {
	mu     sync.Mutex
	unseen map[string]*unseenTask   // by task; guarded by mu, as all below
	seen   map[string]bool          // tasks that are not over and were looked at, or could not be
	asked  map[string]time.Duration // until when an agent is waited for, by realKey
	told   []*toldReal
	first  map[string]*unseenTask // that a task of an owner was last found to wait for: all of that owner that were submitted after it wait, too
}

// unseenTask is a task with paths that are not resolved yet.
type unseenTask struct {
	task   *pb.Task
	places []*agentv1.ResolvePlace
	since  time.Duration // another task waits for it; 0 none does
	agent  string        // that is asked; "" is none
}

// toldReal is what an agent answers.
type toldReal struct {
	agent string
	what  *agentv1.TellRealRequest
}

// placesOf are the places of a task to which links can lead, as far as others care.
func (s *pathResolver) placesOf(t *pb.Task) (places []*agentv1.ResolvePlace) {
	spec := t.GetSpec()
	add := func(text string, itself bool) {
		l, err := convert.Locate(text)
		if err != nil || s.conf().PathOf(l) == "" {
			return
		}
		places = append(places, &agentv1.ResolvePlace{Task: t.GetId(), Location: text, Itself: itself})
	}
	for _, text := range state.Reads(t) {
		add(text, false)
	}
	switch kind := task.Of(spec); {
	case kind.Replica: // no link of a user leads there
	case kind.Brings(), kind.RemovesTarget:
		add(spec.GetTarget(), kind.RemovesTarget)
	}
	return places
}

// unresolved notes a task with paths that are not resolved yet.
func (s *pathResolver) unresolved(t *pb.Task) {
	places := s.placesOf(t)
	if len(places) == 0 || len(t.GetRealPaths()) > 0 {
		return
	}
	r := &s.realPaths
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unseen == nil {
		r.unseen, r.seen, r.asked, r.first = map[string]*unseenTask{}, map[string]bool{}, map[string]time.Duration{}, map[string]*unseenTask{}
	}
	if r.unseen[t.GetId()] == nil && !r.seen[t.GetId()] && len(r.unseen) < unseenMost {
		r.unseen[t.GetId()] = &unseenTask{task: copyOf(t), places: places}
	}
}

// forget forgets one that is over.
func (r *realPaths) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unseen, id)
	delete(r.seen, id)
}

// settle notes that one is not looked at any more. realPaths.mu is held.
func (r *realPaths) settle(id string) {
	delete(r.unseen, id)
	r.seen[id] = true
}

// until returns what is to be looked at before a task begins: its own places, and those of tasks before it.
func (r *realPaths) until(t *pb.Task) (found []*unseenTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, u := range r.unseen {
		if id == t.GetId() || taskorder.SubmittedBefore(u.task, t) {
			found = append(found, u)
		}
	}
	slices.SortFunc(found, inOrder)
	return found
}

// waited says whether a task that was looked at before waits for another one still, so that not all of a long line have to go through all that is unseen.
func (r *realPaths) waited(t *pb.Task, now time.Duration) *unseenTask {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.first[state.User(t.GetOwner())]
	if u == nil || r.unseen[u.task.GetId()] != u || now-u.since >= realPatience || u.task.GetId() != t.GetId() && !taskorder.SubmittedBefore(u.task, t) {
		return nil
	}
	return u
}

// resolving has agents look where the places of a task are, and those of tasks before it, and says whether the task waits for that; why is empty where that has
// just begun.
func (s *pathResolver) resolving(t *pb.Task) (waits bool, why string) {
	if len(s.placesOf(t)) == 0 {
		return false, ""
	}
	now := s.clock.Steady()
	u := s.realPaths.waited(t, now)
	if u == nil {
		found := s.counting(s.realPaths.until(t), t)
		if len(found) == 0 || len(found) == 1 && found[0].task.GetId() == t.GetId() && s.alone(t) {
			return false, ""
		}
		u = s.lookFor(t, found, now)
	}
	if u != nil && now-u.since >= realTold {
		why = fmt.Sprintf("agent %s looks where links lead in the paths of %s", mover.Printable(u.agent), taskorder.ToldAs(u.task, t))
	}
	return u != nil, why
}

// counting are those of some tasks that another one can have to wait for: those that concern it, and of others those that run, as they may write to its target.
func (s *pathResolver) counting(found []*unseenTask, t *pb.Task) []*unseenTask {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	return slices.DeleteFunc(found, func(u *unseenTask) bool {
		return !task.Concerns(u.task, t) && s.c.scheduler.leads[u.task.GetId()] == nil
	})
}

// lookFor has agents look at what is unseen, and returns the first of some tasks that another one waits for.
func (s *pathResolver) lookFor(t *pb.Task, found []*unseenTask, now time.Duration) (first *unseenTask) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	r := &s.realPaths
	r.mu.Lock()
	defer r.mu.Unlock()
	s.askReal(slices.SortedFunc(maps.Values(r.unseen), inOrder), now)
	for _, u := range found {
		switch {
		case u.since == 0:
		case now-u.since >= realPatience:
			r.settle(u.task.GetId())
		case first == nil:
			first = u
		}
	}
	if owner := state.User(t.GetOwner()); first != nil {
		r.first[owner] = first
	} else {
		delete(r.first, owner)
	}
	return first
}

func inOrder(a, b *unseenTask) int {
	if taskorder.SubmittedBefore(a.task, b.task) {
		return -1
	}
	return 1
}

// askReal asks agents for tasks: each for those of one owner at a time. scheduler.mu and realPaths.mu are held.
func (s *pathResolver) askReal(found []*unseenTask, now time.Duration) {
	orders := map[string]*agentv1.Resolve{}
	counts := map[string]int{}
	for _, u := range found {
		if u.agent != "" {
			continue
		}
		agent := s.resolver(u.task)
		if agent == "" {
			continue
		}
		if u.since == 0 {
			u.since = max(now, 1)
		}
		key := realKey(agent, u.task)
		if end, busy := s.realPaths.asked[key]; busy && now < end || counts[key] >= realMost {
			continue
		}
		if orders[key] == nil {
			orders[key] = &agentv1.Resolve{Owner: u.task.GetOwner()}
		}
		u.agent = agent
		counts[key] += len(u.places)
		orders[key].Places = append(orders[key].Places, u.places...)
	}
	for _, u := range found {
		key := realKey(u.agent, u.task)
		if o := orders[key]; o != nil {
			s.c.scheduler.send(u.agent, &agentv1.Order{What: &agentv1.Order_Resolve{Resolve: o}})
			s.realPaths.asked[key] = now + realPatience
			delete(orders, key)
		}
	}
}

func realKey(agent string, t *pb.Task) string { return agent + "\x00" + state.User(t.GetOwner()) }

// resolver is an agent that can look at the places of a task. scheduler.mu is held.
func (s *pathResolver) resolver(t *pb.Task) (name string) {
	n, err := placement.Of(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
	if err != nil {
		return ""
	}
	for _, a := range s.c.scheduler.agents {
		if a.orders != nil && !a.leaving && a.hello.GetResolves() && a.reaches(n, t.GetOwner()) && (name == "" || a.name < name) {
			name = a.name
		}
	}
	return name
}

// alone says whether no other task has places, or is one of few that are not over.
func (s *pathResolver) alone(t *pb.Task) bool {
	left, alone := aloneMost, true
	err := s.ledger.View(func(tx *state.Tx) error {
		for other, err := range state.FindTasks(tx, state.TaskFilter{States: []pb.TaskState{task.Queued, task.Running, task.Paused}}) {
			if err != nil {
				return err
			}
			if left--; left == 0 || other.GetId() != t.GetId() && len(s.placesOf(other)) > 0 {
				alone = false
				return nil
			}
		}
		return nil
	})
	return err == nil && alone
}

// TellReal implements agentv1.LinkServiceServer.
func (s *pathResolver) TellReal(ctx context.Context, r *agentv1.TellRealRequest) (*agentv1.TellRealResponse, error) {
	s.realPaths.mu.Lock()
	s.realPaths.told = append(s.realPaths.told, &toldReal{authz.From(ctx).Agent, r})
	s.realPaths.mu.Unlock()
	s.c.hurry()
	return &agentv1.TellRealResponse{}, nil
}

// learnReal takes in what agents have told.
func (s *pathResolver) learnReal(ctx context.Context) {
	r := &s.realPaths
	r.mu.Lock()
	told := r.told
	r.told = nil
	r.mu.Unlock()
	for _, answer := range told {
		for id, real := range s.led(answer) {
			if err := s.learn(ctx, id, real); err != nil {
				s.log.Warn("where links lead is not stored; paths are compared by their text", "task", id, "err", err)
			}
		}
	}
}

// led is where links lead in tasks, by the answer of an agent to what it was asked.
func (s *pathResolver) led(a *toldReal) map[string][]*pb.RealPath {
	asked, reals := s.realPaths.answered(a), map[string][]*pb.RealPath{}
	for _, p := range a.what.GetPlaces() {
		if u := asked[p.GetTask()]; u != nil && s.leadsAway(u, p) {
			reals[p.GetTask()] = append(reals[p.GetTask()], &pb.RealPath{Location: p.GetLocation(), Real: p.GetReal(), Node: a.agent})
		}
	}
	return reals
}

// learn stores where the places of a task are.
func (s *pathResolver) learn(ctx context.Context, id string, real []*pb.RealPath) error {
	err := s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
		t, err := state.Tasks.Get(tx, id)
		if err != nil {
			return mover.IgnoreNotExist(err)
		}
		t.RealPaths = real
		t.Revision++
		return state.Tasks.Put(tx, t)
	})
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	if l := s.c.scheduler.leads[id]; l != nil && err == nil {
		l.task.RealPaths = real
		s.c.scheduler.changed(l.task)
	}
	return err
}

// answered takes out of what is to be looked at the tasks that an agent was asked for and answers.
func (r *realPaths) answered(a *toldReal) map[string]*unseenTask {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := map[string]*unseenTask{}
	for _, id := range a.what.GetTasks() {
		if u := r.unseen[id]; u != nil && u.agent == a.agent {
			asked[id] = u
			r.settle(id)
			delete(r.asked, realKey(a.agent, u.task))
		}
	}
	return asked
}

// leadsAway says whether a place of a task is elsewhere than its text says.
func (s *pathResolver) leadsAway(u *unseenTask, p *agentv1.RealPlace) bool {
	l, err := convert.Locate(p.GetReal())
	if err != nil || s.conf().PathOf(l) == "" {
		return false
	}
	if !slices.ContainsFunc(u.places, func(asked *agentv1.ResolvePlace) bool { return asked.GetLocation() == p.GetLocation() }) {
		return false
	}
	node := u.task.GetSpec().GetNode()
	return placement.Address(p.GetReal(), node, s.conf()) != placement.Address(p.GetLocation(), node, s.conf())
}
