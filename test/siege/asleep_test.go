package siege

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/crash/rig"
)

// gone waits until none of some processes is there any more, but for the first.
func (n *node) gone(pids []int) {
	n.site.t.Helper()
	for _, pid := range pids[1:] {
		n.site.eventually("what was left of it has ended", func() bool { s := field(pid, 2); return s == "" || s == "Z" })
	}
	n.ready()
}

// A node that sleeps for longer than its lease has lost its work, and finds nothing to
// publish when it wakes up: what others have made of the target since stays. A helper that
// sleeps is in test/cluster.
//
//safety:1 an agent that sleeps, or is cut off, for longer than its lease, while others finish and the owner changes the target: it publishes nothing
func TestLateWriterOfFiles(t *testing.T) {
	long(t)
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1", "n2"}})
	f := s.files("target")
	o := f.copy(slowlyOnTwo...)
	o.moving(begun)
	n := s.victim(o, (*pb.Task).GetAgent)
	pids := n.sleep()
	o.done()
	f.arrived()
	changed(t, f.to())
	was := marks(t, f.to())
	n.wake(pids)
	n.gone(pids)
	if now := marks(t, f.to()); !maps.Equal(was, now) {
		t.Errorf("the sleeper has changed the target: %d files, and before %d", len(now), len(was))
	}
	if _, temps := rig.Look(t, f.to()); len(temps) > 0 {
		t.Errorf("the sleeper has left %q", temps)
	}
}

// changed makes of a target what its owner wants of it now: some files are gone, and
// some are others.
func changed(t *testing.T, dir string) {
	t.Helper()
	check(t, os.Remove(filepath.Join(dir, "large", "weights-0.bin")))
	check(t, os.WriteFile(filepath.Join(dir, "large", "weights-1.bin"), []byte("newer"), 0o644))
	small, err := filepath.Glob(filepath.Join(dir, "small", "*", "*"))
	check(t, err)
	for i, path := range small {
		if i%2 == 0 {
			check(t, os.Remove(path))
		} else {
			check(t, os.WriteFile(path, []byte("newer"), 0o644))
		}
	}
}

// The same at a store, where a call of the sleeper may be on its way.
//
//safety:1 with TestLateWriterOfFiles
func TestLateWriterOfObjects(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1", "n2"}, store: true})
	o := s.upload("target", slowlyOnTwo...)
	o.moving(begun)
	n := s.victim(o, (*pb.Task).GetAgent)
	pids := n.sleep()
	o.done()
	s.stored("target")
	was := s.store.Made()
	n.wake(pids)
	n.gone(pids)
	if now := s.store.Made(); !maps.Equal(was, now) {
		t.Errorf("who slept has made objects: %v, and before %v", now, was)
	}
	s.stored("target")
}

// A network that parts for longer than a lease, and is mended: all that was on its way
// arrives late, and changes nothing.
//
//safety:1 with TestLateWriterOfFiles
//safety:3/takeover with test/cluster TestConversationBreaks
func TestPartition(t *testing.T) {
	long(t)
	t.Parallel()
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, plan{nodes: []string{"n1", "n2"}, store: true})
		p := s.both()
		for _, n := range s.nodes {
			n.wire.cut()
		}
		time.Sleep(2 * lease) // nobody can tell from outside how long it has lasted
		for _, n := range s.nodes {
			n.wire.mend()
		}
		p.done()
	})
	t.Run("lead", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, plan{nodes: []string{"n1", "n2"}})
		f := s.files("target")
		o := f.copy(slowlyOnTwo...)
		o.moving(begun)
		n := s.victim(o, (*pb.Task).GetAgent)
		pids := append([]int{n.run.PID()}, workers(n.run.PID())...)
		n.wire.cut()
		o.until("another one leads", func(now *pb.Task) bool {
			return task.Ended(now.GetState()) || now.GetAgent() != "" && now.GetAgent() != n.name
		})
		n.wire.mend()
		o.done()
		n.gone(pids) // it has drafted on, and cleans up when it hears that it has lost
		f.arrived()
	})
}
