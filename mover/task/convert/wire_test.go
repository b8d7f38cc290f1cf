package convert_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/rate"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

func as(l location.Location) (location.Location, error) { return l, nil }

func at(t *testing.T, text string) location.Location {
	t.Helper()
	l := must.Get(location.Parse(text))(t)
	return l
}

// requests have between them every field that travels.
func requests(t *testing.T) []engine.Request {
	return []engine.Request{
		{Work: engine.Copy, Source: at(t, "/a"), Target: at(t, "/b/")},
		{Work: engine.Sync, Source: at(t, "tier:a/b"), Target: at(t, "s3://bucket/p"), Delete: true, MaxDelete: engine.MaxDelete{Set: true, Percent: 2.5}, Backup: "old"},
		{Work: engine.Copy, Sources: []location.Location{at(t, "/a"), at(t, "/c")}, Target: at(t, "/b"), CopyAll: true, CompareBy: plan.ByContent, Jobs: 7, Bandwidth: 9, Memory: 1 << 24},
		{Work: engine.Verify, Source: at(t, "/a"), Target: at(t, "/b"), Verify: mover.Read, Preserve: mover.FactMode | mover.FactMtime, OnNoSpace: engine.NoSpaceFail, Reflink: engine.ReflinkNever},
		{Work: engine.Sync, Source: at(t, "/a"), Target: at(t, "/b"), MaxDelete: engine.MaxDelete{Set: true}, Preserve: mover.FactCRC},
		{Work: engine.Copy, Source: at(t, "/a"), Target: at(t, "/b"), Preserve: mover.AllFacts | mover.FactLayout, Released: engine.ReleasedSkip},
		{Work: engine.Copy, Source: at(t, "/a"), Target: at(t, "/b"), Preserve: mover.FactMode | mover.FactLayout, Released: engine.ReleasedFail},
		{Work: engine.Copy, Source: at(t, "/a"), Target: at(t, "/b"), AllowMissingSource: true},
		{Work: engine.Verify, Source: at(t, "/a"), Target: at(t, "/b"), Follow: true},
		{Work: engine.Copy, Source: at(t, "/a"), Target: at(t, "/b"), CompareBy: plan.BySize},
		{Work: engine.Sync, Source: at(t, "/a"), Target: at(t, "/b"), CompareBy: plan.BySize, Preserve: mover.FactCRC},
		{Work: engine.Sync, Source: at(t, "/a"), Target: at(t, "/b"), Delete: true, DeleteFirst: true},
	}
}

// TestRoundTrip: a request is the same behind the wire.
func TestRoundTrip(t *testing.T) {
	for _, r := range requests(t) {
		spec, err := convert.Spec(&r, nil, nil)
		must.Do(t, err)
		text, err := proto.Marshal(spec)
		must.Do(t, err)
		back := new(pb.TaskSpec)
		must.Do(t, proto.Unmarshal(text, back))
		got, err := convert.Request(back, as)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v\nbecomes %+v, %v", r, got, err)
		}
	}
}

// TestEveryFieldTravels: no field of a request is lost on the way to a service, and no way to compare. A new one has a field of the Options in task.proto, both
// translations, and a row of requests; or it is of this process alone.
func TestEveryFieldTravels(t *testing.T) {
	stays := []string{"DryRun", "Filter", "Manifest", "ExpectedManifest", "Limiter", "StateDir", "Logger", "Observer", "Lead"} // Filter: TestFilterTravels
	sets, ways := map[string]bool{}, map[plan.CompareBy]bool{}
	for _, r := range requests(t) {
		v := reflect.ValueOf(r)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			sets[name] = sets[name] || !v.Field(i).IsZero()
		}
		ways[r.CompareBy] = true
	}
	for i := range reflect.TypeFor[engine.Request]().NumField() {
		name := reflect.TypeFor[engine.Request]().Field(i).Name
		if sets[name] == slices.Contains(stays, name) {
			t.Errorf("%s is in a row of requests: %v; it stays in this process: %v", name, sets[name], slices.Contains(stays, name))
		}
	}
	for by := range plan.CompareBys {
		if !ways[by] {
			t.Errorf("no request compares by %d", by)
		}
	}
}

// TestEveryMoveTravels: a kind of task that moves bytes is one that the engine can do.
func TestEveryMoveTravels(t *testing.T) {
	for n, name := range pb.TaskKind_name {
		if kind := pb.TaskKind(n); task.KindOf(kind).Moves {
			if _, err := convert.Request(&pb.TaskSpec{Kind: kind, Source: "/a", Target: "/b"}, as); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestFilterTravels: what takes part is the same behind the wire.
func TestFilterTravels(t *testing.T) {
	r := engine.Request{Work: engine.Copy, Source: at(t, "/a"), Target: at(t, "/b")}
	spec := must.Get(convert.Spec(&r, []plan.Rule{{Include: true, Pattern: "keep.tmp"}, {Pattern: "*.tmp"}}, []string{"dir", "x\ny.tmp"}))(t)
	got := must.Get(convert.Request(spec, as))(t)
	for name, skipped := range map[string]bool{"dir/keep.tmp": false, "dir/other.tmp": true, "dir/a": false, "elsewhere": true, "x\ny.tmp": true} {
		if got.Filter.Skip(name, mover.File) != skipped {
			t.Errorf("%q: skipped is %v", name, !skipped)
		}
	}
}

func TestHostileSpecs(t *testing.T) {
	many := func(n int) []string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("/s%d", i)
		}
		return names
	}
	const copies = pb.TaskKind_TASK_KIND_COPY
	for name, s := range map[string]*pb.TaskSpec{
		"no kind":                   {Source: "/a", Target: "/b"},
		"a kind of another service": {Kind: 99, Source: "/a", Target: "/b"},
		"a relative path":           {Kind: copies, Source: "a", Target: "/b"},
		"a path with a NUL":         {Kind: copies, Source: "/a\x00", Target: "/b"},
		"no source":                 {Kind: copies, Target: "/b"},
		"no target":                 {Kind: copies, Source: "/a"},
		"a tier that leads out":     {Kind: copies, Source: "tier:../x", Target: "/b"},
		"a location without end":    {Kind: copies, Source: "/" + strings.Repeat("x", 1<<17), Target: "/b"},
		"sources without end":       {Kind: copies, Sources: many(1001), Target: "/b"},
		"rules without end":         {Kind: copies, Source: "/a", Target: "/b", Options: &pb.Options{Rules: make([]*pb.Rule, 1001)}},
		"names without end":         {Kind: copies, Source: "/a", Target: "/b", Options: &pb.Options{Names: many(100_001)}},
		"a pattern that is none":    {Kind: copies, Source: "/a", Target: "/b", Options: &pb.Options{Rules: []*pb.Rule{{Pattern: "[a"}}}},
		"a name that leads out":     {Kind: copies, Source: "/a", Target: "/b", Options: &pb.Options{Names: []string{"../x"}}},
		"a fact that is none":       {Kind: copies, Source: "/a", Target: "/b", Options: &pb.Options{Preserve: []string{"soul"}}},
		"links of a staging":        {Kind: pb.TaskKind_TASK_KIND_STAGE, Source: "/a", Target: "/b", Options: &pb.Options{Follow: true}},
		"by checksum and by size":   {Kind: copies, Source: "/a", Target: "/b", Options: &pb.Options{Checksum: true, SizeOnly: true}},
		"a verify by size":          {Kind: pb.TaskKind_TASK_KIND_VERIFY, Source: "/a", Target: "/b", Options: &pb.Options{SizeOnly: true}},
		"a staging by size":         {Kind: pb.TaskKind_TASK_KIND_STAGE, Source: "/a", Target: "/b", Options: &pb.Options{SizeOnly: true}},
		"a tiering by size":         {Kind: pb.TaskKind_TASK_KIND_TIER, Source: "/a", Target: "/b", Options: &pb.Options{SizeOnly: true}},
		"a level that is none":      {Kind: copies, Source: "/a", Target: "/b", Options: &pb.Options{Verify: 42}},
	} {
		if _, err := convert.Request(s, as); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFits: what a service takes has room for it in one record of its ledger, with what becomes of the task.
func TestFits(t *testing.T) {
	of := func(names, bytes int) *pb.TaskSpec {
		return &pb.TaskSpec{Source: "/a", Target: "/b", Options: &pb.Options{Names: slices.Repeat([]string{strings.Repeat("x", bytes)}, names)}}
	}
	if err := convert.Fits(of(100_000, 7)); err != nil {
		t.Error(err)
	}
	if err := convert.Fits(of(10_000, 100)); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "a task of 996 KiB (10,000 names, 0 patterns); a service takes at most 896 KiB in one") {
		t.Error(err)
	}
}

func TestReportTravels(t *testing.T) {
	r := engine.Report{
		Planned: plan.Totals{Files: 1, Bytes: 2, Dirs: 3, Others: 4, Links: 5, Updates: 6, Keeps: 7, Conflicts: 8, Compares: 9, CompareBytes: 10, Removes: 11, RemoveBytes: 12},
		Files:   1, Bytes: 2, Others: 3, Updated: 4, Removed: 5, Kept: 6, Failed: 1, Elapsed: time.Second, Notes: []string{"note"},
		Levels:   map[mover.Level]int64{mover.Written: 3, mover.Cloned: 1},
		Failures: []engine.Item{{Name: "odd\xff\nname", Op: plan.Replace, Kind: mover.File, Err: &mover.Error{Op: "read", Name: "x", Err: mover.ErrCorrupt}}},
	}
	got := convert.LocalReport(convert.Report(r))
	if err := got.Failures[0].Err; !errors.Is(err, mover.ErrCorrupt) || err.Error() != r.Failures[0].Err.Error() {
		t.Errorf("the failure becomes %v", err)
	}
	got.Failures[0].Err = r.Failures[0].Err
	if !reflect.DeepEqual(got, r) {
		t.Errorf("%+v\nbecomes %+v", r, got)
	}
}

// TestProgressTravels: every figure of a snapshot is the same behind the wire.
func TestProgressTravels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string) int64 { return rapid.Int64Min(0).Draw(t, name) }
		s := engine.Snapshot{
			Planned: plan.Totals{Files: n("files"), Bytes: n("bytes"), Removes: n("removes")}, PlanComplete: rapid.Bool().Draw(t, "complete"),
			FilesDone: n("done"), BytesDone: n("bytes done"), Failed: n("failed"), InFlight: n("in flight"), SourceWait: time.Duration(n("source")),
			TargetWait: time.Duration(n("target")), LinkWait: time.Duration(n("link")), LimitWait: time.Duration(n("limit")), Slowest: rapid.StringN(1, 9, 99).Draw(t, "slowest"), SlowestSince: time.Duration(n("since")),
		}
		rates := rate.Reading{Bytes: rapid.Float64Min(0).Draw(t, "bytes/s"), Files: rapid.Float64Min(0).Draw(t, "files/s"), Remaining: time.Duration(n("remaining"))}
		s.Rates = &rates
		if got := convert.Snapshot(convert.Progress(s, time.Now())); !reflect.DeepEqual(got, s) {
			t.Errorf("%+v becomes %+v", s, got)
		}
	})
}

// TestExitCodes is the table of DESIGN for every kind.
func TestExitCodes(t *testing.T) {
	want := map[error][2]int{ // of the task itself, and of one of its items
		mover.ErrCorrupt: {9, 9}, mover.ErrFull: {7, 7}, mover.ErrRefused: {7, 7}, mover.ErrHeld: {5, 5}, mover.ErrChanged: {5, 5}, mover.ErrConflict: {5, 5},
		mover.ErrPermission: {4, 4}, mover.ErrUsage: {2, 6}, mover.ErrNotExist: {3, 6}, mover.ErrTimeout: {10, 6}, mover.ErrUnreachable: {8, 6},
		mover.ErrTransient: {8, 6}, mover.ErrReleased: {1, 6}, mover.ErrUnsupported: {1, 6},
	}
	for _, kind := range mover.Kinds() {
		got := [2]int{convert.ExitCode(mover.KindName(kind), 0), convert.ExitCode(mover.KindName(kind), 3)}
		if got != want[kind] {
			t.Errorf("%v: %v, want %v", kind, got, want[kind])
		}
	}
	if convert.ExitCode("OTHER", 0) != 1 || convert.ExitCode("OTHER", 1) != 6 {
		t.Error("an error of no kind")
	}
}

func TestTierOf(t *testing.T) {
	paths := map[string]string{"project": "/lustre/project", "vision": "/lustre/project/vision/", "all": "/"}
	for _, row := range []struct{ at, want string }{
		{"/lustre/project", "project"},
		{"/lustre/project/a", "project"},
		{"/lustre/project/vision/a", "vision"},
		{"/lustre/project/visions", "project"},
		{"/lustre/projects", "all"},
		{"archive:a", "archive"},
		{"s3://bucket/a", ""},
	} {
		l := must.Get(convert.Locate(row.at))(t)
		if got := convert.TierOf(l, paths); got != row.want {
			t.Errorf("%s is in %q, want %q", row.at, got, row.want)
		}
	}
	if l, err := convert.Locate("/x"); err != nil || convert.TierOf(l, nil) != "" {
		t.Errorf("without tiers: %v, %v", l, err)
	}
}
