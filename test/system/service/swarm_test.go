package service

import (
	"strings"
	"testing"

	"datamove.dev/test/cluster/rig"
)

// TestSwarm: three nodes stage a dataset, one worker is killed, the coordinator begins anew, and a fourth node comes late. The
// source is read once, but for what was on its way to the dead.
func TestSwarm(t *testing.T) {
	p := rig.NewPeers(t, true)
	c := newCluster(t)
	c.Peers = p
	nodes := []string{"n1", "n2", "n3", "n4"}
	for _, name := range nodes {
		c.Join(name)
	}
	source := c.Tree("shared/vision", 300, 3, 16<<20)
	digest := c.Add("vision", "shared:vision")
	added := p.SourceBytes()
	c.Slowly("scratch", 32<<20)
	ids := map[string]string{}
	stage := func(node string) { ids[node] = c.StageTo("dataset:vision", node, "job:"+node).GetTask().GetId() }
	for _, node := range nodes[:3] {
		stage(node)
	}
	c.Half(ids["n2"], 4<<20)
	c.Kill("n2", ids["n2"])
	c.Restart()
	c.Until("n1 is heard of", func() bool { return c.Now(ids["n1"]).GetProgress() != nil })
	c.Ready("n4")
	stage("n4")
	for _, node := range nodes {
		c.Done(ids[node])
		c.Same(source, c.Scratch(node, "vision", digest))
	}
	const bytes = 3 * 16 << 20
	share := (p.SourceBytes() - added) / bytes
	given := p.Total("datamove_peer_read_bytes_total") / bytes
	t.Logf("the source was read %.2f times, and %.2f times it came from others", share, given)
	if share > 1.5 {
		t.Errorf("the source was read %.2f times", share)
	}
	if given < 1.5 {
		t.Errorf("it came from others %.2f times", given)
	}
	if notes := strings.Join(c.Now(ids["n4"]).GetReport().GetNotes(), "\n"); !strings.Contains(notes, "came from other nodes") {
		t.Errorf("the report says %q", notes)
	}
}
