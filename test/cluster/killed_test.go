package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestAgentIsKilled: of an agent that is killed while it leads or helps the other one does
// the work.
//
//safety:1 agents that are killed as leads and as helpers, and a whole site: the rest ends the work, and nothing is published twice
func TestAgentIsKilled(t *testing.T) {
	for name, part := range parts {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				c := rig.New(t, "n1", "n2")
				f := carry(t, c, "target")
				c.KillAgent(f.victim(part))
				f.arrives()
			})
		})
	}
}

// TestAllAreKilled: the coordinator and all agents are killed, as when the power fails. When
// they are started again they go on.
//
//safety:1 with TestAgentIsKilled
//safety:3/takeover with mover/coordinator TestLinger
func TestAllAreKilled(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		f := carry(t, c, "target")
		c.Crash()
		for _, name := range []string{"n1", "n2"} {
			c.KillAgent(name)
		}
		c.Start()
		for _, name := range []string{"n1", "n2"} {
			c.Join(name)
		}
		f.arrives()
	})
}

// TestLateWriter: an agent that is cut off for longer than its lease, with a worker that
// sleeps, has lost its work, and finds nothing to publish when it wakes up: what the owner has
// made of the target since stays.
//
//safety:1 an agent that sleeps, or is cut off, for longer than its lease, while others finish and the owner changes the target: it publishes nothing
func TestLateWriter(t *testing.T) {
	for name, part := range parts {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				c := rig.New(t, "n1", "n2")
				f := carry(t, c, "target")
				victim := f.victim(part)
				c.Cut(victim)
				asleep := c.Sleep(victim, f.id)
				f.arrives()
				changed(t, f.target)
				was, _ := marks(t, f.target)
				c.Wake(asleep)
				time.Sleep(wakeful) // it would like to publish, and its agent can ask for nothing
				c.Mend(victim)
				c.Until("what was left of it has ended", func() bool { return len(c.Working(victim, f.id)) == 0 })
				c.Ready(victim)
				now, left := marks(t, f.target)
				if !maps.Equal(was, now) {
					t.Errorf("the sleeper has changed the target: %d files, and before %d", len(now), len(was))
				}
				if len(left) > 0 {
					t.Errorf("the sleeper has left %q", left)
				}
			})
		})
	}
}

// TestPartition: the network between all agents and the coordinator parts for longer than a lease, and is mended. Workers go on meanwhile, and nothing is published twice.
//
//safety:1 with TestLateWriter
//safety:3/takeover with TestConversationBreaks
func TestPartition(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		f := carry(t, c, "target")
		for name := range c.Agents {
			c.Cut(name)
		}
		time.Sleep(2 * c.Lease)
		for name := range c.Agents {
			c.Mend(name)
		}
		f.arrives()
	})
}

// wakeful is how long a worker goes on that does not know that it has lost its task: all that
// it had left takes as long.
const wakeful = 20 * time.Second

// changed makes of a target what its owner wants of it now: some files are gone, and some
// are others.
func changed(t *testing.T, dir string) {
	t.Helper()
	all, _ := marks(t, dir)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		path := filepath.Join(dir, name)
		err := os.Remove(path)
		if i%2 == 0 {
			err = errors.Join(err, os.WriteFile(path, []byte("newer"), 0o644))
		}
		must.Do(t, err)
	}
}

// TestCancelled: a task is cancelled in each of its states, and ends as cancelled in each.
// Its target is free then.
//
//safety:3 a task is cancelled in each of its states, and while there is no coordinator
func TestCancelled(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t)
		c.Tree("shared/source", 60, 8, 3<<20)
		cancel := func(id string) {
			t.Helper()
			if _, err := c.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: id}); err != nil {
				t.Fatal(err)
			}
		}
		queued := c.Copy("shared:source", "shared:queued").GetId()
		cancel(queued)
		if s := c.Ends(c.Now(queued), nil).GetState(); s != task.Cancelled {
			t.Errorf("queued: %s", task.Word(s))
		}
		c.Join("n1")
		running := carry(t, c, "running")
		cancel(running.id)
		running.cancelled()

		paused := carry(t, c, "paused")
		if _, err := c.PauseTask(context.Background(), &pb.PauseTaskRequest{Id: paused.id}); err != nil {
			t.Fatal(err)
		}
		c.Until("it is paused", func() bool { return c.Now(paused.id).GetState() == task.Paused })
		cancel(paused.id)
		if s := c.Ends(c.Now(paused.id), nil).GetState(); s != task.Cancelled {
			t.Errorf("paused: %s", task.Word(s))
		}
		c.Done(c.Copy("shared:source", "shared:paused").GetId())
		paused.stop()
		c.Same(paused.source, paused.target)
		if _, err := os.Lstat(filepath.Join(c.Dir, "shared/queued")); err == nil {
			t.Error("a task that never began has made its target")
		}
	})
}

// TestCancelAndKill: what was cancelled or paused, and answered so, stays it, though the
// coordinator is killed before the lead has let go.
//
//safety:3 the coordinator is killed while tasks run, are submitted and are cancelled: what was answered holds, and a key makes one task
func TestCancelAndKill(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		f := carry(t, c, "first")
		c.Cut("n1") // the lead does not hear of it
		if _, err := c.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: f.id}); err != nil {
			t.Fatal(err)
		}
		c.Restart()
		c.Mend("n1")
		f.cancelled()

		f = carry(t, c, "second")
		c.Cut("n1")
		if _, err := c.PauseTask(context.Background(), &pb.PauseTaskRequest{Id: f.id}); err != nil {
			t.Fatal(err)
		}
		c.Restart()
		c.Mend("n1")
		c.Until("it is paused", func() bool { return c.Now(f.id).GetState() == task.Paused })
		if _, err := c.ResumeTask(context.Background(), &pb.ResumeTaskRequest{Id: f.id}); err != nil {
			t.Fatal(err)
		}
		f.arrives()
	})
}

// TestCancelDuringRestart: a cancel that comes while there is no coordinator is refused, or waits
// for it; after it is done nothing is left.
//
//safety:3 with TestCancelled
func TestCancelDuringRestart(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		f := carry(t, c, "target")
		c.Crash()
		if _, err := c.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: f.id}); !errors.Is(err, mover.ErrUnreachable) {
			t.Errorf("no coordinator, and the answer is %v", err)
		}
		c.Start()
		c.Until("it is told to stop", func() bool {
			_, err := c.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: f.id})
			return err == nil
		})
		f.cancelled()
	})
}

// TestSubmittedTwiceAndKilled: of a request with a key whose answer is lost, because the
// coordinator is killed, there is one task when it is asked for again; so of one that was
// asked while there was no coordinator.
//
//safety:3 with TestCancelAndKill
func TestSubmittedTwiceAndKilled(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t)
		const many = 40
		request := func(i int) *pb.SubmitTaskRequest {
			return &pb.SubmitTaskRequest{IdempotencyKey: fmt.Sprint("key-", i), Spec: &pb.TaskSpec{
				Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:a", Target: fmt.Sprint("shared:b", i)}}
		}
		ids := make([]string, many)
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond) // some are answered, some are done and not answered, some find no coordinator
				got, err := c.Submit(context.Background(), request(i))
				if err != nil {
					t.Errorf("submit %d: %v", i, err)
				}
				ids[i] = got.GetId()
			})
		}
		for range 2 {
			time.Sleep(42 * time.Millisecond)
			c.Mute.Store(true)
			time.Sleep(20 * time.Millisecond)
			c.Crash()
			time.Sleep(20 * time.Millisecond)
			c.Mute.Store(false)
			c.Start()
		}
		all.Wait()
		for i := range many {
			got, err := c.Submit(t.Context(), request(i))
			if err != nil || got.GetId() != ids[i] {
				t.Errorf("key %d was task %s and is %s: %v", i, ids[i], got.GetId(), err)
			}
		}
		l, err := c.ListTasks(t.Context(), &pb.ListTasksRequest{PageSize: 1000})
		if err != nil || len(l.GetTasks()) != many {
			t.Errorf("of %d keys there are %d tasks: %v", many, len(l.GetTasks()), err)
		}
	})
}

// TestTargetOfAProcess: a process that works without a service finds the target of a task
// held, and so does a task that finds such a process there. Both say by whom.
//
//safety:1 with TestOverlappingTargets
func TestTargetOfAProcess(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		f := carry(t, c, "target")
		at := func(path string) location.Location { return location.Location{Scheme: location.POSIX, Path: path} }
		alone := func(target string) (*engine.Task, error) {
			return engine.Start(context.Background(), engine.Request{
				Work: engine.Copy, Source: at(f.source), Target: at(target), StateDir: filepath.Join(c.Dir, "alone"), Bandwidth: 1 << 20,
			}, backend.Resolver{}.Open)
		}
		if _, err := alone(f.target); !errors.Is(err, mover.ErrHeld) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
			t.Errorf("a process beside a task: %v", err)
		}
		f.arrives()

		other := filepath.Join(c.Dir, "shared/other")
		x := must.Get(alone(other))(t)
		c.Until("it has drafts", func() bool { _, drafts := marks(t, other); return len(drafts) > 1 })
		end := c.Ends(c.Copy("shared:source", "shared:other"), nil)
		if end.GetState() != task.Failed || end.GetExitCode() != 5 || !strings.Contains(end.GetError(), fmt.Sprint("process ", os.Getpid())) {
			t.Errorf("a task beside a process: %v", end)
		}
		if _, err := x.Wait(); err != nil {
			t.Error(err)
		}
		c.Same(f.source, other)
	})
}

// TestPowerCutAsItBegins cuts the power of the coordinator's machine when a task has just begun, and cuts off its agent, whose worker has the lock of the target: the
// coordinator knows of that lead, and the next one breaks its lock.
//
//safety:3/takeover a power cut as a task begins
func TestPowerCutAsItBegins(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.Open(t, rig.Options{Power: true}, "n1", "n2")
		source, target := c.Tree("shared/source", 60, 2, 3<<20), filepath.Join(c.Dir, "shared/target")
		id := c.Slow("shared:source", "shared:target", 1<<20).GetId()
		c.Until("it begins", func() bool { return c.Now(id).GetState() == task.Running })
		lead := c.Now(id).GetAgent()
		c.Cut(lead)
		c.PowerCut(rand.New(rand.NewPCG(1, 2)))
		c.Start()
		c.Done(id)
		c.Mend(lead)
		c.Ready(lead)
		c.Same(source, target)
	})
}
