package coordinator

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task/convert"
)

func burstKinds() map[pb.TaskKind]Kind {
	return map[pb.TaskKind]Kind{pb.TaskKind_TASK_KIND_BURST: plain{}}
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
