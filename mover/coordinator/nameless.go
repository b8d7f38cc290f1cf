package coordinator

import (
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// A uid without a name has the groups with which it last called on a node. An agent that was restarted since does not know them: it puts the task back, which
// has not begun. Other agents are tried, and each again after a while: the task begins once its owner has called there. Groups are not stored with a task: they
// would outlive a membership.
const namelessPause = 15 * time.Second

// namelessTo says whether an agent puts a task back because it does not know the groups of its owner.
func namelessTo(t *pb.Task, r *agentv1.FinishRequest) bool {
	return r.GetPutBack() && t.GetOwner().GetName() == "" && r.GetErrorKind() == mover.KindName(mover.ErrPermission)
}

// unbegin takes back the try of a lead. For namelessPause its agent gets no task of that uid. scheduler.mu is held.
func (s *Service) unbegin(l *lead) {
	if l.task.Tries--; l.task.GetTries() == 0 {
		l.task.StartTime = nil
	}
	if a := s.scheduler.agents[l.agent]; a != nil {
		if a.nameless == nil {
			a.nameless = map[uint32]time.Duration{}
		}
		a.nameless[l.task.GetOwner().GetUid()] = s.clock.Steady() + namelessPause
	}
	time.AfterFunc(namelessPause, s.hurry)
}

// knows says whether an agent may know the groups of an account.
func (n *node) knows(owner *pb.Account, now time.Duration) bool {
	return owner.GetName() != "" || n.nameless[owner.GetUid()] <= now
}
