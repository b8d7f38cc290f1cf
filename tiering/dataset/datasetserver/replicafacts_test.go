package datasetserver

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/clock"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
	"datamove.dev/tiering/dataset"
)

// alone is a coordinator without tasks and agents.
type alone struct{ Coordinator }

func (alone) AddKind(pb.TaskKind, taskkind.Kind)                          {}
func (alone) AddChore(time.Duration, string, func(context.Context) error) {}
func (alone) AddLoop(func(context.Context))                               {}

// newServer is a server with a ledger of its own.
func newServer(t *testing.T, conf func() *config.Config) *Server {
	t.Helper()
	ledger := must.Get(state.Open(t.TempDir(), state.Options{}))(t)
	t.Cleanup(func() { must.Tell(t, ledger.Close()) })
	ticks := clock.New(nil, nil)
	ticks.Begin(time.Time{})
	return must.Get(New(t.Context(), Options{Coordinator: alone{}, Ledger: ledger, Config: conf, Logger: slog.New(slog.DiscardHandler), Clock: ticks, Node: "n1", Data: t.TempDir()}))(t)
}

// nested is a site whose tiers lie in each other.
func nested() *config.Config {
	c := &config.Config{Tiers: map[string]config.Tier{
		"scratch": {Level: "hot", Path: "/nvme", Ephemeral: true, NodeLocal: true, Cache: &config.Cache{High: 80, Low: 50}},
		"project": {Level: "warm", Path: "/lustre/project", Cache: &config.Cache{High: 80, Low: 50}},
		"archive": {Level: "cold", S3: &config.S3{Bucket: "archive"}},
	}}
	c.Tiers["spill"] = config.Tier{Level: "hot", Path: "/nvme/spill", Ephemeral: true, NodeLocal: true}
	c.Tiers["team"] = config.Tier{Level: "warm", Path: "/lustre/project/a"}
	c.Tiers["temp"] = config.Tier{Level: "warm", Path: "/lustre/project/temp", Ephemeral: true}
	c.Tiers["trial"] = config.Tier{Level: "cold", S3: &config.S3{Bucket: "archive", Prefix: "a"}}
	return c
}

// record draws what a ledger may have: mostly what this service puts there, and also what
// contradicts itself, or a tier that is not there any more.
func record(t *rapid.T) *pb.Replica {
	word := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(t, what) }
	name := word("dataset", "a", "b", "")
	r := &pb.Replica{
		Dataset: name, Tier: word("tier", "scratch", "spill", "project", "team", "temp", "archive", "trial", "gone", ""), Node: word("node", "", "", "n1", "n2"),
		State: rapid.SampledFrom([]pb.ReplicaState{whole, whole, whole, staging, removing}).Draw(t, "state"),
		Level: rapid.SampledFrom([]pb.Level{pb.Level_LEVEL_READ, pb.Level_LEVEL_READ, pb.Level_LEVEL_UNSPECIFIED}).Draw(t, "level"),
		Bytes: 1 << 20, Task: word("task", "", "", "", "t1"),
	}
	if name != "" {
		r.Digest = strings.Repeat(word("content", "1", "2"), 64)
	}
	path := word("path", "a", "b", "a/b", "temp/a", "spill", dataset.Datasets+"/"+name+"/"+r.GetDigest(), "")
	r.Location = r.GetTier() + ":" + path
	switch word("name", "tier", "tier", "tier", "path", "other", "odd") {
	case "path":
		r.Location = word("root", "/nvme/", "/lustre/project/", "s3://archive/", "/data/") + path
	case "other":
		r.Location = word("in", "scratch:", "project:", "gone:") + path
	case "odd":
		r.Location = word("odd", "project:../a", "/lustre/project/../project/a", "", "::", "/")
	}
	return r
}

// TestAroundIsEnough: what the rules say when they see what lies around a replica or a
// place, is what they say when they see all that the ledger has.
func TestAroundIsEnough(t *testing.T) {
	conf := nested()
	d := newServer(t, func() *config.Config { return conf })
	answers := map[string]int{}
	number := flag.Lookup("rapid.checks").Value // Check again and again would be of the same cases: there is one seed
	usual := number.String()
	defer func() { must.Do(t, number.Set(usual)) }()
	must.Do(t, number.Set(strconv.Itoa(20*must.Get(strconv.Atoi(usual))(t))))
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(record), 1, 8).Draw(t, "replicas")
		held := rapid.SliceOfN(rapid.Custom(record), 0, 4).Draw(t, "held") // there or not
		purge := dataset.Purge{Node: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"), Root: true}
		purge.Location, _ = location.Parse(rapid.SampledFrom([]string{"scratch:", "scratch:a", "spill:a/b", "temp:", "temp:a", "project:a"}).Draw(t, "purged"))
		pinned := rapid.Bool().Draw(t, "pinned")
		conf, d.records.spots.conf = nested(), nil // nothing is known by where it is
		if rapid.Bool().Draw(t, "known before") {
			d.MakeIndex(context.Background())
		}
		undo := fmt.Errorf("this is not to be")
		err := d.ledger.Update(context.Background(), state.Soon, func(tx *state.Tx) error {
			now := d.clock.Now()
			for _, r := range records {
				if err := d.PutReplica(tx, r); err != nil {
					t.Fatalf("%v", err)
				}
			}
			for i, r := range append(held, records[:rapid.IntRange(0, len(records)).Draw(t, "leased")/3]...) {
				if err := d.records.putLease(tx, newLease(fmt.Sprint("l", i), r, "h", &pb.Account{Name: "root"}, now, time.Hour)); err != nil {
					t.Fatalf("%v", err)
				}
			}
			if pinned {
				if err := state.Pins.Put(tx, &pb.PinInfo{Dataset: "b", Until: timestamppb.New(now.Add(time.Hour))}); err != nil {
					t.Fatalf("%v", err)
				}
			}
			all, err := d.records.view(tx, now)
			if err != nil {
				t.Fatalf("%v", err)
			}
			same := func(what string, want, got error) {
				answers[what+" "+mover.KindName(want)]++
				if mover.KindName(want) != mover.KindName(got) {
					t.Fatalf("%s: of all: %v; of what is around: %v", what, want, got)
				}
			}
			for _, r := range records {
				v, err := d.records.viewAround(tx, now, r)
				if err != nil {
					t.Fatalf("%v", err)
				}
				same("release", all.MayRelease(r, ""), v.MayRelease(r, ""))
				same("evict", all.MayEvict(r, "t1"), v.MayEvict(r, "t1"))
				if want, got := len(all.Survivors(r)), len(v.Survivors(r)); want != got {
					t.Fatalf("%v survives by %d, and %d are seen", r, want, got)
				}
			}
			v, err := d.records.viewAt(tx, now, purge.Location.String(), purge.Node)
			if err != nil {
				t.Fatalf("%v", err)
			}
			same("purge", all.MayPurge(purge), v.MayPurge(purge))
			want, err1 := all.Overlapping(purge.Location, purge.Node)
			got, err2 := v.Overlapping(purge.Location, purge.Node)
			same("overlapping", err1, err2)
			if len(want) != len(got) {
				t.Fatalf("%v meets %v, and these are seen: %v", purge, want, got)
			}
			return undo
		})
		if err != undo {
			t.Fatalf("%v", err)
		}
	})
	for _, what := range []string{"release ", "release REFUSED", "release HELD", "release CONFLICT", "evict ", "purge ", "purge HELD", "purge CONFLICT"} {
		if answers[what] == 0 {
			t.Errorf("never %q; there were %v", what, answers)
		}
	}
}
