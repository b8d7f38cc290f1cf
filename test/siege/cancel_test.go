package siege

import (
	"context"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/crash/rig"
)

// cancelled waits for the end of a task that was cancelled, and looks at what it has
// left: files that are whole, and nothing unfinished.
func (o *order) cancelled(f *freight) {
	s := o.site
	s.t.Helper()
	o.ends(130, task.Cancelled)
	f.finish()
	if len(marks(s.t, f.to())) == 0 {
		return // it was cancelled before there was a target
	}
	if _, temps := rig.Look(s.t, f.to()); len(temps) > 0 {
		s.t.Errorf("a task that was cancelled has left %q", temps)
	}
}

// cancel cancels a task as a person does.
func (o *order) cancel() {
	o.site.t.Helper()
	o.site.tool.Do(o.site.t, 0, "task", "cancel", o.id)
}

// A task is cancelled in each of its states, and ends as cancelled in each.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1"}, store: true})
	t.Run("queued", func(t *testing.T) {
		s.t = t
		_, err := s.DrainAgent(t.Context(), &pb.DrainAgentRequest{Name: "n1"})
		check(t, err)
		f := s.files("queued")
		o := f.copy()
		o.cancel()
		o.cancelled(f)
		_, err = s.UndrainAgent(t.Context(), &pb.UndrainAgentRequest{Name: "n1"})
		check(t, err)
	})
	t.Run("running", func(t *testing.T) {
		s.t = t
		f := s.files("running")
		o := f.copy(slowly...)
		o.moving(begun)
		o.cancel()
		o.cancelled(f)
	})
	t.Run("paused", func(t *testing.T) {
		s.t = t
		f := s.files("paused")
		o := f.copy(slowly...)
		o.moving(begun)
		s.tool.Do(t, 0, "task", "pause", o.id)
		o.until("it is paused", func(now *pb.Task) bool { return now.GetState() == task.Paused })
		o.cancel()
		o.cancelled(f)
		o = f.again().copy() // somebody else may have the target now
		o.done()
		f.arrived()
	})
	t.Run("publishing", func(t *testing.T) {
		s.t = t
		g := newGate("CompleteMultipartUpload")
		s.store.Set(g.fault)
		defer s.store.Set(nil)
		o := s.upload("publishing")
		<-g.reached
		o.cancel()
		g.open()
		o.ends(130, task.Cancelled)
		if n := s.store.Uploads(t); n > 0 {
			t.Errorf("%d uploads are open", n)
		}
		s.upload("publishing").done()
		s.stored("publishing")
	})
	s.t = t
}

// again watches the target anew, after somebody was stopped there.
func (f *freight) again() *freight {
	f.finish()
	f.witness = watch(f.site.t, f.from(), f.to())
	return f
}

// What was cancelled or paused, and answered so, stays it, though the coordinator is
// killed before the lead has let go.
func TestCancelAndKill(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1"}})
	n := s.nodes["n1"]
	f := s.files("target")
	o := f.copy(slowly...)
	o.moving(begun)
	n.wire.cut() // the lead does not hear of it
	_, err := s.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: o.id})
	check(t, err)
	s.crash()
	s.start()
	n.wire.sever()
	n.wire.mend()
	o.cancelled(f)

	p := s.files("second")
	o = p.copy(slowly...)
	o.moving(begun)
	n.wire.cut()
	_, err = s.PauseTask(context.Background(), &pb.PauseTaskRequest{Id: o.id})
	check(t, err)
	s.crash()
	s.start()
	n.wire.sever()
	n.wire.mend()
	o.until("it is paused", func(now *pb.Task) bool { return now.GetState() == task.Paused })
	_, err = s.ResumeTask(context.Background(), &pb.ResumeTaskRequest{Id: o.id})
	check(t, err)
	o.done()
	p.arrived()
}

// A cancel that comes while there is no coordinator waits for it.
func TestCancelDuringRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1"}})
	f := s.files("target")
	o := f.copy(slowly...)
	o.moving(begun)
	s.crash()
	ended := make(chan error, 1)
	go func() {
		_, err := s.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: o.id})
		ended <- err
	}()
	s.start()
	if err := <-ended; err != nil {
		o.cancel() // it was told that nobody is there
	}
	o.cancelled(f)
}
