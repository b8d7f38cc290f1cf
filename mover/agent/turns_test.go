package agent

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/fairshare"
	"datamove.dev/test/must"
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
						release, _, err := all.acquire(ctx, flow(project), fairshare.Cost{Bytes: 1 << 20}, fairshare.Width{Most: 1, Fill: 1}, nil)
						if err != nil {
							return
						}
						time.Sleep(time.Millisecond)
						release(fairshare.Cost{Bytes: 1 << 20})
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

// TestPay: what no process moves is held to the limits of the endpoints, together with what
// processes move, and waits no longer when they are gone.
func TestPay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		a := &Agent{turns: newTurns()}
		write := fairshare.Charge{Endpoint: "archive", Write: true, Bytes: 10 * mib}
		pays := func(c fairshare.Charge) time.Duration {
			begun := time.Now()
			must.Do(t, a.Pay(t.Context(), c.Endpoint, c.Write, c.Bytes, c.Ops))
			return time.Since(begun)
		}
		a.turns.limit(&agentv1.Limits{Limits: []*agentv1.Limit{{Endpoint: "archive", Write: true, BytesPerSecond: 10 * mib}}})
		release, _, err := a.turns.acquire(t.Context(), flow("vision"), fairshare.Cost{Bytes: 10 * mib}, fairshare.Width{Most: 1, Fill: 1}, []fairshare.Charge{write})
		must.Do(t, err)
		release(fairshare.Cost{Bytes: 10 * mib})
		if took := pays(write); took < 900*time.Millisecond || took > 1100*time.Millisecond {
			t.Errorf("behind what a process wrote it waited %v", took)
		}
		if took := pays(fairshare.Charge{Endpoint: "archive", Bytes: 10 * mib}); took > 0 {
			t.Errorf("a read waited %v for the limit of writes", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := a.Pay(ctx, write.Endpoint, write.Write, write.Bytes, write.Ops); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
		a.turns.limit(&agentv1.Limits{})
		if took := pays(write); took > 0 {
			t.Errorf("without a limit it waited %v", took)
		}
	})
}

func flow(project string) fairshare.Flow {
	return fairshare.Flow{Class: pb.TaskClass_TASK_CLASS_REPLICATE, Project: project, User: project, Task: project}
}
