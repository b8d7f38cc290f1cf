package policy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

// What may be gone by an action is kept for many reasons, whatever the rules say.
//
//safety:5 rules that would remove what is leased, pinned, just seen, on a tier that keeps things or without another copy; expressions that fail; limits of a run
func TestHeld(t *testing.T) {
	old, young := idle("a", 1<<30, 40*day), idle("b", 1<<30, 40*day)
	young.Seen = ago(day/2) / 1e9
	hot := policy.Facts{Ephemeral: true}
	for _, row := range []struct {
		action string
		file   dataset.File
		at     policy.Facts
		held   string // "" is not
	}{
		{"purge", old, hot, ""},
		{"purge", old, policy.Facts{}, "its tier is not ephemeral"},
		{"purge", young, hot, "it was first seen 12h00m ago, and grace is 1d00h"},
		{"purge", old, policy.Facts{Ephemeral: true, Leased: true}, "it is leased"},
		{"purge", old, policy.Facts{Ephemeral: true, Pinned: true}, "it is pinned"},
		{"release", old, policy.Facts{}, "0 verified replicas of it are elsewhere, where 1 are needed"},
		{"release", old, policy.Facts{Replicas: 1}, ""},
		{"{type: release, minReplicas: 2}", old, policy.Facts{Replicas: 1}, "1 verified replicas of it are elsewhere, where 2 are needed"},
		{"evict", old, policy.Facts{Ephemeral: true}, "0 verified replicas of it are elsewhere, where 1 are needed"},
		{"{type: migrate, to: cold}", old, policy.Facts{}, ""}, // the replica is made first
		{"{type: migrate, to: cold}", old, policy.Facts{Leased: true}, "it is leased"},
		{"{type: archive, to: cold}", young, policy.Facts{Leased: true, Pinned: true}, ""},
		{"{type: retain, keepLast: 3}", old, policy.Facts{Pinned: true}, "it is pinned"},
		{"{type: retain, keepLast: 3}", old, policy.Facts{}, "it is in no checkpoint"},
		{"{type: retain, keepLast: 3}", old, policy.Facts{Set: checkpointSet("it is one of the newest")}, "retention keeps its checkpoint: it is one of the newest"},
		{"{type: retain, keepLast: 3}", old, policy.Facts{Set: checkpointSet("")}, ""},
		{"{type: retain, keepLast: 3}", young, policy.Facts{Set: checkpointSet("")}, "it was first seen 12h00m ago, and grace is 1d00h"},
		{"{type: retain, keepLast: 3, in: [project]}", old, policy.Facts{Set: checkpointSet(""), Tier: "nvme"}, "it keeps and lets go in project"},
		{"{type: replicate, to: [cold]}", young, policy.Facts{Set: checkpointSet(""), Checkpoint: "complete", Leased: true}, ""},
		{"{type: replicate, to: [cold]}", old, policy.Facts{Set: checkpointSet(""), Checkpoint: "settling"}, "its checkpoint is not complete"},
		{"{type: replicate, to: [there]}", old, policy.Facts{Set: checkpointSet(""), Checkpoint: "verified"}, "its checkpoint is there already"},
		{"{type: replicate, to: [there, cold]}", old, policy.Facts{Set: checkpointSet(""), Checkpoint: "verified"}, ""},
		{"{type: replicate, to: [nvme@peer]}", old, policy.Facts{}, "only checkpoints are copied to the disk of another node"},
		{"{type: replicate, to: ['nvme@peer:copies']}", old, policy.Facts{Set: checkpointSet(""), Checkpoint: "complete"}, ""},
		{"{type: archive, to: [cold]}", old, policy.Facts{Tracker: true}, "it names the newest checkpoint, and goes after that"},
		{"{type: migrate, to: [cold]}", old, policy.Facts{Set: checkpointSet(""), Checkpoint: "verified"}, "it is a part of a checkpoint, which goes as one: replicate it, and let retain decide"},
		{"{type: purge}", old, policy.Facts{Set: checkpointSet(""), Checkpoint: "verified"}, "it is a part of a checkpoint, which goes as one: let retain decide"},
		{"{type: purge}", old, policy.Facts{Set: checkpointSet(""), Checkpoint: "incomplete"}, "it is a part of a checkpoint, which goes as one: let retain decide"},
		{"{type: purge}", old, policy.Facts{Tracker: true}, "it names the newest checkpoint, and stays as long as that"},
		{"{type: archive, to: [cold], then: release}", old, policy.Facts{Set: checkpointSet(""), Checkpoint: "verified"}, "it is a part of a checkpoint, which goes as one: replicate it, and let retain decide"},
		{"{type: release, hsm: true}", old, policy.Facts{}, ""},
		{"{type: release, hsm: true}", old, policy.Facts{Part: "dataset:x", Replicas: 3}, "it is a part of dataset:x, which goes as one"},
	} {
		p := read(t, "  - {name: it, action: "+row.action+"}\n")
		j := p.Judge(now, people{})
		v := j.Decide(&row.file, &row.at)
		if v.Held != row.held || p.None(v) != (row.held != "") {
			t.Errorf("%s: held %q, want %q", row.action, v.Held, row.held)
		}
		if reason := j.Reason(&row.file, &row.at, v); v.Held != "" && !strings.HasPrefix(reason, "kept: rule it would ") {
			t.Error(reason)
		}
	}
}

// TestGrace: a grace that is given holds, also one of 0.
func TestGrace(t *testing.T) {
	young := idle("b", 1<<30, 40*day)
	young.Seen = ago(day/2) / 1e9
	for grace, held := range map[string]string{
		"": "it was first seen 12h00m ago, and grace is 1d00h", "  safety: {grace: 0s}\n": "", "  safety: {grace: 1h}\n": "", "  safety: {grace: 2d}\n": "it was first seen 12h00m ago, and grace is 2d00h",
	} {
		v := read(t, "  - {name: it, action: purge}\n"+grace).Judge(now, people{}).Decide(&young, &policy.Facts{Ephemeral: true})
		if v.Held != held {
			t.Errorf("%q: held %q, want %q", grace, v.Held, held)
		}
	}
}

// checkpointSet is a checkpoint of which retention says why it stays.
type checkpointSet string

func (checkpointSet) Name() string                  { return "run/step_1" }
func (s checkpointSet) Stays(*policy.Action) string { return string(s) }
func (checkpointSet) There(to string) bool          { return to == "there" }

// A plan has the files that weigh most, within its limits, however many have selected them; nothing is forgotten in the counts.
//
//safety:5 with TestHeld
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		limits := fmt.Sprintf("  limits: {files: %d, bytes: %d, deleteFraction: %d%%, perOwnerFraction: %d%%}\n",
			number("files", 30), number("bytes", 2000), number("fraction", 100), number("owner", 100))
		rules := "  - {name: keep, match: {size: <10}, action: keep}\n  - {name: odd, where: '100 / (size - 13) == 100', action: keep}\n" +
			"  - {name: purge, match: {size: <60}, action: purge}\n  - {name: archive, action: {type: archive, to: cold}}\n  order: {by: size}\n" + limits
		all := must.Get(policy.Read("x.yaml", []byte(text(rules))))(t)
		p := all[0]
		files := make([]dataset.File, number("count", 60))
		for i := range files {
			files[i] = idle(fmt.Sprintf("d%d/f%02d", i%3, i), int64(number("size", 100)), 40*day)
			files[i].UID = uint32(number("uid", 3))
		}
		at := policy.Facts{Ephemeral: true}
		one := p.Judge(now, nil).Select()
		several := []*policy.Selection{p.Judge(now, nil).Select(), p.Judge(now, nil).Select(), p.Judge(now, nil).Select()}
		for i := range files {
			one.Add(0, &files[i], &at)
			several[number("who", 2)].Add(0, &files[i], &at)
		}
		several[0].Merge(several[1])
		several[0].Merge(several[2])
		plan, same := one.Plan(), several[0].Plan()
		if !slices.Equal(plan.Items, same.Items) || plan.Scope != same.Scope || !slices.Equal(plan.Rules, same.Rules) || plan.Fails != same.Fails {
			t.Fatalf("by one %+v\nby three %+v", plan, same)
		}
		check(t, p, plan, files)
	})
}

func check(t *rapid.T, p *policy.Program, plan *policy.Plan, files []dataset.File) {
	l := p.Policy.Spec.Limits
	var matched, left policy.Tally
	for _, r := range plan.Rules {
		matched.Files += r.Files
		matched.Bytes += r.Bytes
	}
	for _, x := range plan.Left {
		left.Files += x.Files
		left.Bytes += x.Bytes
	}
	total, gone := plan.Total(p)
	if int(plan.Scope.Files) != len(files) || total.Files+left.Files != matched.Files || total.Bytes+left.Bytes != matched.Bytes {
		t.Fatalf("%d of %d files; %+v done, %+v left, %+v matched", plan.Scope.Files, len(files), total, left, matched)
	}
	if l.Files > 0 && total.Files > int64(l.Files) || l.Bytes > 0 && total.Bytes > int64(l.Bytes) {
		t.Fatalf("%+v is more than %+v", total, l)
	}
	if l.DeleteFraction > 0 && float64(gone.Files) >= float64(len(files))*float64(l.DeleteFraction)/100+1 {
		t.Fatalf("%d of %d files would be gone, and %v%% may", gone.Files, len(files), l.DeleteFraction)
	}
	mine, of := map[uint32]int{}, map[uint32]int{}
	for _, f := range files {
		of[f.UID]++
	}
	for i, item := range plan.Items {
		if i > 0 && plan.Items[i-1].Size < item.Size {
			t.Fatalf("%+v is before %+v", plan.Items[i-1], item)
		}
		switch {
		case item.Size < 10 || item.Size == 13 || item.Size == 14:
			t.Fatalf("%+v is in the plan", item)
		case item.Size < 60:
			mine[item.UID]++
		}
	}
	for uid, n := range mine {
		if l.PerOwnerFraction > 0 && float64(n) >= float64(of[uid])*float64(l.PerOwnerFraction)/100+1 {
			t.Fatalf("%d of %d files of %d would be gone, and %v%% may", n, of[uid], uid, l.PerOwnerFraction)
		}
	}
}

// A canary does it to about the part of the files that it says, and to the same ones each time.
func TestCanary(t *testing.T) {
	p := read(t, "  - {name: it, action: {type: archive, to: cold}}\n  mode: canary\n  safety: {canary: 5%}\n")
	at := policy.Facts{}
	chosen := func(seed uint64) (names []string) {
		s := p.Judge(now, nil).Select()
		for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(20_000) {
			f := idle(fmt.Sprintf("run/%05d.pt", i), 1, day)
			s.Add(0, &f, &at)
		}
		plan := s.Plan()
		if len(plan.Left) != 1 || int(plan.Left[0].Files)+len(plan.Items) != 20_000 {
			t.Errorf("%+v", plan.Left)
		}
		for i := range plan.Items {
			names = append(names, plan.Items[i].Name())
		}
		return names
	}
	first := chosen(1)
	if n := len(first); n < 800 || n > 1200 {
		t.Errorf("%d of 20,000 files are 5%%", n)
	}
	if !slices.Equal(first, chosen(2)) {
		t.Error("others were chosen the second time")
	}
}

// TestReads: what asks when files were read lets nothing go where reads leave no trace, counts a day of relatime as time in which a file may have been read,
// and of a file whose times are not known says nothing.
//
//safety:5 a rule by idle time on file systems that are mounted noatime and relatime; files without a known atime
func TestReads(t *testing.T) {
	const unseen = "its file system does not record when it is read (noatime): match by modified, or mount it with relatime"
	old, yesterday, unknown := idle("a", 1, 40*day), idle("b", 1, 40*day), idle("c", 1, 40*day)
	yesterday.Atime, yesterday.Known = ago(day/2), yesterday.Known|mover.FactAtime
	unknown.Known &^= mover.FactAtime
	for _, row := range []struct {
		match   string
		file    dataset.File
		reads   mover.Reads
		byReads bool
		rule    int // -1 is none
		held    string
		failing bool
	}{
		{"match: {idle: '>30d'}", old, mover.ReadsSeen, true, 0, "", false},
		{"match: {idle: '>30d'}", old, mover.ReadsUnseen, true, 0, unseen, false},
		{"match: {accessed: '>30d'}", old, mover.ReadsUnseen, true, 0, unseen, false},
		{"match: {not: {idle: '<30d'}}", old, mover.ReadsUnseen, true, 0, unseen, false},
		{"match: {class: [stale]}", old, mover.ReadsUnseen, true, 0, unseen, false},
		{"where: idle_days > 30.0", old, mover.ReadsUnseen, true, 0, unseen, false},
		{"where: now - atime > duration('720h')", old, mover.ReadsUnseen, true, 0, unseen, false},
		{"match: {modified: '>30d'}", old, mover.ReadsUnseen, false, 0, "", false},
		{"match: {modified: '>30d'}", yesterday, mover.ReadsUnseen, false, 0, "", false},
		{"match: {idle: '>30d'}", old, mover.ReadsUnknown, true, 0, "", false},
		{"match: {accessed: '>6h'}", yesterday, mover.ReadsSeen, true, 0, "", false},
		{"match: {accessed: '>6h'}", yesterday, mover.ReadsDaily, true, -1, "", false},
		{"match: {idle: '>6h'}", yesterday, mover.ReadsDaily, true, -1, "", false},
		{"where: now - atime > duration('6h')", yesterday, mover.ReadsDaily, true, -1, "", false},
		{"match: {accessed: '>30d'}", unknown, mover.ReadsSeen, true, -1, "", false},
		{"where: now - atime > duration('720h')", unknown, mover.ReadsSeen, true, 0, "", true},
	} {
		p := readClasses(t, row.match)
		at := policy.Facts{Ephemeral: true, Reads: row.reads}
		v := p.Judge(now, nil).Decide(&row.file, &at)
		if p.ByReads(0) != row.byReads || v.Rule != row.rule || v.Held != row.held || (v.Err != nil) != row.failing {
			t.Errorf("%s of %s, reads %d: %+v, by reads %v", row.match, row.file.Base, row.reads, v, p.ByReads(0))
		}
	}
}

// TestNotes: what one of two selections has noted is in the plan of both, once.
func TestNotes(t *testing.T) {
	file := idle("a", 1, 40*day)
	for _, row := range []struct {
		match string
		reads [2]mover.Reads
		want  int
	}{
		{"match: {idle: '>30d'}", [2]mover.Reads{mover.ReadsSeen, mover.ReadsSeen}, 0},
		{"match: {idle: '>30d'}", [2]mover.Reads{mover.ReadsDaily, mover.ReadsSeen}, 1},
		{"match: {idle: '>30d'}", [2]mover.Reads{mover.ReadsSeen, mover.ReadsDaily}, 1},
		{"match: {idle: '>30d'}", [2]mover.Reads{mover.ReadsDaily, mover.ReadsDaily}, 1},
		{"match: {modified: '>30d'}", [2]mover.Reads{mover.ReadsDaily, mover.ReadsDaily}, 0},
	} {
		var both [2]*policy.Selection
		for i := range both {
			both[i] = readClasses(t, row.match).Judge(now, nil).Select()
			both[i].Add(0, &file, &policy.Facts{Ephemeral: true, Reads: row.reads[i]})
		}
		both[0].Merge(both[1])
		if notes := both[0].Plan().Notes; len(notes) != row.want {
			t.Errorf("%s, reads %v: %q", row.match, row.reads, notes)
		}
	}
}

func readClasses(t *testing.T, match string) *policy.Program {
	t.Helper()
	all := must.Get(policy.Read("p", []byte("kind: TierPolicy\nmetadata: {name: p}\nspec:\n  scope: {roots: ['scratch:']}\n"+
		"  classes:\n    - {name: stale, match: {idle: '>30d'}}\n  rules:\n    - name: r\n      action: purge\n      "+match+"\n")))(t)
	return all[0]
}

// deaf has names for account 0 alone, and answers no more question after that of another one.
type deaf struct{ asked int }

func (d *deaf) User(uid uint32) (string, error) {
	d.asked++
	if uid == 0 {
		return "root", nil
	}
	return "", mover.ErrTimeout
}

func (d *deaf) Group(uint32) (string, error) { return d.User(1) }

// TestNamesThatCanNotBeTold: while the directory service of the machine does not answer, no rule decides by the name of an account, in whatever way it asks for it: the file stays, and the plan says why. What
// needs no name goes on, and one question is not asked again for each file.
//
//safety:5 the directory service of the coordinator does not answer, and rules are about names of owners and groups: none of their files goes
func TestNamesThatCanNotBeTold(t *testing.T) {
	ours, roots := idle("a", 1, 40*day), idle("b", 1, 40*day)
	roots.UID = 0
	for _, row := range []struct {
		match string
		file  dataset.File
		rule  int // -1 is none
		fails bool
	}{
		{"where: owner != 'anna'", ours, 0, true},
		{"where: owner == 'anna'", ours, 0, true},
		{"where: '!(owner in exempt)'", ours, 0, true},
		{"where: group != 'users'", ours, 0, true},
		{"match: {not: {class: [annas]}}", ours, 0, true},
		{"where: '!(\"annas\" in class)'", ours, 0, true},
		{"where: owner != 'anna'", roots, 0, false},
		{"where: size > 0 || owner != 'anna'", ours, 0, false},
		{"where: uid != 1001", roots, 0, false},
		{"match: {idle: '>30d'}", ours, 0, false},
	} {
		all := must.Get(policy.Read("p", []byte("kind: TierPolicy\nmetadata: {name: p}\nspec:\n  scope: {roots: ['scratch:']}\n  vars: {exempt: [bob, anna]}\n"+
			"  classes:\n    - {name: annas, where: 'owner == \"anna\"'}\n  rules:\n    - name: r\n      action: purge\n      "+row.match+"\n")))(t)
		d := &deaf{}
		j, at := all[0].Judge(now, d), policy.Facts{Ephemeral: true}
		for range 3 {
			if v := j.Decide(&row.file, &at); v.Rule != row.rule || (v.Err != nil) != row.fails || row.fails && !errors.Is(v.Err, mover.ErrTimeout) {
				t.Errorf("%s, file of %d: %+v", row.match, row.file.UID, v)
			}
		}
		if d.asked > 1 {
			t.Errorf("%s: %d questions", row.match, d.asked)
		}
	}
}
