package coordinator

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset"
)

// nested is a site whose tiers lie in each other.
func nested() *config.Config {
	c := site()
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
		r.Digest = digestOf(uint64(rapid.IntRange(1, 2).Draw(t, "content")))
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
	d := newDesk(t, nested(), authz.Input{})
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
		d.conf, d.facts.spots.conf = nested(), nil // nothing is known by where it is
		if rapid.Bool().Draw(t, "known before") {
			d.facts.makeSpots(context.Background())
		}
		undo := fmt.Errorf("this is not to be")
		err := d.ledger.Update(context.Background(), state.Soon, func(tx *state.Tx) error {
			now := d.clock.now()
			for _, r := range records {
				if err := d.datasets.putReplica(tx, r); err != nil {
					t.Fatalf("%v", err)
				}
			}
			for i, r := range append(held, records[:rapid.IntRange(0, len(records)).Draw(t, "leased")/3]...) {
				if err := d.datasets.putLease(tx, newLease(fmt.Sprint("l", i), r, "h", &pb.Account{Name: "root"}, now, time.Hour)); err != nil {
					t.Fatalf("%v", err)
				}
			}
			if pinned {
				if err := state.Pins.Put(tx, &pb.PinInfo{Dataset: "b", Until: timestamppb.New(now.Add(time.Hour))}); err != nil {
					t.Fatalf("%v", err)
				}
			}
			all, err := d.agents.view(tx, now)
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
				v, err := d.facts.viewAround(tx, now, r)
				if err != nil {
					t.Fatalf("%v", err)
				}
				same("release", all.MayRelease(r, ""), v.MayRelease(r, ""))
				same("evict", all.MayEvict(r, "t1"), v.MayEvict(r, "t1"))
				if want, got := len(all.Survivors(r)), len(v.Survivors(r)); want != got {
					t.Fatalf("%v survives by %d, and %d are seen", r, want, got)
				}
			}
			v, err := d.facts.viewAt(tx, now, purge.Location.String(), purge.Node)
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
