package service

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestSwarmSealed: nodes bring a dataset of alice to their caches, and read it once. One worker is killed on the way, the coordinator begins anew, and one node
// comes when the others have sealed what they have. Each cache is closed to who was not let in there, on the node and from other nodes.
//
//safety:7 with mover/agent/replicadir TestStrangers
func TestSwarmSealed(t *testing.T) {
	p := rig.NewPeers(t, true)
	c := newTown(t)
	c.Peers = p
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
		c.Join(name)
	}
	source := c.Tree("shared/lab/vision", 60, 3, 6<<20)
	c.giveTo("alice", filepath.Dir(source))
	mode := func(m os.FileMode) {
		t.Helper()
		must.Do(t, os.Chmod(filepath.Dir(source), m))
	}
	mode(0o700)
	c.addAs("alice", "vision", "shared:lab/vision")
	const bytes = 3 * 6 << 20
	read, given := p.SourceBytes(), p.Total("datamove_peer_read_bytes_total")
	shares := func() (ofSource, ofOthers float64) { // since they were asked for last
		t.Helper()
		r, g := p.SourceBytes(), p.Total("datamove_peer_read_bytes_total")
		ofSource, ofOthers = (r-read)/bytes, (g-given)/bytes
		read, given = r, g
		t.Logf("the source was read %.2f times, and %.2f times it came from others", ofSource, ofOthers)
		return ofSource, ofOthers
	}
	stage := func(who, node string) *pb.Task {
		t.Helper()
		a := must.Get(c.Stage(rig.As(who), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: node, LeaseTtl: durationpb.New(time.Hour)}))(t)
		return a.GetTask()
	}

	c.Slowly("scratch", 12<<20)
	first := map[string]string{}
	for _, node := range []string{"n1", "n2", "n3"} {
		first[node] = stage("alice", node).GetId()
	}
	c.Half(first["n2"], 2<<20)
	for node := range first {
		half := filepath.Join(c.Dir, "nodes", node, "scratch", strings.TrimPrefix(c.ReplicasOf("vision")["scratch@"+node].GetLocation(), "scratch:"))
		if out, err := c.doAs("alice", "sh", "-ec", "touch "+half+"/new; rm "+half+"/new"); err != nil {
			t.Errorf("it is sealed before it is whole: %s", out)
		}
		if out, err := c.doAs("bob", "ls", half); err == nil {
			t.Errorf("bob sees what is half there: %s", out)
		}
	}
	c.Kill("n2", first["n2"])
	c.Restart()
	for name := range c.Agents {
		c.Ready(name)
	}
	for _, id := range first {
		c.Done(id)
	}
	if ofSource, ofOthers := shares(); ofSource > 1.5 || ofOthers < 1 {
		t.Error("three nodes read it for themselves")
	}
	late := c.Done(stage("alice", "n4").GetId())
	if ofSource, ofOthers := shares(); ofSource > 0.1 || ofOthers < 0.9 {
		t.Errorf("who comes late has it not from the others: %v", late.GetReport().GetNotes())
	}
	if notes := strings.Join(late.GetReport().GetNotes(), "\n"); !strings.Contains(notes, "came from other nodes") {
		t.Errorf("the report says %q", notes)
	}
	for _, node := range []string{"n1", "n2", "n3", "n4"} {
		c.closedTo(node, source)
	}

	// Bob may not read it, and gets it neither where it is nor where it is not.
	if _, err := c.Stage(rig.As("bob"), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"}); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("bob has a hit: %v", err)
	}
	if end := c.Ends(stage("bob", "n5"), nil); end.GetState() != task.Failed {
		t.Errorf("bob brings to n5 what he may not read: %v", end)
	}
	if ofSource, ofOthers := shares(); ofSource > 0 || ofOthers > 0 {
		t.Error("something of it was read for bob")
	}
	// When he may, he reads it himself: from a cache to which he was not let in he has nothing, and from one to which he was, everything.
	mode(0o755)
	c.Until("what was begun for bob is gone", func() bool { return c.ReplicasOf("vision")["scratch@n5"] == nil })
	c.Done(stage("bob", "n5").GetId())
	if ofSource, ofOthers := shares(); ofSource < 1 || ofOthers > 0 {
		t.Error("bob was given what lies behind gates that he does not pass")
	}
	c.Done(stage("bob", "n6").GetId())
	if ofSource, ofOthers := shares(); ofSource > 0.1 || ofOthers < 0.9 {
		t.Error("bob was not given what his own node has")
	}
	c.closedTo("n1", source)
	for _, node := range []string{"n5", "n6"} {
		c.Same(source, c.whereOn(node, "vision"))
	}
}

// closedTo checks that the scratch of a node has what the source has, sealed, for alice and not for bob.
func (c *cluster) closedTo(node, source string) {
	c.t.Helper()
	at := c.whereOn(node, "vision")
	c.Same(source, at)
	if out, err := c.doAs("alice", "cat", at+"/large0"); err != nil || len(out) == 0 {
		c.t.Errorf("alice can not read what was staged for her on %s: %v", node, err)
	}
	for what, try := range map[string]string{"changes": "echo x >>" + at + "/large0", "adds": "touch " + at + "/new", "removes": "rm -f " + at + "/d00/f00000", "opens": "chmod 777 " + filepath.Dir(at)} {
		if out, err := c.doAs("alice", "sh", "-c", try); err == nil {
			c.t.Errorf("alice %s something on %s: %s", what, node, out)
		}
	}
	for what, try := range map[string]string{"reads": "cat " + at + "/large0", "lists": "ls " + at, "looks through the gate": "ls " + filepath.Dir(at)} {
		if out, err := c.doAs("bob", "sh", "-c", try); err == nil {
			c.t.Errorf("bob %s on %s: %.80s", what, node, out)
		}
	}
}
