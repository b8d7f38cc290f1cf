package cluster

import (
	"sync/atomic"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/cluster/rig"
)

// TestSwarmLies: a node gives wrong bytes. The others read those files from the source, doubt it for nothing, and ask the node no more.
//
//safety:7 nodes that give wrong bytes, what they may not read, or nothing, or are cut off while they give
func TestSwarmLies(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		p := rig.NewPeers(t, false)
		p.Lies["n2"] = new(atomic.Int64)
		c := rig.New(t)
		c.Peers = p
		nodes := []string{"n1", "n2", "n3"}
		for _, name := range nodes {
			c.Join(name)
		}
		source := c.Tree("shared/vision", 60, 2, 8<<20)
		digest := c.Add("vision", "shared:vision")
		c.Slowly("scratch", 8<<20)
		var ids []string
		for _, node := range nodes {
			ids = append(ids, c.StageTo("dataset:vision", node, "job:"+node).GetTask().GetId())
		}
		for i, node := range nodes {
			c.Done(ids[i])
			c.Same(source, c.Scratch(node, "vision", digest))
		}
		n := p.Lies["n2"].Load()
		t.Logf("n2 gave wrong bytes %d times", n)
		if n == 0 {
			t.Error("nobody asked the node that lies")
		}
		if r := c.ReplicasOf("vision")["shared@"]; r.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED {
			t.Errorf("the source is doubted: %v", r)
		}
	})
}
