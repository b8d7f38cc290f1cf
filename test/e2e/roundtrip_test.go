package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// level is how a copy to a server has to be checked: by the server where it
// compares, else by reading back.
func level(t *testing.T, server *s3test.Server) string {
	return max(mover.Server, s3test.Open(t, server.Options(t)).Capabilities().Least).String()
}

// user is the program, as somebody uses it who has a bucket on the server.
func user(t *testing.T, server *s3test.Server) *rig.Program {
	p := rig.New(t)
	p.Env = []string{
		"AWS_ENDPOINT_URL_S3=" + server.Endpoint, "AWS_CA_BUNDLE=" + server.CA, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=" + server.Access, "AWS_SECRET_ACCESS_KEY=" + server.Secret,
	}
	return p
}

// report is what the program says at the end, as datamove.report/v1.
type report struct {
	Files   int64            `json:"files"`
	Removed int64            `json:"removed"`
	Levels  map[string]int64 `json:"levels"`
}

func do(t *testing.T, p *rig.Program, args ...string) (r report) {
	t.Helper()
	run := p.Do(t, 0, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(run.Stdout()), &r); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, run.Stdout())
	}
	return r
}

// TestRoundTrip: a tree with everything that a tree can have goes to the server
// and comes back as it was; so does what is changed in it; the levels are true; and
// what is removed is gone.
func TestRoundTrip(t *testing.T) {
	protocols(t, func(t *testing.T, server *s3test.Server) {
		tree, p := rig.Memory(t), user(t, server)
		rig.Make(t, tree, rig.Shape{Seed: 3, Small: 150, Large: 1, LargeBytes: 33<<20 + 7, Odd: true, OddBytes: 8 << 20, Special: os.Geteuid() == 0})
		bucket := "s3://" + server.Bucket + "/" + server.Options(t).Prefix
		checked := level(t, server)

		up := do(t, p, "copy", tree, bucket)
		if want := map[string]int64{checked: up.Files}; up.Files < 150 || !maps.Equal(up.Levels, want) {
			t.Errorf("%d files are checked as %v, want %v", up.Files, up.Levels, want)
		}
		if again := do(t, p, "copy", tree, bucket); again.Files != 0 {
			t.Errorf("a second copy moves %d files", again.Files)
		}
		p.Do(t, 0, "verify", "-q", tree, bucket)
		back := filepath.Join(rig.Memory(t), "back")
		do(t, p, "copy", "--preserve=privileges", bucket, back)
		rig.SameTrees(t, tree, back, true)

		gone := change(t, tree)
		if r := do(t, p, "sync", "--delete", tree, bucket); r.Files != 2 || r.Removed != gone || r.Levels[checked] != 2 {
			t.Errorf("the change is moved as %+v, want 2 files and %d removals", r, gone)
		}
		do(t, p, "sync", "--delete", "--preserve=privileges", bucket, back)
		rig.SameTrees(t, tree, back, false)

		do(t, p, "rm", "-r", "--yes", bucket)
		if left := p.Do(t, 0, "ls", "-r", "-o", "name", "s3://"+server.Bucket+"/").Stdout(); strings.Contains(left, filepath.Base(bucket)+"/") { // the prefix itself may be an object
			t.Errorf("rm has left something of %s\n%s", bucket, left)
		}
	})
}

// change replaces a small and a large file, and removes the files of a directory;
// it returns how many entries are gone.
func change(t *testing.T, tree string) (gone int64) {
	t.Helper()
	for name, bytes := range map[string]int{"small/000/file-00000.bin": 100, "large/weights-0.bin": 18 << 20} {
		must.Do(t, os.WriteFile(filepath.Join(tree, name), []byte(strings.Repeat("changed", bytes/7)), 0o644))
	}
	removed := filepath.Join(tree, "small", "001")
	files, err := os.ReadDir(removed)
	if err == nil {
		err = os.RemoveAll(removed)
	}
	must.Do(t, err)
	return int64(len(files)) + 1
}
