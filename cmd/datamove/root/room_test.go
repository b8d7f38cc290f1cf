package root

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/quota"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestRoom: a directory of a project that is full, and one below it that there is not yet, are refused; what can not be seen is not.
func TestRoom(t *testing.T) {
	f := newFakeLustre(t.TempDir())
	dir := filepath.Join(f.root, "vision")
	must.Do(t, os.Mkdir(dir, 0o755))
	onLustre(f)("quota", "set", "--project", "4242", "--bytes", "10TiB", "--files", "100", dir).wants(t, 0)
	project, a := lustre.Project{ID: 4242}, &cli.App{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }, OpenSystem: f.open}
	for _, row := range []struct {
		what string
		set  func(q *lustre.Quota)
		want string // "" is room
	}{
		{"it is empty", func(*lustre.Quota) {}, ""},
		{"its bytes are used up", func(q *lustre.Quota) { q.UsedBytes = 10 << 40 }, "4242 has used 10.0 TiB, and may hold 10.0 TiB"},
		{"its files are", func(q *lustre.Quota) { q.UsedFiles = 100 }, "4242 has 100 files, and may have 100"},
		{"a soft limit was passed for too long", func(q *lustre.Quota) {
			q.SoftBytes, q.UsedBytes, q.BytesUntil = 1<<40, 2<<40, time.Now().Add(-time.Hour)
		}, "4242 has used 2.00 TiB, which is over its soft limit of 1.00 TiB, for too long"},
		{"and may be passed still", func(q *lustre.Quota) {
			q.SoftBytes, q.UsedBytes, q.BytesUntil = 1<<40, 2<<40, time.Now().Add(time.Hour)
		}, ""},
		{"there is no limit", func(q *lustre.Quota) { q.UsedBytes, q.HardBytes = 11<<40, 0 }, ""},
		{"the one around is used up", func(q *lustre.Quota) {
			q.Around = []lustre.Quota{{Project: lustre.Project{ID: 7}, UsedBytes: 2, Limits: lustre.Limits{HardBytes: 1}, Enforced: true}}
		}, "7 has used 2 B, and may hold 1 B"},
	} {
		t.Run(row.what, func(t *testing.T) {
			was := f.quotas[project]
			defer func() { f.quotas[project] = was }()
			q := was
			row.set(&q)
			f.quotas[project] = q
			for _, name := range []string{dir, filepath.Join(dir, "run1/out")} {
				err := quota.Room(t.Context(), a, name)
				switch {
				case row.want == "" && err != nil:
					t.Errorf("%s: %v", name, err)
				case row.want != "" && (!errors.Is(err, mover.ErrFull) || !strings.Contains(err.Error(), row.want)):
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	f.lacks = true
	if err := quota.Room(t.Context(), a, dir); err != nil {
		t.Errorf("it is not seen: %v", err)
	}
}
