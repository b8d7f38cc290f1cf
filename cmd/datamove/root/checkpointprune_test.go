package root

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
)

// TestPruneReads: before older checkpoints go, prune reads those that stay, however short ago that was done, unless it is told to trust that. What is damaged does not count.
func TestPruneReads(t *testing.T) {
	for _, row := range []struct {
		what string
		ago  time.Duration // when they were verified
		args []string
		goes bool
	}{
		{"just now", 0, nil, false},
		{"two days ago", 48 * time.Hour, nil, false},
		{"two days ago, and a day is trusted", 48 * time.Hour, []string{"--trust", "24h"}, false},
		{"just now, and a day is trusted", 0, []string{"--trust", "24h"}, true},
	} {
		t.Run(row.what, func(t *testing.T) {
			kept := keptDamaged(t, row.ago)
			code, out, said := try(t, "checkpoint", "prune", "--keep-last", "2", "--dry-run", kept)
			if code != 0 || !strings.Contains(said, "a dry run reads nothing") {
				t.Errorf("a dry run: exit %d\n%s%s", code, out, said)
			}
			code, out, said = try(t, append([]string{"checkpoint", "prune", "--keep-last", "2", "--yes", kept}, row.args...)...)
			if code != 0 || strings.Contains(said, "is damaged") == row.goes {
				t.Errorf("exit %d\n%s%s", code, out, said)
			}
			for n := 1; n <= 2; n++ {
				if b, err := os.ReadFile(shardOf(kept, n)); row.goes != errors.Is(err, fs.ErrNotExist) || !row.goes && string(b) != "content" {
					t.Errorf("step_%d, which is whole: %q, %v", n, b, err)
				}
			}
		})
	}
}

func shardOf(root string, n int) string {
	return filepath.Join(root, fmt.Sprintf("step_%d", n), "__0_0.distcp")
}

// keptDamaged is a target that has four checkpoints, verified some time ago, of which the newest two are damaged, as long and as old as before.
func keptDamaged(t *testing.T, ago time.Duration) (kept string) {
	t.Helper()
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	kept = filepath.Join(dir, "kept")
	saved := time.Now().Add(-time.Hour)
	for n := 1; n <= 4; n++ {
		must.Do(t, os.MkdirAll(filepath.Dir(shardOf(run, n)), 0o755))
		for _, file := range []string{shardOf(run, n), filepath.Join(filepath.Dir(shardOf(run, n)), ".metadata")} {
			must.Do(t, os.WriteFile(file, []byte("content"), 0o644))
			at := saved.Add(time.Duration(n) * time.Minute)
			must.Do(t, os.Chtimes(file, at, at))
		}
	}
	if code, _, said := try(t, "checkpoint", "watch", run, "--to", kept, "--once", "--settle", "1ms"); code != 0 {
		t.Fatal(said)
	}
	for n := 1; n <= 4; n++ {
		record := filepath.Join(filepath.Dir(shardOf(kept, n)), checkpoint.Committed)
		c := checkpoint.ParseCommit(must.Get(os.ReadFile(record))(t))
		c.Created = c.Created.Add(-ago)
		must.Do(t, os.WriteFile(record, must.Get(c.Encode())(t), 0o644))
	}
	for n := 3; n <= 4; n++ {
		var st unix.Stat_t
		must.Do(t, unix.Stat(shardOf(kept, n), &st))
		must.Do(t, os.WriteFile(shardOf(kept, n), []byte("CONTENT"), 0o644))
		must.Do(t, unix.UtimesNanoAt(unix.AT_FDCWD, shardOf(kept, n), []unix.Timespec{st.Atim, st.Mtim}, 0))
	}
	return kept
}
