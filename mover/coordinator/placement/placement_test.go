package placement

import (
	"errors"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// site has a shared tier, one of each node inside its tree, and two buckets.
func site() *config.Config {
	return &config.Config{Tiers: map[string]config.Tier{
		"project": {Path: "/lustre"},
		"scratch": {Path: "/lustre/local", NodeLocal: true},
		"cold":    {S3: &config.S3{Bucket: "archive"}},
		"deep":    {S3: &config.S3{Bucket: "archive", Prefix: "deep/"}},
	}}
}

// TestOf: what an agent has to reach for a task, and on which node.
func TestOf(t *testing.T) {
	for _, row := range []struct {
		name string
		spec *pb.TaskSpec
		want string // node|tiers
		err  error
	}{
		{"a shared tier", &pb.TaskSpec{Source: "project:a", Target: "cold:a"}, "|cold,project", nil},
		{"paths in it", &pb.TaskSpec{Source: "/lustre/a", Target: "project:b"}, "|project", nil},
		{"a tier of each node is meant on the caller's", &pb.TaskSpec{Source: "project:a", Target: "scratch:a"}, "here|project,scratch", nil},
		{"the innermost tier counts", &pb.TaskSpec{Source: "/lustre/local/a", Target: "cold:a"}, "here|cold,scratch", nil},
		{"a path in no tier is one of a node", &pb.TaskSpec{Source: "/home/ada", Target: "cold:a"}, "here|cold", nil},
		{"a name that only begins like a tier", &pb.TaskSpec{Source: "/lustre2/a", Target: "cold:a"}, "here|cold", nil},
		{"the node of the request counts", &pb.TaskSpec{Node: "n7", Source: "scratch:a", Target: "cold:a"}, "n7|cold,scratch", nil},
		{"even where any node would do", &pb.TaskSpec{Node: "n7", Source: "project:a", Target: "cold:a"}, "n7|cold,project", nil},
		{"buckets alone", &pb.TaskSpec{Source: "s3://team/a", Target: "s3://team/b"}, "|", nil},
		{"each of several sources", &pb.TaskSpec{Sources: []string{"project:a", "deep:b"}, Target: "cold:"}, "|cold,deep,project", nil},
		{"homes of a burst", &pb.TaskSpec{Burst: &pb.BurstWork{Homes: []string{"scratch:a"}}}, "here|scratch", nil},
		{"no such tier", &pb.TaskSpec{Source: "warm:a", Target: "cold:a"}, "|", mover.ErrNotExist},
	} {
		n, err := Of(row.spec, site(), "here")
		if !errors.Is(err, row.err) || err == nil && n.Route() != row.want || n.Shared() != (n.Node == "") {
			t.Errorf("%s: %s, %v; want %s, %v", row.name, n.Route(), err, row.want, row.err)
		}
	}
}

// TestOverlap: two locations meet where one lies in the other, however each is spelled.
func TestOverlap(t *testing.T) {
	type at struct{ text, node string }
	for _, row := range []struct {
		a, b at
		want bool
	}{
		{at{"project:a", "n1"}, at{"/lustre/a", "n2"}, true},
		{at{"project:a", ""}, at{"project:a/b", ""}, true},
		{at{"project:a", ""}, at{"project:ab", ""}, false},
		{at{"project:", ""}, at{"/lustre/x/y", ""}, true},
		{at{"scratch:a", "n1"}, at{"/lustre/local/a", "n1"}, true},
		{at{"scratch:a", "n1"}, at{"scratch:a", "n2"}, false},
		{at{"project:", ""}, at{"scratch:a", "n1"}, true}, // it lies in the tree of the shared one
		{at{"/home/a", "n1"}, at{"/home/a/b", "n1"}, true},
		{at{"/home/a", "n1"}, at{"/home/a", "n2"}, false},
		{at{"cold:deep/x", ""}, at{"deep:x", ""}, true},
		{at{"cold:x", ""}, at{"s3://archive/x/y", "n1"}, true},
		{at{"cold:x", ""}, at{"s3://other/x", ""}, false},
		{at{"cold:", ""}, at{"/lustre", ""}, false},
		{at{"cold:x", ""}, at{"/", ""}, false},
	} {
		a, b := Address(row.a.text, row.a.node, site()), Address(row.b.text, row.b.node, site())
		if Overlap(a, b) != row.want || Overlap(b, a) != row.want {
			t.Errorf("%v at %s and %v at %s overlap: %v and %v, want %v", row.a, a, row.b, b, Overlap(a, b), Overlap(b, a), row.want)
		}
	}
}

// TestInTiers: a location in a tier that there is not is a word that is wrong, and the tiers that there are help.
func TestInTiers(t *testing.T) {
	must.Do(t, InTiers(&pb.TaskSpec{Source: "project:a", Target: "s3://team/a"}, site()))
	for _, spec := range []*pb.TaskSpec{{Source: "projct:a"}, {Sources: []string{"project:a", "projct:b"}}, {Target: "projct:"}} {
		err := InTiers(spec, site())
		if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "cold, deep, project, scratch") {
			t.Errorf("%v: %v", spec, err)
		}
	}
}
