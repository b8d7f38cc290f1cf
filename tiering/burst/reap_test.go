package burst

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// noon is now in these tests. The burst is idle after 4 hours, and has a directory of checkpoints, c, and one of results, r.
var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

const reaped = "kind: Burst\nmetadata: {name: x}\nspec:\n  team: a\n  job: {kind: training, gpus: 1}\n  cloud: {tier: c, region: us-east-1}\n  link: {kind: vpn, rate: 1GB}\n  lasts: 1h\n" +
	"  checkpoints: [{path: c, home: /home/c, size: 1GB, every: 1h}]\n  results: [{path: r, home: /home/r}]\n"

// idleOne is a file system that may go, and the record that knows it.
func idleOne() (Observed, *Record) {
	r := &Record{ID: "0123456789abcdef", Declaration: reaped, State: Ready, Ready: noon.Add(-20 * time.Hour), FileSystem: &Made{ID: "fs-1"}}
	for _, path := range []Path{"c", "r"} {
		r.Come(Homecame{Path: path, At: noon.Add(-6 * time.Hour), Verified: true})
	}
	return Observed{ID: "fs-1", Kind: FileSystemSight, State: "AVAILABLE", Tags: map[string]string{TagBurst: r.ID}, Since: noon.Add(-20 * time.Hour),
		Activity: &Activity{From: noon.Add(-10 * time.Hour), Last: noon.Add(-5 * time.Hour), Written: noon.Add(-7 * time.Hour)}}, r
}

// TestReap is the specification of the reaper: each row is an idle file system in which one thing is otherwise.
func TestReap(t *testing.T) {
	hours := func(n float64) time.Time { return noon.Add(-time.Duration(n * float64(time.Hour))) }
	for _, test := range []struct {
		what  string
		but   func(s *Observed, r *Record)
		verb  string // go, stay, or alien: stays, and is not ours
		wants string
	}{
		{"all is home, and nobody did anything for five hours", func(*Observed, *Record) {}, "go", "for 5h00m"},
		{"nothing was seen since it was looked at", func(s *Observed, _ *Record) { s.Activity.Last, s.Activity.Written = time.Time{}, time.Time{} }, "go", "for 10h00m"},
		{"it failed, and costs", func(s *Observed, _ *Record) { s.State = "FAILED" }, "go", ""},
		{"its link is wrong", func(s *Observed, _ *Record) { s.State = "MISCONFIGURED" }, "go", ""},
		{"no job ever ran", func(_ *Observed, r *Record) { r.Ready, r.Home = time.Time{}, nil }, "go", ""},
		{"a directory that never came home was given up", func(_ *Observed, r *Record) { r.Home = r.Home[1:]; r.Abandon("c") }, "go", ""},
		{"what did not come was given up", func(_ *Observed, r *Record) {
			r.Come(Homecame{Path: "c", At: hours(6), Left: []string{Left("step-7", "incomplete")}})
			r.Abandon("c/step-7")
		}, "go", ""},
		{"what did not come has a colon in its name, and was given up", func(_ *Observed, r *Record) {
			r.Come(Homecame{Path: "c", At: hours(6), Left: []string{Left("step:7", "incomplete")}})
			r.Abandon("c/step:7")
		}, "go", ""},
		{"the burst is going, and so is its file system", func(_ *Observed, r *Record) { r.State = Leaving }, "go", ""},

		{"no tag", func(s *Observed, _ *Record) { s.Tags = nil }, "alien", "no tag of ours"},
		{"tags of others", func(s *Observed, _ *Record) { s.Tags = map[string]string{"Name": "x", TagName: "x"} }, "alien", "no tag of ours"},
		{"the tag of a burst that is not known here", func(s *Observed, _ *Record) { s.Tags[TagBurst] = "fedcba9876543210" }, "alien", "no record is here"},
		{"a record that is filed as another one", func(_ *Observed, r *Record) { r.ID = "other" }, "alien", "no record is here"},
		{"a record that can not be read", func(_ *Observed, r *Record) { r.Declaration = "kind: Burst" }, "alien", "the declaration of burst"},
		{"the record has no file system", func(_ *Observed, r *Record) { r.FileSystem = nil }, "alien", "another file system"},
		{"the record has another file system", func(_ *Observed, r *Record) { r.FileSystem.ID = "fs-2" }, "alien", "another file system"},
		{"the record waits for its answer", func(_ *Observed, r *Record) { r.FileSystem.ID = "" }, "alien", "another file system"},

		{"it is being made", func(s *Observed, _ *Record) { s.State = "CREATING" }, "stay", "it is CREATING"},
		{"it goes", func(s *Observed, _ *Record) { s.State = "DELETING" }, "stay", "it is DELETING"},
		{"it changes", func(s *Observed, _ *Record) { s.State = "UPDATING" }, "stay", "it is UPDATING"},
		{"it is in a state that nobody knows", func(s *Observed, _ *Record) { s.State = "" }, "stay", "it is "},
		{"it is of a kind that nobody knows", func(s *Observed, _ *Record) { s.Kind = "bucket" }, "stay", "it is AVAILABLE"},
		{"a lease", func(s *Observed, _ *Record) { s.Leases = []string{"slurm:7", "anna"} }, "stay", "held by slurm:7, anna"},
		{"a task", func(s *Observed, _ *Record) { s.Pending = 1 }, "stay", "1 task of it has not ended"},
		{"it is new", func(s *Observed, _ *Record) { s.Since = hours(3.9) }, "stay", "less than 4h00m"},
		{"it is of tomorrow", func(s *Observed, _ *Record) { s.Since = hours(-24) }, "stay", "less than 4h00m"},
		{"nobody knows what clients did", func(s *Observed, _ *Record) { s.Activity = nil }, "stay", "is not known"},
		{"a change waits", func(s *Observed, _ *Record) { s.Activity.Queued = time.Second }, "stay", "waits for its export"},
		{"somebody read", func(s *Observed, _ *Record) { s.Activity.Last = hours(3.9) }, "stay", "a client did something"},
		{"somebody will have read", func(s *Observed, _ *Record) { s.Activity.Last = hours(-1) }, "stay", "a client did something"},
		{"it was looked at for too short a time", func(s *Observed, _ *Record) { s.Activity = &Activity{From: hours(3.9)} }, "stay", "a client did something"},
		{"a directory never came home", func(_ *Observed, r *Record) { r.Home = r.Home[1:] }, "stay", "c (it never came home)"},
		{"none came home", func(_ *Observed, r *Record) { r.Home = nil }, "stay", "c (it never came home), r (it never came home)"},
		{"it came home, and was not verified", func(_ *Observed, r *Record) { r.Home[0].Verified = false }, "stay", "c (it came home, and not all of it: it was not verified)"},
		{"not all of it came home", func(_ *Observed, r *Record) { r.Home[0].Left = []string{"step-7: incomplete"} }, "stay", "step-7: incomplete"},
		{"another one was given up", func(_ *Observed, r *Record) {
			r.Home[0].Left = []string{Left("step-7", "incomplete"), Left("step-70", "incomplete")}
			r.Abandon("c/step-7")
		}, "stay", "all of it: step-70: incomplete)"},
		{"of a name with a colon its beginning was given up", func(_ *Observed, r *Record) {
			r.Home[0].Left = []string{Left("step:7", "incomplete")}
			r.Abandon("c/step")
		}, "stay", `"step:7": incomplete`},
		{"what is left has no name", func(_ *Observed, r *Record) { r.Home[0].Left = []string{": odd"}; r.Abandon("r") }, "stay", ": odd"},
		{"somebody wrote after it came home", func(s *Observed, _ *Record) { s.Activity.Written = hours(5.9) }, "stay", "clients wrote to the file system 5m00s after"},
		{"it was not looked at since it came home", func(s *Observed, r *Record) { r.Home[0].At = hours(11) }, "stay", "c (what was written since it came home is not known)"},
	} {
		s, r := idleOne()
		records := map[string]*Record{r.ID: r}
		test.but(&s, r)
		v := Judge([]Observed{s}, records, noon)[0]
		if v.Take != (test.verb == "go") || v.Ours != (test.verb != "alien") || !strings.Contains(v.Why, test.wants) {
			t.Errorf("%s: %+v", test.what, v)
		}
	}
	for _, test := range []struct {
		what string
		s    Observed
		take bool
	}{
		{"an idle instance", Observed{State: "running", Since: hours(9), Activity: &Activity{From: hours(8)}}, true},
		{"one that computes", Observed{State: "running", Since: hours(9), Activity: &Activity{From: hours(8), Last: hours(1)}}, false},
		{"one of which nothing is known", Observed{State: "running", Since: hours(9)}, false},
		{"one that is stopped", Observed{State: "stopped", Since: hours(9), Activity: &Activity{From: hours(8)}}, false},
		{"one that begins", Observed{State: "pending", Since: hours(9), Activity: &Activity{From: hours(8)}}, false},
	} {
		_, r := idleOne()
		r.Home = nil // there is nothing on it that has to come home
		test.s.ID, test.s.Kind, test.s.Tags = "i-1", InstanceSight, map[string]string{TagBurst: r.ID}
		if v := Judge([]Observed{test.s}, map[string]*Record{r.ID: r}, noon)[0]; v.Take != test.take || !v.Ours {
			t.Errorf("%s: %+v", test.what, v)
		}
	}
}

// TestLeft: a line gives back the name that it was made of.
func TestLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, why := rapid.StringN(1, -1, -1).Draw(t, "name"), rapid.String().Draw(t, "why")
		if got := LeftName(Left(name, why)); got != name {
			t.Fatalf("%q of %q", got, Left(name, why))
		}
	})
	if got := Left("step-7", "incomplete"); got != "step-7: incomplete" {
		t.Error(got)
	}
}

// TestReaperNeverTakes draws sights and records in which times stand in any order, and says again, in its own words, what may go.
func TestReaperNeverTakes(t *testing.T) {
	taken, stayed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s, r := idleOne()
		records := map[string]*Record{r.ID: r}
		calm := rapid.Bool().Draw(t, "calm") // most times are those of what may go
		at := func(what string, usual time.Time) time.Time {
			if calm && rapid.IntRange(0, 9).Draw(t, what+" is odd") > 0 {
				return usual
			}
			if rapid.IntRange(0, 9).Draw(t, what+" is there") == 0 {
				return time.Time{}
			}
			return noon.Add(time.Duration(rapid.IntRange(-40, 3).Draw(t, what)) * 30 * time.Minute)
		}
		odd := func(what string) bool { return rapid.IntRange(0, 15).Draw(t, what) == 0 }
		if odd("tag") {
			s.Tags = map[string]string{rapid.SampledFrom([]string{TagBurst, TagName}).Draw(t, "key"): rapid.SampledFrom([]string{"", "fedcba", r.ID}).Draw(t, "value")}
		}
		if odd("id") {
			s.ID = rapid.SampledFrom([]string{"", "fs-2"}).Draw(t, "other id")
		}
		if odd("no record") {
			records = map[string]*Record{}
		}
		if odd("no file system") {
			r.FileSystem = nil
		}
		if odd("state") {
			s.State = rapid.SampledFrom([]string{"CREATING", "FAILED", "DELETING", "UPDATING", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE", "GONE", ""}).Draw(t, "which")
		}
		if odd("lease") {
			s.Leases = []string{"anna"}
		}
		if odd("task") {
			s.Pending = rapid.IntRange(1, 3).Draw(t, "tasks")
		}
		s.Since = at("since", s.Since)
		if usual := *s.Activity; odd("activity") {
			s.Activity = nil
		} else {
			s.Activity = &Activity{From: at("from", usual.From), Last: at("last", usual.Last), Written: at("written", usual.Written)}
			if odd("queue") {
				s.Activity.Queued = time.Minute
			}
		}
		if r.Ready = at("ready", r.Ready); odd("not ready") {
			r.Ready = time.Time{}
		}
		r.Home = nil
		for _, path := range []Path{"c", "r"} {
			if !odd("came") {
				h := Homecame{Path: path, At: at("came at", noon.Add(-6*time.Hour)), Verified: !odd("verified")}
				if odd("left") {
					h.Left = []string{Left(rapid.SampledFrom([]string{"a", "b:c", "d"}).Draw(t, "name"), "why")}
				}
				r.Come(h)
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "given up") {
			r.Abandon(Path(rapid.SampledFrom([]string{"c", "r", "c/a", "c/b", "c/b:c", "r/d", "x"}).Draw(t, "path")))
		}
		before := maps.Clone(s.Tags)
		v := Judge([]Observed{s}, records, noon)[0]
		if !maps.Equal(before, s.Tags) {
			t.Fatal("it changes what it looks at")
		}
		if !v.Take {
			stayed++
			if v.Why == "" {
				t.Fatal("it stays, and nobody says why")
			}
			return
		}
		taken++
		idle := noon.Add(-DefaultIdle)
		switch a := s.Activity; {
		case !v.Ours || s.Tags[TagBurst] != r.ID || len(records) == 0 || r.FileSystem == nil || s.ID != r.FileSystem.ID:
			t.Fatalf("it is not ours: %+v", v)
		case len(s.Leases) > 0 || s.Pending > 0 || slices.Contains([]string{"CREATING", "DELETING", "UPDATING", "GONE", ""}, s.State):
			t.Fatalf("it is needed: %+v", v)
		case a == nil || a.Queued > 0 || a.Last.After(idle) || a.From.After(idle) || s.Since.After(idle):
			t.Fatalf("it is not idle: %+v", v)
		case r.Ready.IsZero():
			return // nothing ever ran on it
		}
		for _, path := range []Path{"c", "r"} {
			if slices.Contains(r.Abandoned, path) {
				continue
			}
			h := r.CameHome(path)
			if h == nil || s.Activity.Written.After(h.At) || s.Activity.From.After(h.At) || !h.Verified && len(h.Left) == 0 {
				t.Fatalf("%s is not home: %+v", path, v)
			}
			for _, line := range h.Left {
				name := strings.Trim(strings.TrimSuffix(line, ": why"), `"`)
				if !slices.Contains(r.Abandoned, path+"/"+Path(name)) {
					t.Fatalf("%s/%s is not home: %+v", path, name, v)
				}
			}
		}
	})
	if !testing.Short() && (taken == 0 || stayed == 0) { // which makes a fifth of the tries
		t.Errorf("%d were taken and %d stayed: that shows nothing", taken, stayed)
	}
}
