package cluster

import (
	"path/filepath"
	"testing"
)

func TestOneAgent(t *testing.T) {
	c := newCluster(t, "n1")
	source := c.tree("source", 3000, 1, 20<<20)
	target := filepath.Join(c.dir, "target")
	done := c.done(c.submit(source, target).GetId())
	c.same(source, target)
	if got := done.GetReport().GetFiles(); got != 3001 {
		t.Errorf("%d files are reported", got)
	}
	if done.GetFirstByteTime() == nil || done.GetTries() != 1 || done.GetAgent() != "" {
		t.Errorf("the task says %v", done)
	}
	again := c.done(c.submit(source, target).GetId())
	if again.GetReport().GetFiles() != 0 || again.GetReport().GetKept() == 0 {
		t.Errorf("a second copy reports %v", again.GetReport())
	}
}

func TestManyAgents(t *testing.T) {
	c := newCluster(t, "n1", "n2", "n3")
	c.tree("shared/source", 20000, 3, 200<<20)
	done := c.done(c.submit("shared:source", "shared:target").GetId())
	c.same(filepath.Join(c.dir, "shared/source"), filepath.Join(c.dir, "shared/target"))
	t.Logf("%v", done)
}
