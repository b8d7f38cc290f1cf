package policyserver

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy"
)

// coordinator is what these tests need of one. The tests of package coordinator have a real one.
type coordinator struct {
	Coordinator
	rooms []*agentv1.Room
	nodes []string
}

type noCatalog struct{ Catalog }

func (c *coordinator) Rooms(string, bool) (rooms []placement.Room) {
	for _, r := range c.rooms {
		rooms = append(rooms, placement.Room{Room: r})
	}
	return rooms
}
func (c *coordinator) Reaching(string) []string                                  { return slices.Clone(c.nodes) }
func (*coordinator) AddChore(time.Duration, string, func(context.Context) error) {}
func (*coordinator) AddLoop(func(context.Context))                               {}
func (*coordinator) OnTaskEnd(func(*state.Tx, *pb.Task) error)                   {}
func (*coordinator) OnTaskEnded(func(*pb.Task))                                  {}
func (noCatalog) OnCheckpoints(func())                                           {}

func noConfig() *config.Config { return &config.Config{} }

// TestAbove: each watermark looks at what it names, and says how much has to go until it is at its low mark.
func TestAbove(t *testing.T) {
	s := New(Options{Server: noCatalog{}, Coordinator: &coordinator{rooms: []*agentv1.Room{{Tier: "project", TotalBytes: 1000, FreeBytes: 500, TotalFiles: 100, FreeFiles: 5, Parts: []*agentv1.RoomPart{
		{Kind: "ost", Name: "0", TotalBytes: 100, FreeBytes: 5}, {Kind: "ost", Name: "1", TotalBytes: 100, FreeBytes: 60},
		{Kind: "pool", Name: "flash", TotalBytes: 100, FreeBytes: 10}, {Kind: "project", Name: "vision", TotalBytes: 200, FreeBytes: 20, TotalFiles: 10, FreeFiles: 9}, {Kind: "project", Name: "nlp"}}}}}, Config: noConfig, Now: time.Now})
	for _, row := range []struct {
		trigger policy.Trigger
		bytes   int64
		files   int64
		is      bool
	}{
		{policy.Trigger{High: 85, Low: 70}, 0, 0, false},
		{policy.Trigger{High: 45, Low: 40}, 100, 0, true},
		{policy.Trigger{High: 85, Low: 70, Measure: policy.OfInodes}, 0, 25, true},
		{policy.Trigger{High: 85, Low: 80, OST: "any"}, 2 * 15, 0, true}, // it is half of each file
		{policy.Trigger{High: 85, OST: "0"}, 2 * 10, 0, true},
		{policy.Trigger{High: 85, OST: "1"}, 0, 0, false},
		{policy.Trigger{High: 85, Low: 80, Pool: "flash"}, 10, 0, true},
		{policy.Trigger{High: 85, Pool: "disk"}, 0, 0, false},
		{policy.Trigger{High: 85, Low: 50, Project: "vision"}, 80, 0, true},
		{policy.Trigger{High: 85, Project: "vision", Measure: policy.OfInodes}, 0, 0, false},
		{policy.Trigger{High: 85, Project: "nlp"}, 0, 0, false},
	} {
		row.trigger.Tier = "project"
		if need, is := s.above(&row.trigger); is != row.is || need.Bytes != row.bytes || need.Files != row.files {
			t.Errorf("%+v: %v, %+v", row.trigger, is, need)
		}
	}
}

// TestPartner: from the disk of one node a checkpoint goes to the node that has others of the run, or to the next one; and never to itself.
func TestPartner(t *testing.T) {
	ledger := must.Get(state.Open(t.TempDir(), state.Options{}))(t)
	defer func() { must.Tell(t, ledger.Close()) }()
	conf := &config.Config{Tiers: map[string]config.Tier{"scratch": {NodeLocal: true}, "project": {}}}
	s := New(Options{Server: noCatalog{}, Coordinator: &coordinator{nodes: []string{"n1", "n2"}}, Ledger: ledger, Config: func() *config.Config { return conf }, Now: time.Now})
	partner := func(from, folder string) (node string, err error) {
		err = ledger.View(func(tx *state.Tx) (err error) {
			node, err = s.partner(tx, catalog.Tree{Tier: "scratch", Node: from}, "scratch:", folder)
			return err
		})
		return node, err
	}
	is := func(from, want string) {
		t.Helper()
		got, err := partner(from, "runs/a")
		if must.Do(t, err); got != want {
			t.Errorf("from %s to %s, want %s", from, got, want)
		}
	}
	is("n1", "n2")
	is("n2", "n1")
	is("n0", "n1")
	is("n9", "n1")
	must.Do(t, ledger.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
		return state.Checkpoints.Put(tx, &pb.Checkpoint{Tier: "scratch", Node: "n2", Folder: []byte("runs/a"), Name: []byte("step_1"), Save: "x", State: verified})
	}))
	is("n9", "n2")
	_, err := partner("", "runs/a")
	if !errors.Is(err, mover.ErrRefused) {
		t.Errorf("from a tier that all share: %v", err)
	}
	conf.Tiers["scratch"] = config.Tier{Path: "/nvme"}
	_, err = partner("n1", "runs/a")
	if !errors.Is(err, mover.ErrRefused) {
		t.Errorf("to a tier that all share: %v", err)
	}
}
