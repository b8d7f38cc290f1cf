package datasetclient

import (
	"testing"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestRoomOf: what may come to a node is what is free on its hottest tier beside what stays free, with what may go.
func TestRoomOf(t *testing.T) {
	scratch := func(node string, free int64) *datamovev1.Tier {
		return &datamovev1.Tier{Name: "scratch", Level: "hot", Location: "/nvme", Node: node, TotalBytes: 1000, FreeBytes: free, ReplicaBytes: 300, LeasedBytes: 100, Agents: []string{"a"}}
	}
	with := func(x *datamovev1.Tier, change func(*datamovev1.Tier)) *datamovev1.Tier {
		change(x)
		return x
	}
	project := &datamovev1.Tier{Name: "project", Level: "warm", Location: "/lustre", TotalBytes: 9000, FreeBytes: 8000, Agents: []string{"a"}}
	bucket := &datamovev1.Tier{Name: "archive", Level: "cold", Location: "s3://archive/", Agents: []string{"a"}}
	for _, c := range []struct {
		what  string
		lines []*datamovev1.Tier
		node  string
		tier  string
		room  int64
	}{
		{"the node's own", []*datamovev1.Tier{bucket, project, scratch("n1", 500), scratch("n2", 900)}, "n1", "scratch", 500},
		{"the node with the most", []*datamovev1.Tier{scratch("n1", 500), scratch("n2", 900)}, "", "scratch", 900},
		{"what stays free", []*datamovev1.Tier{with(scratch("n1", 500), func(x *datamovev1.Tier) { x.KeepFreePercent = 10 })}, "n1", "scratch", 400},
		{"less is free than stays free", []*datamovev1.Tier{with(scratch("n1", 50), func(x *datamovev1.Tier) { x.KeepFreePercent = 10 })}, "n1", "scratch", 0},
		{"what is not leased may go", []*datamovev1.Tier{with(scratch("n1", 500), func(x *datamovev1.Tier) { x.HighPercent = 90 })}, "n1", "scratch", 700},
		{"of another node nothing", []*datamovev1.Tier{scratch("n1", 500), project}, "n3", "project", 8000},
		{"nobody says how much", []*datamovev1.Tier{with(scratch("n1", 0), func(x *datamovev1.Tier) { x.TotalBytes = 0 })}, "n1", "scratch", -1},
		{"nowhere", []*datamovev1.Tier{bucket}, "n1", "", -1},
	} {
		if x := roomOf(c.lines, c.node); x.Tier != c.tier || x.Room != c.room {
			t.Errorf("%s: %s has room for %d, want %s and %d", c.what, x.Tier, x.Room, c.tier, c.room)
		}
	}
}

// TestSpace: a mover says how large a dataset is, whether it is on a node already, and how much may come there.
func TestSpace(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := served(t)
		c.Add("train", "shared:train")
		m := of(t, c)
		ask := Source{Location: "dataset:train", Tier: "scratch", Node: "n1"}
		c.Until("the node has said how full it is", func() bool {
			x := must.Get(m.Space(t.Context(), ask))(t)
			return x.Room > 0 && x.Bytes == int64(len("train")) && !x.There
		})
		_, err := m.Stage(t.Context(), ask, "csi:one")
		must.Do(t, err)
		if x := must.Get(m.Space(t.Context(), ask))(t); !x.There {
			t.Errorf("%+v", x)
		}
		if x := must.Get(m.Space(t.Context(), Source{Location: "dataset:none", Tier: "scratch", Node: "n1"}))(t); x.There || x.Bytes != 0 || x.Room <= 0 {
			t.Errorf("of a dataset that is not there: %+v", x)
		}
	})
}
