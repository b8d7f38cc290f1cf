package siege

import (
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
)

// begun is how far a task is when it is disturbed.
const begun = 4 << 20

// pair is a task that writes files and one that writes objects, at one time.
type pair struct {
	site   *site
	files  *freight
	copy   *order
	upload *order
}

// both begins them, and waits until both have moved something.
func (s *site) both(more ...string) *pair {
	s.t.Helper()
	p := &pair{site: s, files: s.files("target")}
	p.upload = s.upload("target", append(more, slowlyOnTwo...)...)
	p.upload.moving(begun)
	p.copy = p.files.copy(append(more, slowlyOnTwo...)...)
	p.copy.moving(begun)
	return p
}

// done waits until all is there.
func (p *pair) done() {
	p.site.t.Helper()
	p.copy.done()
	p.upload.done()
	p.files.arrived()
	p.site.stored("target")
}

// victim is a node that has a part in a task.
func (s *site) victim(o *order, of func(*pb.Task) string) *node {
	s.t.Helper()
	var name string
	o.until("somebody has that part", func(t *pb.Task) bool {
		name = of(t)
		return t.GetState() == task.Running && name != ""
	})
	return s.nodes[name]
}

// A coordinator that is killed goes on where it was: whoever waits goes on waiting, and
// the agents with their work.
//
//safety:3 the coordinator is killed while tasks run, are submitted and are cancelled: what was answered holds, and a key makes one task
func TestCoordinatorIsKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1", "n2"}, store: true})
	p := s.both()
	for range 2 {
		s.crash()
		s.start()
	}
	p.done()
}
