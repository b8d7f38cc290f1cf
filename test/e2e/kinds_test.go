package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// TestKinds: a file becomes a folder and a folder a file. A server that can have both
// under one name keeps what a copy does not bring; one that can not is told what
// gives way.
//
//safety:5 with test/script/s3/kinds.txt
func TestKinds(t *testing.T) {
	protocols(t, func(t *testing.T, server *s3test.Server) {
		tree, p := t.TempDir(), user(t, server)
		o := server.Options(t)
		bucket := "s3://" + server.Bucket + "/" + o.Prefix
		place := s3test.Open(t, o)
		twins := place.Capabilities().FileAndDirShareName
		write := func(names ...string) {
			for _, name := range names {
				path := filepath.Join(tree, name)
				must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must.Do(t, os.WriteFile(path, []byte(name), 0o644))
			}
		}
		remove := func(names ...string) {
			for _, name := range names {
				must.Do(t, os.RemoveAll(filepath.Join(tree, name)))
			}
		}
		holds := func(want ...string) {
			t.Helper()
			got := strings.Fields(p.Do(t, 0, "ls", "-r", "-o", "name", bucket).Stdout())
			if !slices.Equal(got, want) {
				t.Errorf("the bucket holds %q, want %q", got, want)
			}
		}

		write("a", "a.txt", "d/f")
		do(t, p, "copy", tree, bucket)
		remove("a", "d")
		write("a/b", "d")
		do(t, p, "sync", "--delete", tree, bucket)
		holds("a.txt", "a", "a/b", "d")
		p.Do(t, 0, "verify", "-q", tree, bucket)

		remove("a", "d")
		write("a", "d/f")
		if !twins {
			p.Do(t, 5, "copy", "-q", tree, bucket) // the folder a is in the way
			holds("a.txt", "a", "a/b", "d", "d/f")
		} else {
			do(t, p, "copy", tree, bucket)
			holds("a", "a.txt", "a", "a/b", "d", "d", "d/f")
		}
		do(t, p, "sync", "--delete", tree, bucket)
		holds("a", "a.txt", "d", "d/f")
		p.Do(t, 0, "verify", "-q", tree, bucket)
	})
}
