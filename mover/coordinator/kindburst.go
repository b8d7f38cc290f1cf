package coordinator

import pb "datamove.dev/api/datamove/v1"

func burstKinds() map[pb.TaskKind]Kind {
	return map[pb.TaskKind]Kind{pb.TaskKind_TASK_KIND_BURST: plain{}}
}

// burstSpec is the request for a step of a burst.
func burstSpec(target string, work *pb.BurstWork) *pb.TaskSpec {
	return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_BURST, Target: target, Burst: work}
}
