package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
)

// TestPruneReads: before older checkpoints go, prune reads those that stay if that was not done for a day. What is damaged does not count.
func TestPruneReads(t *testing.T) {
	dir := t.TempDir()
	run, kept := filepath.Join(dir, "run"), filepath.Join(dir, "kept")
	saved := time.Now().Add(-time.Hour)
	shard := func(root string, n int) string { return filepath.Join(root, fmt.Sprintf("step_%d", n), "__0_0.distcp") }
	for n := 1; n <= 4; n++ {
		must.Do(t, os.MkdirAll(filepath.Dir(shard(run, n)), 0o755))
		for _, file := range []string{shard(run, n), filepath.Join(filepath.Dir(shard(run, n)), ".metadata")} {
			must.Do(t, os.WriteFile(file, []byte("content"), 0o644))
			at := saved.Add(time.Duration(n) * time.Minute)
			must.Do(t, os.Chtimes(file, at, at))
		}
	}
	if code, _, said := try(t, "checkpoint", "watch", run, "--to", kept, "--once", "--settle", "1ms"); code != 0 {
		t.Fatal(said)
	}
	for n := 1; n <= 4; n++ {
		record := filepath.Join(filepath.Dir(shard(kept, n)), checkpoint.Committed)
		c := checkpoint.ParseCommit(must.Get(os.ReadFile(record))(t))
		c.Created, c.Checked = c.Created.Add(-48*time.Hour), time.Time{}
		must.Do(t, os.WriteFile(record, must.Get(c.Encode())(t), 0o644))
	}
	for n := 3; n <= 4; n++ { // with its size and time
		var st unix.Stat_t
		must.Do(t, unix.Stat(shard(kept, n), &st))
		must.Do(t, os.WriteFile(shard(kept, n), []byte("CONTENT"), 0o644))
		must.Do(t, unix.UtimesNanoAt(unix.AT_FDCWD, shard(kept, n), []unix.Timespec{st.Atim, st.Mtim}, 0))
	}
	code, out, said := try(t, "checkpoint", "prune", "--keep-last", "2", "--yes", kept)
	if code != 0 || strings.Count(said, "is damaged") != 2 {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
	for n := 1; n <= 2; n++ {
		if b, err := os.ReadFile(shard(kept, n)); err != nil || string(b) != "content" {
			t.Errorf("step_%d, which is whole: %q, %v", n, b, err)
		}
	}
}
