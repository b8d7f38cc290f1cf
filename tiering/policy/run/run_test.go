package run_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy/run"
)

func write(t testing.TB, name string, items []*pb.PlanItem) *pb.Plan {
	t.Helper()
	w := must.Get(run.Create(name))(t)
	for _, item := range items {
		must.Do(t, w.Add(item))
	}
	head := &pb.Plan{Id: "a", Policy: "cold"}
	must.Do(t, w.Close(head))
	return head
}

// What a plan lists is read as it was written; what was cut or changed is refused, and what has no end leaves nothing behind.
func TestPlanFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "plan")
	var items []*pb.PlanItem
	for i := range 3000 {
		items = append(items, &pb.PlanItem{Tier: "project", Name: []byte(fmt.Sprintf("d/\xff\n%d", i)), Bytes: int64(i)})
	}
	head := write(t, name, items)
	must.Do(t, run.Verify(name))
	f := must.Get(run.Open(name))(t)
	n := 0
	for item, err := range f.Items() {
		must.Do(t, err)
		if !proto.Equal(item, items[n]) {
			t.Fatalf("%v", item)
		}
		n++
	}
	must.Do(t, f.Close())
	if n != len(items) || !proto.Equal(f.Plan, head) || len(head.GetDigest()) != 64 {
		t.Errorf("%d items, %v", n, f.Plan)
	}
	if other := write(t, filepath.Join(dir, "other"), items[1:]); other.GetDigest() == head.GetDigest() {
		t.Error("another plan has the same digest")
	}

	w := must.Get(run.Create(filepath.Join(dir, "dropped")))(t)
	must.Do(t, w.Add(items[0]))
	must.Do(t, w.Close(nil))
	if left, _ := filepath.Glob(filepath.Join(dir, "dropped*")); len(left) > 0 {
		t.Errorf("%q", left)
	}
	if _, err := run.Open(filepath.Join(dir, "dropped")); !errors.Is(err, mover.ErrNotExist) {
		t.Error(err)
	}

	whole := must.Get(os.ReadFile(name))(t)
	for _, cut := range []int{0, 10, 31, len(whole) / 2, len(whole) - 1} {
		must.Do(t, os.WriteFile(name, whole[:cut], 0o600))
		if err := run.Verify(name); err == nil {
			t.Errorf("a plan of %d bytes of %d is taken", cut, len(whole))
		}
	}
	for at := 0; at < len(whole); at += len(whole)/50 + 1 {
		other := append([]byte{}, whole...)
		other[at] ^= 4
		must.Do(t, os.WriteFile(name, other, 0o600))
		if err := run.Verify(name); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("another byte at %d: %v", at, err)
		}
	}
}

// A run stops when too much fails, and at the end of its window.
func TestOver(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, row := range []struct {
		what string
		r    *pb.Run
		over string
	}{
		{"nothing yet", &pb.Run{}, ""},
		{"few failed", &pb.Run{Failed: 9, Done: &pb.RunTotals{}}, ""},
		{"too many failed", &pb.Run{Failed: 10, Done: &pb.RunTotals{Files: 100}}, "10 of 110 files failed, and the policy lets 5 % (limits.errorPct)"},
		{"not too many", &pb.Run{Failed: 10, Done: &pb.RunTotals{Files: 190}}, ""},
		{"before the end", &pb.Run{BeginUntil: timestamppb.New(now)}, ""},
		{"the end", &pb.Run{BeginUntil: timestamppb.New(now.Add(-time.Second))}, "its window has ended"},
	} {
		if got := run.Over(row.r, 5, now); got != row.over {
			t.Errorf("%s: %q", row.what, got)
		}
	}
}

// A part is of one rule, one tree and one target, and not too large.
func TestPart(t *testing.T) {
	item := func(rule int32, tier, target string, bytes int64) *pb.PlanItem {
		return &pb.PlanItem{RuleIndex: rule, Tier: tier, Target: target, Bytes: bytes}
	}
	for _, row := range []struct {
		what  string
		items []*pb.PlanItem
		takes int64
	}{
		{"another rule", []*pb.PlanItem{item(0, "a", "", 1), item(0, "a", "", 1), item(1, "a", "", 1)}, 2},
		{"another tier", []*pb.PlanItem{item(0, "a", "", 1), item(0, "b", "", 1)}, 1},
		{"another target", []*pb.PlanItem{item(0, "a", "x", 1), item(0, "a", "y", 1)}, 1},
		{"one that is too large alone", []*pb.PlanItem{item(0, "a", "", run.PartBytes+1), item(0, "a", "", 1)}, 1},
	} {
		var p run.Part
		for _, item := range row.items {
			if !p.Takes(item) {
				break
			}
		}
		if p.Count() != row.takes {
			t.Errorf("%s: takes %d", row.what, p.Count())
		}
	}
	var p run.Part
	for p.Takes(item(0, "a", "", 1)) {
	}
	if p.Count() != run.PartItems {
		t.Errorf("takes %d", p.Count())
	}
}

// Every life of a run ends, and only in a state that is one.
func TestStates(t *testing.T) {
	all := []pb.RunState{run.Running, run.Done, run.Stopped, run.Undoing, run.Undone}
	for _, s := range all {
		if run.Active(s) != (s == run.Running || s == run.Undoing) {
			t.Errorf("%v", s)
		}
		if run.Active(s) && !run.May(s, run.Stopped) {
			t.Errorf("%v can not be stopped", s)
		}
		if run.May(run.Undone, s) {
			t.Errorf("after it is undone it is %v", s)
		}
	}
}

// An entry is the item only when everything that is known of both is the same, and something tells it from another one of its name.
//
//safety:5 with TestDecisions
func TestSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		number := func(what string) int64 { return rapid.Int64Range(1, 3).Draw(rt, what) }
		draw := func(who string) mover.Entry {
			e := mover.Entry{Name: "f", Kind: rapid.SampledFrom([]mover.Kind{mover.File, mover.Symlink, mover.Dir}).Draw(rt, who+" kind"), Size: number(who + " size"),
				Mtime: mover.Time{Sec: number(who + " mtime")}, Ctime: mover.Time{Sec: number(who + " ctime")}, Known: rapid.SampledFrom([]mover.Facts{0, mover.FactMtime, mover.FactCtime, mover.FactMtime | mover.FactCtime | mover.FactAtime}).Draw(rt, who+" known")}
			e.Atime.Sec = number(who + " atime")
			e.Ino = uint64(rapid.Int64Range(0, 2).Draw(rt, who+" inode"))
			e.ETag = rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, who+" etag")
			return e
		}
		was, is := draw("was"), draw("is")
		f := dataset.FileOf(&was, 0)
		item := &pb.PlanItem{Kind: f.Kind.String(), Bytes: f.Size, Inode: f.Ino, MtimeNs: f.Mtime, CtimeNs: f.Ctime, Etag: f.ETag, Known: uint64(f.Known)}
		if was.Known.Has(mover.FactAtime) && rapid.Bool().Draw(rt, "by reads") {
			item.AtimeNs = f.Atime
		}
		both := func(f mover.Facts) bool { return was.Known.Has(f) && is.Known.Has(f) }
		proof := was.Ino != 0 && is.Ino != 0 || both(mover.FactCtime) || was.ETag != "" && is.ETag != ""
		want := was.Kind == is.Kind && is.Kind != mover.Dir && was.Size == is.Size && (was.Ino == 0 || is.Ino == 0 || was.Ino == is.Ino) &&
			(!both(mover.FactMtime) || was.Mtime == is.Mtime) && (!both(mover.FactCtime) || was.Ctime == is.Ctime) && (was.ETag == "" || is.ETag == "" || was.ETag == is.ETag) && proof &&
			(item.GetAtimeNs() == 0 || !is.Known.Has(mover.FactAtime) || is.Atime.Sec <= was.Atime.Sec)
		err := run.Same(item, &is)
		if (err == nil) != want || err != nil && !errors.Is(err, mover.ErrChanged) {
			rt.Fatalf("%+v and %+v: %v", was, is, err)
		}
		if err != nil && !strings.Contains(err.Error(), "than in the plan") && !strings.Contains(err.Error(), "nothing tells") && !strings.Contains(err.Error(), "it was read since") {
			rt.Fatal(err)
		}
	})
}

// TestReadSince: what a rule that asks for reads has chosen stays when it was read since the plan, and only then.
func TestReadSince(t *testing.T) {
	at := func(atime int64) mover.Entry {
		return mover.Entry{Name: "f", Kind: mover.File, Size: 1, Ino: 1, Atime: mover.Time{Sec: atime}, Known: mover.FactMtime | mover.FactCtime | mover.FactAtime}
	}
	for _, row := range []struct {
		what       string
		plan, then int64 // when it was read; 0 is that the rule does not ask
		known      bool
		refused    bool
	}{
		{"not read", 5, 5, true, false},
		{"read", 5, 6, true, true},
		{"set back", 5, 4, true, false},
		{"read, and nothing asked", 0, 6, true, false},
		{"read, where that is not known", 5, 6, false, false},
	} {
		was, is := at(row.plan), at(row.then)
		f := dataset.FileOf(&was, 0)
		item := &pb.PlanItem{Kind: f.Kind.String(), Bytes: f.Size, Inode: f.Ino, MtimeNs: f.Mtime, CtimeNs: f.Ctime, Known: uint64(f.Known), AtimeNs: row.plan * 1e9}
		if !row.known {
			is.Known &^= mover.FactAtime
		}
		if err := run.Same(item, &is); errors.Is(err, mover.ErrChanged) != row.refused || !row.refused && err != nil {
			t.Errorf("%s: %v", row.what, err)
		}
	}
}
