package lustre

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "datamove.dev/test/seed/property" // of rapid
)

// site is n OSTs and m MDTs of a Lustre 2.15, a third full.
func site(n, m int) Cluster {
	c := Cluster{Name: "lab", Can: Capabilities{Progressive: true, OnMDT: true, Overstripes: true}}
	for i := range n {
		c.OSTs = append(c.OSTs, Target{Kind: OST, Index: i, Name: fmt.Sprintf("lab-OST%04x_UUID", i), TotalBytes: 300 * tib, FreeBytes: 200 * tib})
	}
	for i := range m {
		c.MDTs = append(c.MDTs, Target{Kind: MDT, Index: i, TotalBytes: 6 * tib, FreeBytes: 5 * tib, TotalFiles: 4e9, FreeFiles: 3e9})
	}
	return c
}

// say is an advice in a line.
func say(a Advice) string {
	args, _ := a.Layout.Setstripe()
	line := strings.Join(args[2:], " ")
	if dir, ok := a.Striping.Mkdir(); ok {
		line += "; mkdir " + strings.Join(dir[2:], " ")
	}
	return line + "; parts of " + sizeText(a.PartBytes)
}

// TestAdvise is the table of what depends on the cluster; typical requests are in the
// documentation of Advise.
func TestAdvise(t *testing.T) {
	full := func(c Cluster, osts ...int) Cluster {
		for _, i := range osts {
			c.OSTs[i].FreeBytes = c.OSTs[i].TotalBytes / 20
		}
		return c
	}
	state := func(c Cluster, s TargetState, osts ...int) Cluster {
		for _, i := range osts {
			c.OSTs[i].State |= s
		}
		return c
	}
	pools := func(c Cluster, p map[string][]int) Cluster { c.Pools = p; return c }
	mixed := pools(state(site(8, 1), NonRotational, 0, 1), map[string][]int{"fast": {0, 1}, "slow": {2, 3, 4, 5, 6, 7}, "all": {0, 1, 2, 3, 4, 5, 6, 7}})
	big := Request{Bytes: 100 * gib}
	old := site(64, 1)
	old.Can = Capabilities{}
	for _, c := range []struct {
		name    string
		r       Request
		c       Cluster
		want    string
		doubted string // what of it
	}{
		{"one OST", big, site(1, 1), "-c 1 -S 4M; parts of 64 MiB", ""},
		{"as many as there are", big, site(3, 1), "-c 3 -S 4M; parts of 72 MiB", ""},
		{"no stripe on what is over 90 % full", big, full(site(4, 1), 1, 2), "-c 2 -S 4M; parts of 64 MiB", "targets"},
		{"no stripe on what is degraded", big, state(site(4, 1), Degraded, 3), "-c 3 -S 4M; parts of 72 MiB", "targets"},
		{"nor on what makes no objects", big, state(site(4, 1), NoCreate, 0, 1, 2), "-c 1 -S 4M; parts of 64 MiB", "targets"},
		{"all are full: what still takes objects", big, full(site(2, 1), 0, 1), "-c 2 -S 4M; parts of 64 MiB", "targets"},
		{"nothing takes objects", big, state(site(2, 1), ReadOnlyState, 0, 1), "-c 1 -S 4M; parts of 64 MiB", "targets"},
		{"nothing is known", big, Cluster{}, "-c 4 -S 4M; parts of 64 MiB", "targets"},
		{"nothing is known, and it takes more stripes to fit", Request{Bytes: 100 * tib}, Cluster{}, "-c 7 -S 4M; parts of 4.9 GiB", "part size"},
		{"nothing at all is known", Request{}, Cluster{}, "-c 1 -S 4M; parts of 64 MiB", "targets"},
		{"a file that fills OSTs is spread", Request{Bytes: 3000 * tib}, site(64, 1), "-c 64 -S 4M; parts of 5 GiB", "part size"},
		{"an object ends at 16 TiB", Request{Bytes: 160 * tib}, site(64, 1), "-c 10 -S 4M; parts of 5 GiB", "part size"},
		{"a file for which there is no room", Request{Bytes: 3000 * tib}, site(2, 1), "-c 2 -S 4M; parts of 5 GiB", "room"},
		{"more stripes than an attribute holds", Request{Bytes: 3000 * tib}, site(400, 1), "-c 160 -S 4M; parts of 5 GiB", "room"},

		{"the pool that was asked for", Request{Bytes: 100 * gib, Pool: "fast"}, mixed, "-c 2 -S 4M -p fast; parts of 64 MiB", ""},
		{"a pool that is not there", Request{Bytes: 100 * gib, Pool: "fats"}, mixed, "-c 8 -S 4M; parts of 64 MiB", "pool"},
		{"a pool with a word of Lustre's", Request{Bytes: 100 * gib, Pool: "inherit"}, mixed, "-c 8 -S 4M; parts of 64 MiB", "pool"},
		{"a pool of flash", Request{Bytes: 100 * gib, Media: Flash}, mixed, "-c 2 -S 4M -p fast; parts of 64 MiB", ""},
		{"a pool of something else", Request{Bytes: 100 * gib, Pool: "fast", Media: Disk}, mixed, "-c 2 -S 4M -p fast; parts of 64 MiB", "pool"},
		{"flash, nothing is known", Request{Bytes: 100 * gib, Media: Flash}, Cluster{}, "-c 4 -S 4M; parts of 64 MiB", "pool"},
		{"stripes are of one kind", big, mixed, "-c 6 -S 4M -p slow; parts of 72 MiB", ""},
		{"no pool keeps kinds apart", big, state(site(8, 1), NonRotational, 0), "-c 8 -S 4M; parts of 64 MiB", "pool"},
		{"flash where all is flash needs no pool", Request{Bytes: 100 * gib, Media: Flash}, state(site(2, 1), NonRotational, 0, 1), "-c 2 -S 4M; parts of 64 MiB", ""},
		{"flash where there is none", Request{Bytes: 100 * gib, Media: Flash}, site(2, 1), "-c 2 -S 4M; parts of 64 MiB", "pool"},

		{"progressive counts are multiples", Request{}, site(7, 1), "-E 64M -c 1 -S 4M -E -1 -c 4 -S 4M; parts of 64 MiB", ""},
		{"and plain with one target", Request{}, site(1, 1), "-c 1 -S 4M; parts of 64 MiB", ""},
		{"an old Lustre, unknown size", Request{}, old, "-c 1 -S 4M; parts of 64 MiB", ""},
		{"an old Lustre, dataset", Request{Use: Dataset}, old, "-c 4 -S 4M; parts of 64 MiB", ""},
		{"an old Lustre, small files", Request{Use: SmallFiles}, old, "-c 1 -S 4M; parts of 64 MiB", ""},
		{"an old Lustre does not overstripe", Request{Use: SharedFile, Bytes: 500 * gib, Writers: 2048}, old, "-c 64 -S 4M; parts of 256 MiB", ""},
		{"ranks share the OSTs", Request{Use: Checkpoint, Bytes: 40 * gib, Writers: 64}, site(64, 1), "-c 2 -S 4M; parts of 64 MiB", ""},
		{"a few writers do not need all OSTs", Request{Use: SharedFile, Bytes: 500 * gib, Writers: 4}, site(64, 1), "-c 16 -S 4M; parts of 64 MiB", ""},
		{"stripes are as large as writes", Request{Use: SharedFile, Bytes: 500 * gib, IOBytes: 5e6, Writers: 4}, site(64, 1), "-c 16 -S 4928K; parts of 77 MiB", ""},
		{"of a file that grows, a power of two", Request{Use: SharedFile, IOBytes: 5e6}, site(64, 1), "-E 10G -c 8 -S 8M -E 100G -c 24 -S 8M -E -1 -c 48 -S 8M; parts of 384 MiB", ""},
		{"a small file that many write", Request{Use: SharedFile, Bytes: 300 * mib}, site(64, 1), "-c 3 -S 4M; parts of 72 MiB", ""},
		{"up to 16 MiB", Request{Use: SharedFile, Bytes: 500 * gib, IOBytes: EOF, Writers: 4}, site(64, 1), "-c 16 -S 16M; parts of 256 MiB", ""},
		{"small files that are not", Request{Use: SmallFiles, Bytes: 2 * mib}, site(64, 1), "-c 1 -S 4M; parts of 64 MiB", ""},
		{"too many for the MDTs", Request{Use: SmallFiles, Files: 100e6}, site(64, 1), "-c 1 -S 4M; parts of 64 MiB", ""},
		{"a directory of many files", Request{Bytes: gib, Files: 120_000}, site(64, 8), "-c 1 -S 4M; mkdir -c 3; parts of 64 MiB", ""},
		{"a use that is none", Request{Use: "backup"}, site(1, 1), "-c 1 -S 4M; parts of 64 MiB", "use"},
		{"numbers that mean nothing", Request{Bytes: -1, Writers: -5, Files: -1, IOBytes: -1}, site(1, 1), "-c 1 -S 4M; parts of 64 MiB", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Advise(c.r, c.c)
			if s := say(got); s != c.want {
				t.Errorf("%s\nwant %s\n%v", s, c.want, got.Reasons)
			}
			i := slices.IndexFunc(got.Reasons, func(r Reason) bool { return r.Doubt })
			if (i >= 0) != (c.doubted != "") || i >= 0 && !slices.ContainsFunc(got.Reasons, func(r Reason) bool { return r.Doubt && r.What == c.doubted }) {
				t.Errorf("doubts %q in %+v", c.doubted, got.Reasons)
			}
		})
	}
}

// TestAdviseHolds states what advice always is.
func TestAdviseHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, c := drawRequest(t), drawCluster(t)
		got := Advise(r, c)
		if err := got.Layout.Validate(); err != nil {
			t.Fatalf("%v: %+v", err, got.Layout)
		}
		if !reflect.DeepEqual(got, Advise(r, c)) {
			t.Fatal("not the same twice")
		}
		holdStripes(t, r, c, got)
		holdParts(t, r, got)
		holdReasons(t, r, got)
		var back Advice
		if text, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		} else if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(got, back) {
			t.Fatalf("%v: %s\nis %+v\nwas %+v", err, text, back, got)
		}
	})
}

// holdStripes: no more stripes than targets with room, unless overstriped; no target is
// pinned; a pool has targets.
func holdStripes(t *rapid.T, r Request, c Cluster, got Advice) {
	last := &got.Layout.Components[len(got.Layout.Components)-1]
	if last.End != EOF || got.Striping.Count > len(c.MDTs) {
		t.Fatalf("%+v", got)
	}
	if last.Pool != "" && len(c.OSTs) > 0 && len(c.in(last.Pool)) == 0 {
		t.Fatalf("pool %q of %v", last.Pool, c.Pools)
	}
	room, open := 0, 0
	for _, target := range c.in(last.Pool) {
		if roomy(&target) {
			room++
		}
		if willing(&target) {
			open++
		}
	}
	if room == 0 {
		room = max(open, 1)
	}
	if len(c.OSTs) == 0 {
		room = max(blindStripes, int(min(ceilDiv(r.Bytes, objectBytes), mostStripes)))
	}
	total := 0
	for i := range got.Layout.Components {
		one := &got.Layout.Components[i]
		total += one.StripeCount
		most := room
		if one.Pattern == Overstriped {
			most = min(perTarget*room, r.Writers)
			if !c.Can.Overstripes || r.Use != SharedFile || i < len(got.Layout.Components)-1 {
				t.Fatalf("overstriped: %+v", got.Layout)
			}
		}
		if one.StripeCount > most || one.Pattern != OnMDT && one.StripeCount < 1 {
			t.Fatalf("%d stripes on %d OSTs with room: %+v", one.StripeCount, room, got.Layout)
		}
		if one.FirstTarget != AnyTarget || len(one.Objects) > 0 || one.Pool != last.Pool && one.Pattern != OnMDT {
			t.Fatalf("component %d: %+v", i+1, one)
		}
		if one.Pattern == OnMDT && !c.Can.OnMDT || len(got.Layout.Components) > 1 && !c.Can.Progressive {
			t.Fatalf("this Lustre can not: %+v", got.Layout)
		}
	}
	if total > mostStripes {
		t.Fatalf("%d stripes in all", total)
	}
}

// holdParts: a part is a multiple of every width, within bounds; there are not too many
// of them, or somebody is told.
func holdParts(t *rapid.T, r Request, got Advice) {
	told := slices.ContainsFunc(got.Reasons, func(why Reason) bool { return why.What == "part size" && why.Doubt })
	if n := ceilDiv(r.Bytes, got.PartBytes); n > mostParts != told {
		t.Fatalf("%d parts of %s; told: %v", n, sizeText(got.PartBytes), told)
	}
	if got.PartBytes < minPartBytes || got.PartBytes > mostPartBytes {
		t.Fatalf("parts of %s", sizeText(got.PartBytes))
	}
	for i := range got.Layout.Components {
		if w := got.Layout.Width(got.Layout.Components[i].Start); w > 0 && got.PartBytes%w != 0 {
			t.Fatalf("parts of %s over a width of %s", sizeText(got.PartBytes), sizeText(w))
		}
	}
}

// holdReasons: each number has one reason, which names it and says why and who says so, and
// what it claims is so.
func holdReasons(t *rapid.T, r Request, got Advice) {
	last := &got.Layout.Components[len(got.Layout.Components)-1]
	want := map[string]string{"stripe size": sizeText(last.StripeBytes), "part size": sizeText(got.PartBytes)}
	if head := &got.Layout.Components[0]; last.Pattern == Overstriped {
		want["overstriping"] = fmt.Sprint(last.StripeCount)
	} else if head.Pattern == OnMDT {
		want["Data-on-MDT"], want["stripe count"] = sizeText(head.End), "1"
	} else {
		want["stripe count"] = got.Layout.countsText()
	}
	if last.Pool != "" {
		want["pool"] = last.Pool
	}
	if got.Striping.Count > 0 {
		want["directory"] = fmt.Sprintf("%d MDTs", got.Striping.Count)
	}
	if len(got.Layout.Components) > 1 || last.StripeCount > 1 {
		want["first OST"] = "any"
	}
	seen := map[string]bool{}
	for _, why := range got.Reasons {
		if why.What == "" || why.Value == "" || why.Why == "" || why.Source == "" || seen[why.What] {
			t.Fatalf("a reason without a reason, or a second one: %+v in %+v", why, got.Reasons)
		}
		if seen[why.What] = true; want[why.What] != "" && want[why.What] != why.Value {
			t.Fatalf("%s: %q is said to be %q", why.What, want[why.What], why.Value)
		}
		delete(want, why.What)
		if strings.HasPrefix(why.Why, "so that no object") && ceilDiv(r.Bytes, int64(last.StripeCount)) > objectBytes {
			t.Fatalf("objects of %d bytes on %d stripes: %s", r.Bytes, last.StripeCount, why.Why)
		}
	}
	if len(want) > 0 {
		t.Fatalf("without a reason: %v in %+v", want, got.Reasons)
	}
}

// TestAdviseGrows: a larger file has no fewer stripes, smaller ones or smaller parts; more
// OSTs give no fewer stripes; more ranks give no more stripes to each.
func TestAdviseGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, n := drawRequest(t), rapid.IntRange(1, 200).Draw(t, "osts")
		r.Bytes, r.Pool, r.Media = max(r.Bytes, 1), "", AnyMedia
		count := func(r Request, n int) (int, int64) {
			c := Advise(r, site(n, 2)).Layout.Components
			return c[len(c)-1].StripeCount, c[len(c)-1].StripeBytes
		}
		stripes, size := count(r, n)
		if r.Use != SmallFiles { // which are no small files when they are large
			larger := r
			larger.Bytes = saturated(larger.Bytes, rapid.Int64Range(0, 1000*tib).Draw(t, "more bytes"))
			if s, b := count(larger, n); s < stripes || b < size {
				t.Fatalf("%d × %d for %d bytes, %d × %d for %d", stripes, size, r.Bytes, s, b, larger.Bytes)
			}
		}
		if r.Use != SharedFile { // where more OSTs may take the place of more stripes on each
			if s, _ := count(r, n+rapid.IntRange(0, 50).Draw(t, "more osts")); s < stripes {
				t.Fatalf("%d on %d OSTs, %d on more", stripes, n, s)
			}
		}
		if r.Use == Checkpoint && r.Writers > 1 {
			more := r
			more.Writers += rapid.IntRange(0, 1000).Draw(t, "more ranks")
			if s, _ := count(more, n); s > stripes {
				t.Fatalf("%d for %d ranks, %d for %d", stripes, r.Writers, s, more.Writers)
			}
		}
	})
}

func drawRequest(t *rapid.T) Request {
	size := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, tinyBytes), rapid.Int64Range(0, 200*gib), rapid.Int64Range(10*tib, 5000*tib), rapid.Int64())
	return Request{
		Bytes: size.Draw(t, "bytes"), Use: rapid.SampledFrom(append([]Use{""}, Uses...)).Draw(t, "use"),
		Writers: rapid.OneOf(rapid.IntRange(0, 8), rapid.IntRange(0, 5000)).Draw(t, "writers"),
		IOBytes: rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(mib, 16*mib), rapid.Int64()).Draw(t, "io"),
		Files:   rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 10*perShard), rapid.Int64()).Draw(t, "files"),
		Pool:    rapid.SampledFrom([]string{"", "", "flash", "disk", "mix", "gone", "none", "not a pool"}).Draw(t, "pool"),
		Media:   rapid.SampledFrom([]Media{AnyMedia, Flash, Disk}).Draw(t, "media"),
	}
}

func drawCluster(t *rapid.T) Cluster {
	if rapid.IntRange(0, 9).Draw(t, "known") == 0 {
		return Cluster{}
	}
	target := rapid.Custom(func(t *rapid.T) Target {
		one := Target{State: TargetState(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 4, 0x20, 0x40, 0x200, 0x200, 0x201}).Draw(t, "state"))}
		one.TotalBytes = rapid.SampledFrom([]int64{0, gib, 100 * tib, EOF}).Draw(t, "total")
		one.FreeBytes = rapid.Int64Range(-1, max(one.TotalBytes, 1)).Draw(t, "free")
		one.TotalFiles = rapid.SampledFrom([]int64{0, 1e6, 4e9}).Draw(t, "inodes")
		one.FreeFiles = rapid.Int64Range(0, max(one.TotalFiles, 1)).Draw(t, "free inodes")
		one.Inactive = rapid.SampledFrom([]string{"", "", "", "", "inactive"}).Draw(t, "inactive")
		return one
	})
	c := Cluster{
		OSTs: rapid.SliceOfN(target, 0, 200).Draw(t, "osts"), MDTs: rapid.SliceOfN(target, 0, 6).Draw(t, "mdts"),
		Pools: map[string][]int{},
		Can: Capabilities{Progressive: rapid.Bool().Draw(t, "progressive"), OnMDT: rapid.Bool().Draw(t, "on mdt"),
			Overstripes: rapid.Bool().Draw(t, "overstripes")},
	}
	for i := range c.OSTs {
		c.OSTs[i].Index = i
		name := "disk"
		if c.OSTs[i].State&NonRotational != 0 {
			name = "flash"
		}
		c.Pools[name] = append(c.Pools[name], i)
		if i%3 == 0 {
			c.Pools["mix"] = append(c.Pools["mix"], i, i+1000) // and one that is not there
		}
	}
	if pool := rapid.SampledFrom([]string{"", "disk", "inherit"}).Draw(t, "default"); pool != "" {
		c.Default = Layout{Components: []Component{{End: EOF, Pattern: RAID0, StripeCount: 1, Pool: pool}}}
	}
	return c
}
