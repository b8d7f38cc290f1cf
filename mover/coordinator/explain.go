package coordinator

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/mover/units"
)

// explainer says why a task does not go on.
type explainer struct {
	*core
	c *Service
}

// explain names what a task waits for most, by what it says of itself.
func explain(t *pb.Task) *pb.Explanation {
	e := &pb.Explanation{Id: t.GetId()}
	p := t.GetProgress()
	waits := []struct {
		what   pb.Bottleneck
		d      time.Duration
		text   string
		advice string
	}{
		{pb.Bottleneck_BOTTLENECK_SOURCE, p.GetSourceWait().AsDuration(), "it waits for the source to be read", "look at the load of the source; datamove doctor SOURCE measures it"},
		{pb.Bottleneck_BOTTLENECK_TARGET, p.GetTargetWait().AsDuration(), "it waits for the target to take what is written", "look at the load of the target, and, of objects up to 1 MiB, at the link to it; datamove doctor TARGET measures it"},
		{pb.Bottleneck_BOTTLENECK_LINK, p.GetLinkWait().AsDuration(), "it waits for bytes on their way between its agents and a store", "compare what its agents move (datamove agent list) with what their links can; a store that sends or takes slowly looks the same"},
		{pb.Bottleneck_BOTTLENECK_LIMIT, p.GetLimitWait().AsDuration(), "it waits for a bandwidth limit", "the limits are in the configuration of the service"},
		{pb.Bottleneck_BOTTLENECK_QUEUE, p.GetQueueWait().AsDuration(), "it waits for its turn among the tasks on its agent", "a task of a more urgent class has a greater share"},
	}
	most := waits[0]
	for _, w := range waits {
		e.Evidence = append(e.Evidence, fmt.Sprintf("%s: %s", w.text, w.d.Round(time.Millisecond)))
		if w.d > most.d {
			most = w
		}
	}
	switch {
	case t.GetState() == task.Failed && t.GetError() != "":
		e.Bottleneck, e.Text, e.Evidence = pb.Bottleneck_BOTTLENECK_NONE, "it has failed: "+t.GetError(), nil
		if try := t.GetReport().GetRemedy(); try != "" {
			e.Text += "; try: " + try
		}
	case task.Ended(t.GetState()):
		e.Bottleneck, e.Text, e.Evidence = pb.Bottleneck_BOTTLENECK_NONE, "it is "+task.Word(t.GetState()), nil
	case t.GetState() == task.Paused:
		e.Bottleneck, e.Text, e.Evidence, e.Advice = pb.Bottleneck_BOTTLENECK_PERSON, "it is paused: "+t.GetWhy(), nil, "datamove task resume "+t.GetId()
	case t.GetPhase() == pausedPhase:
		e.Bottleneck, e.Text, e.Advice = pb.Bottleneck_BOTTLENECK_ROOM, "it waits for room: "+t.GetWhy(), "make room on the target, or raise its quota; it goes on by itself"
	case t.GetPhase() == waitingPhase:
		e.Bottleneck, e.Text, e.Advice = pb.Bottleneck_BOTTLENECK_LINK, "it waits: "+t.GetWhy(), "it goes on by itself when that is over; datamove doctor LOCATION tells what is wrong with a place"
	case most.d == 0:
		e.Bottleneck, e.Text = pb.Bottleneck_BOTTLENECK_UNSPECIFIED, "nothing holds it back so far"
	default:
		e.Bottleneck, e.Text, e.Advice = most.what, most.text, most.advice
	}
	if own := t.GetSpec().GetOptions().GetBytesPerSecond(); own > 0 && e.GetBottleneck() == pb.Bottleneck_BOTTLENECK_LIMIT {
		e.Advice = fmt.Sprintf("its own limit is %s: submit it with a higher --bwlimit, or with none; others are in the configuration of the service", units.PerSecond(float64(own)))
	}
	if p.GetBytesPerSecond() > 0 {
		e.Evidence = append(e.Evidence, "it moves "+units.PerSecond(p.GetBytesPerSecond()))
	}
	return e
}

// explainQueue says what a queued task waits for.
func (s *explainer) explainQueue(t *pb.Task, e *pb.Explanation) {
	e.Bottleneck, e.Evidence, e.Advice = pb.Bottleneck_BOTTLENECK_QUEUE, nil, ""
	n, err := placement.Of(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
	if err != nil {
		e.Text = "it can not be given out: " + err.Error()
		return
	}
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	reach, ready, free, full, why := 0, 0, 0, 0, ""
	for _, a := range s.c.scheduler.agents {
		if !a.reaches(n, t.GetOwner()) {
			continue
		}
		reach++
		if a.ready() {
			ready++
			free += a.leads
			why = cmp.Or(why, a.full)
			if a.leads > 0 && s.c.scheduler.slotsFull(a, t.GetOwner()) {
				full += a.leads
			}
		}
	}
	e.Evidence = []string{fmt.Sprintf("agents that reach both ends: %d, of which %d work, with %s", reach, ready, units.Plural(int64(free), "free slot", "free slots"))}
	switch {
	case reach == 0:
		e.Text, e.Advice = s.unreached(n, t.GetOwner()), "datamove agent list shows what each one reaches"
	case ready == 0:
		e.Text, e.Advice = "the agents that reach both ends are drained or lost", "datamove agent list"
	case t.GetWhy() != "":
		e.Text = "it waits: " + t.GetWhy()
	case free > 0 && full == free:
		e.Text = fmt.Sprintf("tasks of %s have as many slots of each agent as one account may", mover.Printable(authz.NameOfAccount(t.GetOwner())))
		e.Advice = "wait for one to end, or ask the operator for more (quotas.users." + mover.Printable(authz.NameOfAccount(t.GetOwner())) + ".slots in the configuration)"
	case free == 0 && why != "":
		e.Text = "no agent that reaches both ends takes a task: " + why
	case free == 0:
		e.Text = "every agent that reaches both ends has as many tasks as it takes"
	case s.queueTrouble(t, n) != nil:
		e.Text = "the queue of the service can not be read, which is tried again every second: " + mover.Printable(s.queueTrouble(t, n).Error())
		e.Advice = "restart datamoved on the coordinator: the queue is made anew of the ledger, and running tasks go on"
	default:
		e.Text = "it is about to be given out"
	}
}

// queueTrouble is why the line of a task can not be read; nil where it can. scheduler.mu is held.
func (s *explainer) queueTrouble(t *pb.Task, n placement.Need) error {
	if f := s.c.scheduler.flows[flowName(t, n)]; f != nil {
		return f.unread
	}
	return nil
}

// unreached says why no agent reaches what a task needs; mu is held.
func (s *explainer) unreached(n placement.Need, owner *pb.Account) string {
	for _, a := range s.c.scheduler.agents {
		switch {
		case !a.sees(n):
		case owner.GetUid() == 0:
			return "no agent that reaches both ends runs as root"
		default:
			return "no agent that reaches both ends runs as root or as " + mover.Printable(authz.NameOfAccount(owner))
		}
	}
	on, missing := "", []string(nil)
	if n.Node != "" {
		on = " on node " + mover.Printable(n.Node)
	}
	for _, tier := range n.Tiers {
		some := false
		for _, a := range s.c.scheduler.agents {
			some = some || a.sees(placement.Need{Node: n.Node, Tiers: []string{tier}})
		}
		if some {
			continue
		}
		if at := s.conf().Tiers[tier].Path; at != "" {
			tier += ", which has to be mounted at " + mover.Printable(at)
		}
		missing = append(missing, "tier "+tier)
	}
	if len(missing) == 0 {
		return "no agent" + on + " reaches both ends"
	}
	return "no agent" + on + " reaches " + strings.Join(missing, ", and ")
}

// silentTime is how long an agent that works says nothing before that is worth a word: it
// tells how far it is every second.
const silentTime = 5 * time.Second

// explainLead says of a running task that its agent is silent, if so: what it has told of
// itself is from before.
func (s *explainer) explainLead(t *pb.Task, e *pb.Explanation) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	l := s.c.scheduler.leads[t.GetId()]
	if l == nil {
		return
	}
	last := l.since
	a := s.c.scheduler.agents[l.agent]
	if a != nil && a.seen.After(last) {
		last = a.seen
	}
	silent := s.now().Sub(last)
	if a != nil && a.orders != nil && silent <= silentTime {
		return
	}
	name := mover.Printable(l.agent)
	e.Bottleneck, e.Evidence = pb.Bottleneck_BOTTLENECK_QUEUE, nil
	e.Text = fmt.Sprintf("agent %s, which leads it, has said nothing for %v; after %v the task is given out again", name, silent.Round(time.Second), s.lease)
	e.Advice = fmt.Sprintf("see whether datamoved runs on %s and reaches this service", name)
}

// explainNode says of a task that waits, or is paused, that the one node that can do it is
// not here, if so: to resume it would be of no use.
func (s *explainer) explainNode(t *pb.Task, e *pb.Explanation) {
	node := s.c.scheduler.boundOf(t)
	if node == "" || node == s.o.Node {
		return
	}
	s.c.scheduler.mu.Lock()
	here := s.c.scheduler.agents[node] != nil
	s.c.scheduler.mu.Unlock()
	if here {
		return
	}
	name := mover.Printable(node)
	paused := ""
	if t.GetState() == task.Paused {
		paused = e.GetText() + ", and "
	}
	e.Text = fmt.Sprintf("%sonly %s can do it, which is not an agent of this service: it never joined, or it was forgotten", paused, name)
	e.Advice = fmt.Sprintf("have it join (datamove agent token %s), or datamove task cancel %s", name, t.GetId())
}
