package authz

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

var site = Input{
	UID:   990,
	Tiers: map[string]string{"project": "/lustre/project/", "scratch": "/local_nvme", "archive": "", "whole": "/"},
	Projects: map[string]Project{
		"vision": {Roots: []string{"project:vision", "archive:vision", "/lustre/vision", "s3://team/vision"}, Reads: []string{"archive:public", "/datasets/"}, Members: []string{"alice", "@vision"}},
		"audio":  {Roots: []string{"project:audio", "s3://audio"}, Members: []string{"bob"}},
		"system": {Roots: []string{"whole:"}, Members: []string{"root"}},
	},
	Roles: map[string]Role{"operator": {Members: []string{"olga"}, May: []string{"project.use"}}},
}

func rules(t interface {
	Helper()
	Fatal(...any)
}, in Input) *Rules {
	t.Helper()
	r := must.Get(New(in))(t)
	return r
}

func person(name string) Caller { return Caller{Name: name, UID: 1001, Via: Local} }

func TestMayUse(t *testing.T) {
	r := rules(t, site)
	for _, row := range []struct {
		who, project, at string
		read, write      string // the root, or "" where it is denied
	}{
		{"alice", "vision", "project:vision", "/lustre/project/vision", "/lustre/project/vision"},
		{"alice", "vision", "project:vision/run 1/%2e%2e/x", "/lustre/project/vision", "/lustre/project/vision"},
		{"alice", "vision", "/lustre/project/vision/x", "/lustre/project/vision", "/lustre/project/vision"},
		{"alice", "vision", "file:///lustre/vision/x%20y", "/lustre/vision", "/lustre/vision"},
		{"alice", "vision", "/lustre//vision/./x/", "/lustre/vision", "/lustre/vision"},
		{"alice", "vision", "archive:vision/a", "archive:vision", "archive:vision"},
		{"alice", "vision", "s3://team/vision/a", "s3://team/vision", "s3://team/vision"},
		{"alice", "vision", "archive:public/imagenet", "archive:public", ""},
		{"alice", "vision", "/datasets", "/datasets", ""},
		{"alice", "vision", "archive:", "", ""},
		{"alice", "vision", "archive:visio", "", ""},
		{"alice", "vision", "archive:vision2", "", ""},
		{"alice", "vision", "archive:vision/../audio", "", ""},
		{"alice", "vision", "archive:publicity", "", ""},
		{"alice", "vision", "/lustre/vision/../audio", "", ""},
		{"alice", "vision", "/lustre/vision/x/..", "", ""},
		{"alice", "vision", "file:///lustre/vision/%2e%2e/audio", "", ""},
		{"alice", "vision", "/lustre/vision2", "", ""},
		{"alice", "vision", "/lustre/Vision", "", ""},
		{"alice", "vision", "/lustre", "", ""},
		{"alice", "vision", "lustre/vision", "", ""},
		{"alice", "vision", "", "", ""},
		{"alice", "vision", "/", "", ""},
		{"alice", "vision", "/lustre/vision\x00/x", "", ""},
		{"alice", "vision", "/lustre/vision/" + strings.Repeat("x/", 3000), "", ""},
		{"alice", "vision", "s3://vision/vision", "", ""},
		{"alice", "vision", "s3://archive/vision", "", ""},
		{"alice", "vision", "s3://team/vision//x", "", ""},
		{"alice", "vision", "s3://team/", "", ""},
		{"alice", "vision", "dataset:vision", "", ""},
		{"alice", "vision", "nowhere:vision", "", ""},
		{"alice", "vision", "scratch:vision", "", ""},
		{"alice", "vision", "project:audio", "", ""},
		{"alice", "audio", "project:audio", "", ""},
		{"alice", "", "project:vision", "", ""},
		{"alice", "nothing", "project:vision", "", ""},
		{"bob", "vision", "project:vision", "", ""},
		{"bob", "audio", "s3://audio", "s3://audio/", "s3://audio/"},
		{"root", "vision", "project:vision", "/lustre/project/vision", "/lustre/project/vision"},
		{"root", "system", "/etc/shadow", "/", "/"},
		{"olga", "vision", "project:vision", "/lustre/project/vision", "/lustre/project/vision"},
		{"olga", "vision", "/etc/shadow", "", ""},
	} {
		c := person(row.who)
		if row.who == "root" {
			c.UID = 0
		}
		for write, want := range map[bool]string{false: row.read, true: row.write} {
			if d := r.MayUse(c, row.project, row.at, write); d.Root != want || d.Allowed != (want != "") || d.Rule == "" || d.Reason == "" {
				t.Errorf("%s, %s, %.80s, write %v: %+v, want %q", row.who, row.project, row.at, write, d, want)
			}
		}
	}
	if d := r.MayUse(Caller{Name: "carol", UID: 7, Groups: []string{"vision"}, Via: Forwarded, Agent: "n17"}, "vision", "project:vision", true); !d.Allowed {
		t.Errorf("by group, through an agent: %+v", d)
	}
	if d := r.MayUse(Caller{Name: "alice", Agent: "n17", Via: Agent}, "vision", "project:vision", true); d.Allowed {
		t.Errorf("an agent for itself: %+v", d)
	}
}

func TestMayUseWithoutProjects(t *testing.T) {
	r := rules(t, Input{UID: 990, Tiers: site.Tiers, Roles: map[string]Role{"archivist": {Members: []string{"olga"}, May: []string{"bucket.use"}}}})
	for _, row := range []struct {
		name    string
		c       Caller
		at      string
		allowed bool
	}{
		{"a path", person("alice"), "/home/alice", true},
		{"a tier with a path", person("alice"), "scratch:x", true},
		{"a path of a user of a node", Caller{Name: "alice", UID: 1, Via: Forwarded, Agent: "n17"}, "/home/alice", true},
		{"a bucket", person("alice"), "s3://team/x", false},
		{"a tier in a bucket", person("alice"), "archive:x", false},
		{"a dataset", person("alice"), "dataset:x", false},
		{"a path that goes up", person("alice"), "/home/../etc", false},
		{"a path from nowhere", person("alice"), "home", false},
		{"a bucket of root", Caller{Name: "root", Via: Local}, "archive:x", true},
		{"a bucket of who runs the service", Caller{UID: 990, Via: Local}, "s3://team", true},
		{"a bucket of root of a node", Caller{Name: "root", Via: Forwarded, Agent: "n17"}, "archive:x", false},
		{"a bucket by role", person("olga"), "archive:x", true},
		{"nobody", Caller{Name: "root"}, "/home", false},
		{"an agent for itself", Caller{Agent: "n17", Via: Agent}, "/home", false},
	} {
		if d := r.MayUse(row.c, "", row.at, true); d.Allowed != row.allowed || d.Root != "" || d.Reason == "" {
			t.Errorf("%s: %+v", row.name, d)
		}
	}
	if d := r.MayUse(person("alice"), "vision", "/home/alice", false); d.Allowed {
		t.Errorf("a project that is not there: %+v", d)
	}
}

func TestBadRules(t *testing.T) {
	for name, in := range map[string]Input{
		"tiers.a.path":              {Tiers: map[string]string{"a": "x"}},
		"tiers.b.path":              {Tiers: map[string]string{"b": "/x/../y"}},
		"projects.p.roots[0]":       {Projects: map[string]Project{"p": {Roots: []string{"gone:x"}}}},
		"projects.p.roots[1]":       {Projects: map[string]Project{"p": {Roots: []string{"/x", "y"}}}},
		"projects.p.reads[0]":       {Projects: map[string]Project{"p": {Reads: []string{"dataset:x"}}}},
		"roles.r.may[0]":            {Roles: map[string]Role{"r": {May: []string{"task.eat"}}}},
		"roles.r.may[0]: invalid":   {Roles: map[string]Role{"r": {May: []string{"link.*"}}}},
		"no action enroll.renew":    {Roles: map[string]Role{"r": {May: []string{"enroll.renew"}}}},
		"roles.r.may[1]: invalid r": {Roles: map[string]Role{"r": {May: []string{"task.*", "tas*"}}}},
	} {
		if _, err := New(in); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPersonsAndProjects(t *testing.T) {
	r := rules(t, Input{Users: map[string]string{"alice@site": "alice", "nobody@site": ""}, Projects: site.Projects, Tiers: site.Tiers, Roles: site.Roles})
	if name, ok := r.Person("alice@site"); name != "alice" || !ok {
		t.Errorf("alice@site is %q, %v", name, ok)
	}
	for _, cn := range []string{"", "alice", "nobody@site", "eve"} {
		if name, ok := r.Person(cn); ok {
			t.Errorf("%q is %q", cn, name)
		}
	}
	if got := r.Projects(Caller{Name: "bob", UID: 2, Groups: []string{"vision"}, Via: Local}); !slices.Equal(got, []string{"audio", "vision"}) {
		t.Errorf("projects of bob: %v", got)
	}
	if got := r.Projects(Caller{Name: "bob", UID: 2, Groups: []string{"vision"}, Via: Certificate}); got != nil {
		t.Errorf("projects of a stranger: %v", got)
	}
	if got := r.Roles(person("olga")); !slices.Equal(got, []string{"operator"}) {
		t.Errorf("roles of olga: %v", got)
	}
}

// walk goes where a location leads, step by step, as a kernel without symlinks and a
// store that knows ".." would. It knows nothing of the code under test.
func walk(at string, tiers map[string]string) (store string, steps []string) {
	rest := at
	switch word, after, _ := strings.Cut(at, ":"); {
	case strings.HasPrefix(at, "file://"):
		path, err := url.PathUnescape(strings.TrimPrefix(at, "file://"))
		if err != nil {
			return "nowhere", nil
		}
		store, rest = "/", path
	case strings.HasPrefix(at, "s3://"):
		bucket, key, _ := strings.Cut(strings.TrimPrefix(at, "s3://"), "/")
		store, rest = "s3 "+bucket, key
	case strings.HasPrefix(at, "/"):
		store = "/"
	case tiers[word] != "":
		store, rest = "/", tiers[word]+"/"+after
	default:
		store, rest = "tier "+word, after
	}
	for step := range strings.SplitSeq(rest, "/") {
		switch {
		case step == "..":
			if len(steps) == 0 && store != "/" {
				return "outside", nil
			}
			steps = steps[:max(len(steps)-1, 0)]
		case step != "" && step != ".":
			steps = append(steps, step)
		}
	}
	return store, steps
}

// reached reports whether a location leads to one of the roots or below it.
func reached(at string, roots []string, tiers map[string]string) bool {
	store, steps := walk(at, tiers)
	return slices.ContainsFunc(roots, func(root string) bool {
		s, prefix := walk(root, tiers)
		return s == store && len(steps) >= len(prefix) && slices.Equal(steps[:len(prefix)], prefix)
	})
}

var (
	fragment = rapid.SampledFrom([]string{"", "/", "/", "/", "//", ".", "..", "/../", "/./", "%2e%2e", "%2F", "%2f..", "\\..", "\x00", " ", "a", "lustre", "vision",
		"visio", "vision2", "project", "audio", "local_nvme", "team", "archive", ":", "project:", "archive:", "scratch:", "whole:", "gone:", "s3:", "s3://", "file://",
		"file:///", "s3://team/", "dataset:", "dataset:vision", "é", "\xff", "@", "public", "datasets"})
	hostile = rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(fragment, 0, 9).Draw(t, "fragments"), "")
	})
	segment = rapid.SampledFrom([]string{"a", "b", "vision", "vision2", "audio", "public", "%2e%2e", "...", " ", "x:y", "é"})
	name    = rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(t, "segments"), "/")
	})
	someRoot = rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"/", "project:", "scratch:", "archive:", "s3://team/", "whole:"}).Draw(t, "store") + name.Draw(t, "name")
	})
)

// TestNothingOutsideTheRoots draws projects and locations: what is allowed leads
// below a root, and what is below a root and written plainly is allowed.
//
//safety:7 with TestDeniedByDefault
func TestNothingOutsideTheRoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roots, reads := rapid.SliceOfN(someRoot, 0, 3).Draw(t, "roots"), rapid.SliceOfN(someRoot, 0, 2).Draw(t, "reads")
		r := rules(t, Input{Tiers: site.Tiers, Projects: map[string]Project{"p": {Roots: roots, Reads: reads, Members: []string{"alice"}}}})
		nearby := someRoot
		if all := append(slices.Clone(roots), reads...); len(all) > 0 {
			nearby = rapid.SampledFrom(all)
		}
		for range 50 {
			at, plain := hostile.Draw(t, "at"), false
			if rapid.Bool().Draw(t, "near") {
				end := rapid.SampledFrom([]string{"", "/", "/x", "x", "/x/y/", "/..", "/../x"}).Draw(t, "end")
				at, plain = nearby.Draw(t, "root")+end, !strings.Contains(end, "..")
			}
			write := rapid.Bool().Draw(t, "write")
			granted := slices.Clone(roots)
			if !write {
				granted = append(granted, reads...)
			}
			d, below := r.MayUse(person("alice"), "p", at, write), reached(at, granted, site.Tiers)
			switch {
			case d.Allowed && !below:
				t.Fatalf("%q was allowed, roots %q, reads %q", at, roots, reads)
			case d.Allowed && !reached(at, []string{d.Root}, site.Tiers):
				t.Fatalf("%q is not below %q", at, d.Root)
			case d.Allowed && !sameRoot(r, at, d.Root):
				t.Fatalf("%q is below %q, and RootOf says otherwise", at, d.Root)
			case plain && below && !d.Allowed:
				t.Fatalf("%q was denied (%s), roots %q, reads %q", at, d.Reason, roots, reads)
			case r.MayUse(person("bob"), "p", at, write).Allowed:
				t.Fatalf("%q was allowed to a stranger", at)
			}
		}
	})
}

func FuzzMayUse(f *testing.F) {
	for _, at := range []string{"/lustre/vision/x", "project:vision/../audio", "s3://team/vision//", "file:///lustre/vision/%2e%2e", "whole:/lustre/vision", "archive:vision/./x"} {
		f.Add(at, true)
	}
	r, vision := rules(f, site), site.Projects["vision"]
	f.Fuzz(func(t *testing.T, at string, write bool) {
		granted := vision.Roots
		if !write {
			granted = append(slices.Clone(granted), vision.Reads...)
		}
		if d := r.MayUse(person("alice"), "vision", at, write); d.Allowed && !reached(at, granted, site.Tiers) {
			t.Errorf("%q was allowed: %+v", at, d)
		}
	})
}

// sameRoot says whether work on a location that may be used stays below that root.
func sameRoot(r *Rules, at, root string) bool {
	got, err := r.RootOf("p", at)
	a, _ := r.area(at)
	return err == nil && (got == root || got == "" && a.store != files)
}
