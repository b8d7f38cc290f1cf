package dataset

import (
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// filled is the line of a tier with 1,000 bytes.
func filled(name, node string, used int64) *datamovev1.Tier {
	return &datamovev1.Tier{Name: name, Node: node, TotalBytes: 1000, FreeBytes: 1000 - used}
}

// named makes a replica of a dataset of that name on scratch of n1, and one of the
// same in the archive.
func named(name string, changes ...change) []*datamovev1.Replica {
	return []*datamovev1.Replica{at("scratch:"+name, append([]change{of(name), on("n1")}, changes...)...), at("archive:"+name, of(name), level(written))}
}

func TestEvict(t *testing.T) {
	old, older, oldest := named("old", used(time.Hour)), named("older", used(2*time.Hour)), named("oldest", used(3*time.Hour))
	three := slices.Concat(older, old, oldest)
	unnamed := []*datamovev1.Replica{at("scratch:x", on("n1"), of("")), at("scratch:y", on("n1"), of(""))}
	n1, warm := filled("scratch", "n1", 950), filled("project", "", 950)
	for _, c := range []struct {
		what  string
		row   *datamovev1.Tier
		facts Facts
		want  []string
		short int64
		kept  Kept
	}{
		{"not too full", filled("scratch", "n1", 900), facts(three...), nil, 0, Kept{}},
		{"the least recently used first, until it is enough", n1, facts(three...), []string{"scratch:oldest", "scratch:older"}, 0, Kept{}},
		{"exactly enough", filled("scratch", "n1", 1000), facts(slices.Concat(older, oldest)...), []string{"scratch:oldest", "scratch:older"}, 0, Kept{}},
		{"all is leased", n1, leasing(facts(older...), lasting(older[0], time.Hour)), nil, 150, Kept{Leased: 100}},
		{"the lease of yesterday counts as use", n1, leasing(facts(three...), lasting(oldest[0], 0)), []string{"scratch:older", "scratch:old"}, 0, Kept{}},
		{"pinned", n1, pinning(facts(three...), pin("oldest", "", "", time.Hour)), []string{"scratch:older", "scratch:old"}, 0, Kept{Pinned: 100}},
		{"staged and worked on", n1, facts(slices.Concat(named("a", in(staging)), named("b", task("t1")), named("c", used(time.Hour)))...),
			[]string{"scratch:c"}, 50, Kept{Busy: 200}},
		{"what goes already counts", n1, facts(slices.Concat(named("a", in(removing), bytes(120)), older, old)...), []string{"scratch:older"}, 0, Kept{}},
		{"the only copy of a dataset stays", n1, facts(named("sole")[:1]...), nil, 150, Kept{Alone: 100}},
		{"a copy of no dataset does not", n1, facts(at("scratch:x", on("n1"), of(""), bytes(500))), []string{"scratch:x"}, 0, Kept{}},
		{"a lease on another one that has no name", n1, leasing(facts(unnamed...), lasting(unnamed[0], time.Hour)), []string{"scratch:y"}, 50, Kept{Leased: 100}},
		{"its use is not that of all", n1, leasing(facts(unnamed...), lasting(unnamed[0], 0)), []string{"scratch:y", "scratch:x"}, 0, Kept{}},
		{"another node is not asked", n1, facts(slices.Concat(named("a", on("n2")), older)...), []string{"scratch:older"}, 50, Kept{}},
		{"one lies in another one", n1, facts(slices.Concat(named("a"), named("a/b"), older)...), []string{"scratch:older"}, 50, Kept{Other: 200}},
		{"equally old: the larger, then by name", n1, facts(slices.Concat(named("b", bytes(10)), named("a", bytes(10)), named("c", bytes(120)))...),
			[]string{"scratch:c", "scratch:a", "scratch:b"}, 10, Kept{}},

		{"a tier that is not ephemeral, safe elsewhere", warm, facts(at("project:v", bytes(150)), at("archive:v")), []string{"project:v"}, 0, Kept{}},
		{"not verified there", warm, facts(at("project:v"), at("archive:v", level(written))), nil, 150, Kept{Alone: 100}},
		{"seen from a node", filled("project", "n5", 950), facts(at("project:v", bytes(150), on("n3")), at("archive:v")), []string{"project:v"}, 0, Kept{}},

		{"how full is not known", &datamovev1.Tier{Name: "scratch", Node: "n1"}, facts(three...), nil, 0, Kept{}},
		{"more free than there is", filled("scratch", "n1", -50), facts(three...), nil, 0, Kept{}},
		{"numbers that can not be", &datamovev1.Tier{Name: "scratch", Node: "n1", TotalBytes: -1, FreeBytes: math.MinInt64}, facts(three...), nil, 0, Kept{}},
		{"a size that can not be", n1, facts(slices.Concat(named("a", bytes(-1000)), older)...), []string{"scratch:older"}, 50, Kept{}},
	} {
		v := Look(c.facts)
		e := v.Evict(c.row, Watermarks{})
		var got []string
		for _, r := range e.Replicas {
			got = append(got, r.Location)
			if err := v.MayEvict(r, ""); err != nil {
				t.Errorf("%s: what was chosen may not go: %v", c.what, err)
			}
		}
		for _, r := range c.facts.Replicas {
			if v.MayEvict(r, "") == nil && e.Short > 0 && r.GetTier() == c.row.GetName() && r.GetNode() == c.row.GetNode() && r.GetBytes() > 0 && !slices.Contains(got, r.GetLocation()) {
				t.Errorf("%s: %s may go, and was not chosen", c.what, r.GetLocation())
			}
		}
		if !slices.Equal(got, c.want) || e.Short != c.short || e.Kept != c.kept {
			t.Errorf("%s: %q, short of %d, kept %+v; want %q, %d, %+v", c.what, got, e.Short, e.Kept, c.want, c.short, c.kept)
		}
	}
}

func TestWatermarks(t *testing.T) {
	for _, c := range []struct {
		marks      Watermarks
		used, want int64 // percent
	}{
		{Watermarks{}, 90, 0},
		{Watermarks{}, 91, 11},
		{Watermarks{High: 85, Low: 50}, 86, 36},
		{Watermarks{High: 50, Low: 70}, 60, 10}, // low is never above high
		{Watermarks{High: 70, Low: 0}, 71, 1},
		{Watermarks{High: 500, Low: -1}, 100, 0},
	} {
		for _, unit := range []int64{1, 7, math.MaxInt64 / 100} {
			row := &datamovev1.Tier{TotalBytes: 100 * unit, FreeBytes: (100 - c.used) * unit}
			if got := excess(row, c.marks.OrDefault()); got != c.want*unit {
				t.Errorf("%+v with %d %% of %d used: %d are too much, want %d", c.marks, c.used, 100*unit, got, c.want*unit)
			}
		}
	}
}

// TestEvictInAnyOrder: what is chosen does not depend on the order in which the
// ledger tells it, and is never younger than what was left.
func TestEvictInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*datamovev1.Replica
		ages := map[string]time.Time{}
		for i := range rapid.IntRange(0, 12).Draw(t, "replicas") {
			name := string(rune('a' + i))
			use := noon.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "hours")) * time.Hour)
			pair := named(name, bytes(int64(rapid.IntRange(1, 3).Draw(t, "size")*50)))
			pair[0].UseTime = timestamppb.New(use)
			ages[pair[0].Location] = use
			all = append(all, pair...)
		}
		row := filled("scratch", "n1", int64(rapid.IntRange(800, 1000).Draw(t, "used")))
		first := Look(facts(all...)).Evict(row, Watermarks{})
		again := Look(facts(rapid.Permutation(all).Draw(t, "order")...)).Evict(row, Watermarks{})
		if !slices.Equal(first.Replicas, again.Replicas) || first.Short != again.Short {
			t.Fatalf("%v, then %v", first.Replicas, again.Replicas)
		}
		gone := map[string]bool{}
		for _, r := range first.Replicas {
			gone[r.Location] = true
		}
		for _, r := range first.Replicas {
			for name, use := range ages {
				if !gone[name] && use.Before(ages[r.Location]) {
					t.Fatalf("%s went, and %s, which is older, stays", r.Location, name)
				}
			}
		}
		if used := 1000 - row.FreeBytes; used > 900 && first.Short == 0 && used-first.Bytes > 800 {
			t.Fatalf("%d of 1,000 bytes are used, %d go, and nothing is said to be missing", used, first.Bytes)
		}
	})
}
