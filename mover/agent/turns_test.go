package agent

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/share"
)

// TestWeights: of the turns of a node each project has what the coordinator says, from the
// moment on when it says so.
func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		defer workers.Wait()
		defer cancel()
		all := newTurns()
		turns := func(project string) int64 {
			return all.scheduler.Snapshot().Flows[flow(project)].Turns
		}
		for _, project := range []string{"vision", "audio"} {
			for range 4 {
				workers.Go(func() {
					for {
						release, _, err := all.acquire(ctx, flow(project), share.Cost{Bytes: 1 << 20}, share.Width{Most: 1, Fill: 1}, nil)
						if err != nil {
							return
						}
						time.Sleep(time.Millisecond)
						release(share.Cost{Bytes: 1 << 20})
					}
				})
			}
		}
		for _, weight := range []int64{1, 3, 1} {
			all.limit(&agentv1.Limits{Projects: map[string]int64{"vision": weight}})
			vision, audio := turns("vision"), turns("audio")
			time.Sleep(time.Second)
			vision, audio = turns("vision")-vision, turns("audio")-audio
			if part := float64(vision) / float64(audio); part < float64(weight)*0.9 || part > float64(weight)*1.1 {
				t.Errorf("with weight %d it has %d turns, and the other one %d", weight, vision, audio)
			}
		}
	})
}

func flow(project string) share.Flow {
	return share.Flow{Class: pb.TaskClass_TASK_CLASS_REPLICATE, Project: project, User: project, Task: project}
}
