package dataset

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

func parse(t testing.TB, s string) location.Location {
	t.Helper()
	l := must.Get(location.Parse(s))(t)
	return l
}

func TestStageTarget(t *testing.T) {
	v := Look(facts())
	for _, c := range []struct{ source, tier, want string }{
		{"dataset:vision@" + digest1, "scratch", "scratch:.datasets/vision/" + digest1 + "/data"},
		{"dataset:vision@" + digest1, "archive", "archive:.datasets/vision/" + digest1},
		{"project:runs/7", "scratch", "scratch:runs/7"},
		{"/lustre/project/runs/7/", "scratch", "scratch:runs/7"},
		{"project:team/runs/7", "scratch", "scratch:runs/7"}, // of the tier that it really lies in
		{"bucket:data/runs/7", "project", "project:runs/7"},
		{"s3://archive/other/7", "project", "project:other/7"},
		{"/home/ada/set", "project", "project:set"},
		{"s3://elsewhere/a/b", "project", "project:b"},
		{"s3://elsewhere", "project", "project:elsewhere"},
		{"file:///home/a%20b", "project", "project:a b"},

		{"dataset:vision", "scratch", ""}, // which version?
		{"project:", "scratch", ""},
		{"/lustre/project", "scratch", ""},
		{"s3://cloud", "scratch", ""},
		{"/", "project", ""},
		{"project:x", "project", ""},
		{"/lustre/project/x", "project", ""},
		{"lustre:x", "project", ""},
		{"relative/x", "project", ""},
		{"/home/../x", "project", ""},
		{"nowhere:x", "project", ""},
		{"project:x", "nowhere", ""},
		{"archive:.datasets/vision/" + digest1, "project", ""}, // only a dataset goes where datasets are
		{"/home/eve/.datasets", "project", ""},
		{"archive:a/.datamove/lock", "project", ""},
		{"/home/.datamove-x-1-1", "project", ""},
		{"/home/" + strings.Repeat("n", 256), "project", ""},
		{"archive:" + strings.Repeat("n/", 501), "project", ""},
		{"/home/a\nb", "archive", ""},
		{"/home/\xff", "archive", ""},
		{"/home/\uFFFD", "archive", ""},
	} {
		got, err := v.StageTarget(parse(t, c.source), "n1", c.tier)
		switch {
		case c.want == "":
			if err == nil || !errors.Is(err, mover.ErrUsage) && !errors.Is(err, mover.ErrNotExist) {
				t.Errorf("%s to %s: %s, %v; want it refused", c.source, c.tier, got, err)
			}
		case err != nil || got.String() != c.want:
			t.Errorf("%s to %s: %s, %v; want %s", c.source, c.tier, got, err, c.want)
		}
	}
	for _, forged := range []location.Location{
		{Scheme: location.Dataset, Name: "../x", Digest: digest1},
		{Scheme: location.Dataset, Name: "x", Digest: "../" + digest1[3:]},
		{Scheme: location.Dataset, Name: "x/y", Digest: digest1},
		{Scheme: location.Dataset, Digest: digest1},
		{Scheme: location.InTier, Tier: "project", Path: "../../etc"},
		{Scheme: location.POSIX, Path: "/home/../../etc"},
		{Scheme: location.S3, Bucket: "", Prefix: "x"},
		{},
	} {
		if got, err := v.StageTarget(forged, "n1", "archive"); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%+v: %s, %v", forged, got, err)
		}
	}
}

func TestValidDataset(t *testing.T) {
	for name, want := range map[string]bool{
		"vision": true, "v.1_2-x": true, strings.Repeat("n", 128): true,
		"": false, "-x": false, ".x": false, "a/b": false, "a b": false, "ä": false, "x@1": false, "x\n": false, strings.Repeat("n", 129): false,
	} {
		if got := ValidDataset(name); got != want {
			t.Errorf("%q is valid: %v, want %v", name, got, want)
		}
	}
}

// FuzzStageTarget: whatever is asked for, what comes back lies in the tier, is
// read back as it was printed, and takes nobody else's place.
func FuzzStageTarget(f *testing.F) {
	for _, s := range []string{"/a/b", "s3://bucket/x/", "project:a", "dataset:d@" + digest1, "/a/.datamove-b", "project:.datasets/x", "file:///a%0Ab"} {
		f.Add(s)
	}
	v := Look(facts())
	f.Fuzz(func(t *testing.T, s string) {
		source, err := location.Parse(s)
		if err != nil {
			return
		}
		got, err := v.StageTarget(source, "n1", "archive")
		if err != nil {
			return
		}
		back, err := location.Parse(got.String())
		if err != nil || back != got || got.Tier != "archive" || !mover.ValidName(got.Path) || got.Path == "" {
			t.Errorf("%q goes to %+v, read back as %+v, %v", s, got, back, err)
		}
		if mover.Within(got.Path, Datasets) != (source.Scheme == location.Dataset) || strings.Contains(got.Path, own) {
			t.Errorf("%q goes to %s", s, got)
		}
	})
}

// TestDatasetsHaveOwnPlaces: two versions never share a place, nor lies one in the
// other's.
func TestDatasetsHaveOwnPlaces(t *testing.T) {
	v := Look(facts())
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) location.Location {
			return location.Location{Scheme: location.Dataset, Name: rapid.StringMatching(`[a-c][a-c.]{0,2}`).Draw(t, label),
				Digest: rapid.StringMatching(`[0-9a-f]{12}`).Draw(t, label) + strings.Repeat(rapid.StringMatching(`[ab]`).Draw(t, label), 52)}
		}
		a, b := draw("a"), draw("b")
		x, err1 := v.StageTarget(a, "", "project")
		y, err2 := v.StageTarget(b, "", "project")
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if a != b && (mover.Within(x.Path, y.Path) || mover.Within(y.Path, x.Path)) {
			t.Fatalf("%s and %s", x, y)
		}
	})
}

func agent(name string, reaches ...string) *datamovev1.Agent {
	return &datamovev1.Agent{Name: name, State: datamovev1.AgentState_AGENT_STATE_READY, Reaches: reaches}
}

func TestPickSource(t *testing.T) {
	everything := []string{"scratch", "cache", "project", "team", "temp", "archive", "cloud", "/"}
	all := []*datamovev1.Agent{agent("n1", everything...), agent("n2", everything...)}
	drained := agent("n1", everything...)
	drained.State = datamovev1.AgentState_AGENT_STATE_DRAINING
	to := func(tier, node string) Slot { return Slot{"vision", digest1, tier, node} }
	for _, c := range []struct {
		what   string
		want   Slot
		agents []*datamovev1.Agent
		facts  Facts
		pick   string // "" is an error
		kind   error
	}{
		{"warm before cold", to("scratch", "n1"), all, facts(at("archive:v"), at("project:v")), "project:v", nil},
		{"warm before cold, though not verified", to("scratch", "n1"), all, facts(at("archive:v"), at("project:v", level(written))), "project:v", nil},
		{"hot of the same node", to("scratch", "n1"), all, facts(at("project:v"), at("cache:v", on("n1"))), "cache:v", nil},
		{"not hot of another node: nobody sees both", to("scratch", "n1"), all, facts(at("cache:v", on("n2")), at("archive:v")), "archive:v", nil},
		{"what is not ephemeral", to("archive", ""), all, facts(at("scratch:v", on("n1")), at("project:v")), "project:v", nil},
		{"ephemeral before cold", to("archive", ""), all, facts(at("temp:v"), at("cloud:v")), "temp:v", nil},
		{"verified", to("scratch", "n1"), all, facts(at("project:v", level(written)), at("team:v")), "team:v", nil},
		{"by name at last", to("scratch", "n1"), all, facts(at("project:b"), at("project:a")), "project:a", nil},
		{"outside on a file system", to("scratch", "n1"), all, facts(at("s3://x-bucket/v"), at("/home/v")), "/home/v", nil},
		{"outside in a store", to("scratch", "n1"), []*datamovev1.Agent{agent("n1", "scratch")}, facts(at("s3://x-bucket/v")), "s3://x-bucket/v", nil},
		{"by a tier around it", to("scratch", "n1"), []*datamovev1.Agent{agent("n1", "scratch", "project")}, facts(at("team:v")), "team:v", nil},
		{"by a root", to("scratch", "n1"), []*datamovev1.Agent{agent("n1", "scratch", "/lustre")}, facts(at("team:v")), "team:v", nil},

		{"none", to("scratch", "n1"), all, facts(), "", mover.ErrNotExist},
		{"another version", to("scratch", "n1"), all, facts(at("project:v", version2)), "", mover.ErrNotExist},
		{"on its way, or going", to("scratch", "n1"), all, facts(at("project:v", in(staging)), at("archive:v", in(removing))), "", mover.ErrNotExist},
		{"only where it is to go", to("scratch", "n1"), all, facts(at("scratch:v", on("n1"))), "", mover.ErrNotExist},
		{"nobody sees the tier", to("scratch", "n3"), all, facts(at("project:v")), "", mover.ErrUnreachable},
		{"nobody sees the source", to("scratch", "n1"), []*datamovev1.Agent{agent("n1", "scratch"), agent("n2", "project")}, facts(at("project:v")), "", mover.ErrUnreachable},
		{"any path is not every tier", to("scratch", "n1"), []*datamovev1.Agent{agent("n1", "scratch", "/")}, facts(at("project:v")), "", mover.ErrUnreachable},
		{"the agent is drained", to("scratch", "n1"), []*datamovev1.Agent{drained}, facts(at("project:v")), "", mover.ErrUnreachable},
		{"no agent", to("scratch", "n1"), nil, facts(at("project:v")), "", mover.ErrUnreachable},
		{"no such tier", to("fast", ""), all, facts(at("project:v")), "", mover.ErrNotExist},
		{"no node", to("scratch", ""), all, facts(at("project:v")), "", mover.ErrNotExist},
	} {
		got, err := Look(c.facts).PickSource(c.want, c.agents)
		if c.pick == "" {
			said(t, c.what, err, c.kind)
		} else if err != nil || got.Location != c.pick {
			t.Errorf("%s: %v, %v; want %s", c.what, got.GetLocation(), err, c.pick)
		}
	}
}
