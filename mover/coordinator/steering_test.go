package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// TestSteeredAsItBegins: a task that is stored as running before its lead is noted is not cancelled or paused behind the back of that
// lead: it would run on, and be stored as running once more.
//
//safety:3 with test/simulation/service TestService
func TestSteeredAsItBegins(t *testing.T) {
	for name, steer := range map[string]func(d *desk, id string) (*pb.Task, error){
		"cancel": func(d *desk, id string) (*pb.Task, error) { return d.CancelTask(root, &pb.CancelTaskRequest{Id: id}) },
		"pause":  func(d *desk, id string) (*pb.Task, error) { return d.PauseTask(root, &pb.PauseTaskRequest{Id: id}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, given := crewed(t)
				id, s := given.GetTask().GetId(), d.scheduler
				s.mu.Lock()
				l := s.leads[id]
				s.dropLead(l) // as between the two halves of giveLead
				s.mu.Unlock()
				told := make(chan *pb.Task, 1)
				go func() { told <- must.Get(steer(d, id))(t) }()
				time.Sleep(time.Second)
				if got := d.state(id).GetState(); got != task.Running {
					t.Errorf("without its lead it is %s", task.Word(got))
				}
				s.mu.Lock()
				s.addLead(l)
				s.mu.Unlock()
				if got := <-told; got.GetState() != task.Running || l.want == 0 {
					t.Errorf("it is %s, and of its lead is wanted %s", task.Word(got.GetState()), task.Word(l.want))
				}
			})
		})
	}
}
