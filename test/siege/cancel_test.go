package siege

import (
	"testing"

	"datamove.dev/mover/task"
)

// cancel cancels a task as a person does.
func (o *order) cancel() {
	o.site.t.Helper()
	o.site.tool.Do(o.site.t, 0, "task", "cancel", o.id)
}

// A task is cancelled while a store puts an upload together: it ends as cancelled, and leaves
// no upload. The other states are in test/cluster.
//
//safety:3 with test/cluster TestCancelled
func TestCancelWhilePublishing(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1"}, store: true})
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
}
