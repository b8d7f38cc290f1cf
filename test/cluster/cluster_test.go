package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

func TestOneAgent(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		source := c.Tree("source", 60, 1, 2<<20)
		target := filepath.Join(c.Dir, "target")
		done := c.Done(c.Copy(source, target).GetId())
		c.Same(source, target)
		if got := done.GetReport().GetFiles(); got != 61 {
			t.Errorf("%d files are reported", got)
		}
		if done.GetFirstByteTime() == nil || done.GetTries() != 1 || done.GetAgent() != "" {
			t.Errorf("the task says %v", done)
		}
		again := c.Done(c.Copy(source, target).GetId())
		if again.GetReport().GetFiles() != 0 || again.GetReport().GetKept() == 0 {
			t.Errorf("a second copy reports %v", again.GetReport())
		}
	})
}

func TestManyAgents(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2", "n3")
		source, target := c.Tree("shared/source", 60, 8, 3<<20), filepath.Join(c.Dir, "shared/target")
		id := c.Slow("shared:source", "shared:target", 2<<20).GetId()
		helped := c.Helpers(id)
		c.Done(id)
		c.Same(source, target)
		if got := <-helped; len(got) != 2 {
			t.Errorf("agents that helped: %v", got)
		}
	})
}

// TestHelperDies kills the process of an agent that helps; everything is there in the end.
//
//safety:1 with TestLeadSleeps
func TestHelperDies(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2", "n3")
		source, target := c.Tree("shared/source", 60, 8, 3<<20), filepath.Join(c.Dir, "shared/target")
		id := c.Slow("shared:source", "shared:target", 2<<20).GetId()
		c.Until("somebody helps", func() bool { return len(c.Now(id).GetHelpers()) == 2 })
		c.KillHelper(id)
		c.Done(id)
		c.Same(source, target)
	})
}

// TestLeadDies kills the process that leads: the task goes on, and what it had begun
// and not published is gone.
//
//safety:1 with TestLeadSleeps
func TestLeadDies(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		source, target := c.Tree("shared/source", 60, 8, 3<<20), filepath.Join(c.Dir, "shared/target")
		id := c.Slow("shared:source", "shared:target", 1<<20).GetId()
		c.Passed(id, 1<<20)
		c.Kill(c.Now(id).GetAgent(), id)
		if done := c.Done(id); done.GetTries() != 2 {
			t.Errorf("it had %d leads", done.GetTries())
		}
		c.Same(source, target)
	})
}

// TestLeadSleeps stops the processes of the lead for longer than a lease: another agent
// takes over, and when they wake up, they publish nothing.
//
//safety:1 leads and helpers that die, or sleep past their lease and wake up
func TestLeadSleeps(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		source, target := c.Tree("shared/source", 60, 8, 3<<20), filepath.Join(c.Dir, "shared/target")
		id := c.Slow("shared:source", "shared:target", 1<<20).GetId()
		c.Passed(id, 1<<20)
		lead := c.Now(id).GetAgent()
		c.Cut(lead) // the agent is in this process, and can not be stopped: nothing of it gets through
		asleep := c.Sleep(lead, id)
		c.Until("another one leads", func() bool { a := c.Now(id).GetAgent(); return a != lead && a != "" })
		c.Wake(asleep)
		c.Done(id)
		c.Mend(lead)
		c.Until("it has let go", func() bool { return len(c.Working(lead, id)) == 0 })
		c.Same(source, target)
	})
}

// TestConversationBreaks ends the conversation of each agent just when it has been given
// something to do: that begins all the same, and its agent has it when it is back.
//
//safety:3/takeover an agent is cut off, also just when it has been given a task or a batch: what it has it begins, and tells of when it is back
func TestConversationBreaks(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		source, target := c.Tree("shared/source", 60, 8, 3<<20), filepath.Join(c.Dir, "shared/target")
		for _, m := range c.Agents {
			m.Breaks.Store(true)
		}
		id := c.Slow("shared:source", "shared:target", 1<<20).GetId()
		if got := c.Done(id); got.GetTries() != 1 {
			t.Errorf("it was led %d times", got.GetTries())
		}
		for name, m := range c.Agents {
			if m.Breaks.Load() {
				t.Errorf("agent %s was given nothing to do", name)
			}
		}
		c.Same(source, target)
	})
}

// TestCoordinatorDies stops the coordinator in the middle: the agents work on, and
// tell the new one.
//
//safety:3 with TestCancelAndKill
func TestCoordinatorDies(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		source, target := c.Tree("shared/source", 60, 8, 3<<20), filepath.Join(c.Dir, "shared/target")
		id := c.Slow("shared:source", "shared:target", 1<<20).GetId()
		c.Passed(id, 1<<20)
		c.Restart()
		if done := c.Done(id); done.GetTries() != 1 {
			t.Errorf("it had %d leads: the first one was not believed", done.GetTries())
		}
		c.Same(source, target)
	})
}

// TestPauseResumeCancel steers a task in each of its states.
func TestPauseResumeCancel(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t, "n1")
		source, target := c.Tree("source", 40, 1, 6<<20), filepath.Join(c.Dir, "target")
		id := c.Slow(source, target, 1<<20).GetId()
		c.Passed(id, 1<<20)
		if _, err := c.PauseTask(ctx, &pb.PauseTaskRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		c.Until("it is paused", func() bool { return c.Now(id).GetState() == task.Paused })
		c.Until("its processes have ended", func() bool { return len(c.Working("n1", id)) == 0 })
		if _, err := c.ResumeTask(ctx, &pb.ResumeTaskRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		c.Done(id)
		c.Same(source, target)

		other := filepath.Join(c.Dir, "other")
		id = c.Slow(source, other, 1<<20).GetId()
		c.Passed(id, 1<<20)
		if _, err := c.CancelTask(ctx, &pb.CancelTaskRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		c.Until("it is cancelled", func() bool { return c.Now(id).GetState() == task.Cancelled })
		for name := range rig.Contents(t, other) {
			if strings.Contains(name, mover.TempPrefix) {
				t.Errorf("%s is left of a cancelled task", name)
			}
		}
		if _, err := c.ResumeTask(ctx, &pb.ResumeTaskRequest{Id: id}); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("a cancelled task is resumed: %v", err)
		}
	})
}

func TestSubmittedTwice(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t)
		spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/a", Target: "/b"}
		first, err := c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: spec, IdempotencyKey: "k"})
		must.Do(t, err)
		second, err := c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: spec, IdempotencyKey: "k"})
		if err != nil || second.GetId() != first.GetId() {
			t.Errorf("the same request again is %v, %v", second, err)
		}
		spec.Target = "/c"
		if _, err := c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: spec, IdempotencyKey: "k"}); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("another request with the same key: %v", err)
		}
	})
}

// TestOverlappingTargets: of two tasks that write to one place, one waits.
//
//safety:1 two tasks, or a task and a process, with one target; the lock of a fenced writer
func TestOverlappingTargets(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		one, two := c.Tree("one", 50, 1, 4<<20), c.Tree("two", 70, 0, 0)
		first := c.Slow(one, filepath.Join(c.Dir, "target"), 1<<20).GetId()
		c.Until("the first is led", func() bool { return c.Now(first).GetState() == task.Running })
		second := c.Copy(two, filepath.Join(c.Dir, "target/sub")).GetId()
		c.Until("the second says why it waits", func() bool { return strings.Contains(c.Now(second).GetWhy(), first) })
		a, b := c.Done(first), c.Done(second)
		if b.GetStartTime().AsTime().Before(a.GetEndTime().AsTime()) {
			t.Error("they ran at the same time")
		}
		c.Same(two, filepath.Join(c.Dir, "target/sub"))
	})
}

// TestLimitIsShared: a limit of the configuration holds for all agents together.
func TestLimitIsShared(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2", "n3")
		c.Conf.Store(&config.Config{Tiers: c.Conf.Load().Tiers, Limits: []config.Limit{{Endpoint: "shared", Direction: "write", Rate: 5 << 20}}})
		source, target := c.Tree("shared/source", 10, 8, 5<<20), filepath.Join(c.Dir, "shared/target")
		time.Sleep(1500 * time.Millisecond) // until the agents have heard of it: once a second
		done := c.Done(c.Copy("shared:source", "shared:target").GetId())
		c.Same(source, target)
		// 40 MiB at 5 MiB/s are eight seconds; what is charged last is paid by whoever comes next.
		if took := done.GetEndTime().AsTime().Sub(done.GetStartTime().AsTime()); took < 4*time.Second {
			t.Errorf("40 MiB took %v", took)
		}
	})
}

// TestOwnLimitIsShared: what a task says of its bandwidth holds for all that work on it
// together, and it says that it waits for that.
//
//safety:8 `--bwlimit` over all processes of a task, which come, go, stand still, are cut off, or are of a lead that is over; coordinators that begin anew
func TestOwnLimitIsShared(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const limit = 6 << 20
		c := rig.New(t, "n1", "n2", "n3")
		source, target := c.Tree("shared/source", 60, 8, 4<<20), filepath.Join(c.Dir, "shared/target")
		id := c.Slow("shared:source", "shared:target", limit).GetId()
		helped := c.Helpers(id)
		c.Until("it is said to wait for its limit", func() bool {
			e, err := c.ExplainTask(context.Background(), &pb.ExplainTaskRequest{Id: id})
			return err == nil && e.GetBottleneck() == pb.Bottleneck_BOTTLENECK_LIMIT && strings.Contains(e.GetAdvice(), "--bwlimit")
		})
		done := c.Done(id)
		c.Same(source, target)
		if got := <-helped; len(got) == 0 {
			t.Error("nobody helped: this shows nothing")
		}
		took, bytes := done.GetEndTime().AsTime().Sub(done.GetStartTime().AsTime()), done.GetReport().GetBytes()
		if most := limit * took.Seconds() * 1.25; float64(bytes) > most || bytes < 32<<20 {
			t.Errorf("%d bytes in %v, where %d a second are allowed", bytes, took, limit)
		}
	})
}

// TestOwnLimitSurvivesARestart: who is not heard of yet keeps what it had, so that all
// together have no more than the task may, and what they have is not less for long.
//
//safety:8 with TestOwnLimitIsShared
func TestOwnLimitSurvivesARestart(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const limit = 6 << 20
		c := rig.New(t, "n1", "n2", "n3")
		source, target := c.Tree("shared/source", 60, 8, 4<<20), filepath.Join(c.Dir, "shared/target")
		id := c.Slow("shared:source", "shared:target", limit).GetId()
		c.Until("all work on it", func() bool { return len(c.Now(id).GetHelpers()) == 2 })
		for range 3 {
			moved := c.Now(id).GetProgress().GetBytesDone()
			c.Restart()
			c.Passed(id, moved)
		}
		done := c.Done(id)
		c.Same(source, target)
		took, bytes := done.GetEndTime().AsTime().Sub(done.GetStartTime().AsTime()), done.GetReport().GetBytes()
		if most := limit * took.Seconds() * 1.25; float64(bytes) > most || bytes < 32<<20 {
			t.Errorf("%d bytes in %v, where %d a second are allowed", bytes, took, limit)
		}
	})
}

// TestRateOfAgents: what agents say that they move is what they move, together no more than
// the task.
func TestRateOfAgents(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		const limit = 5 << 20
		c.Tree("shared/source", 0, 4, 15<<20)
		id := c.Slow("shared:source", "shared:target", limit).GetId()
		c.Until("both agents move, as much as the task may", func() bool {
			l := must.Get(c.ListAgents(context.Background(), &pb.ListAgentsRequest{}))(t)
			sum, least := 0.0, float64(limit)
			for _, a := range l.GetAgents() {
				sum, least = sum+a.GetBytesPerSecond(), min(least, a.GetBytesPerSecond())
			}
			return least > limit/20 && sum > limit/2 && sum < limit*5/4
		})
		if _, err := c.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		c.Until("nobody moves any more", func() bool {
			l, err := c.ListAgents(context.Background(), &pb.ListAgentsRequest{})
			return err == nil && !slices.ContainsFunc(l.GetAgents(), func(a *pb.Agent) bool { return a.GetBytesPerSecond() > 0 })
		})
	})
}
