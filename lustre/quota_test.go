package lustre

import (
	"testing"
	"time"
)

func TestLeft(t *testing.T) {
	limited := func(hard, used int64, around ...Quota) Quota {
		return Quota{Limits: Limits{HardBytes: hard, HardFiles: hard}, UsedBytes: used, UsedFiles: used, Around: around}
	}
	for _, c := range []struct {
		name string
		q    Quota
		left int64
		ok   bool
	}{
		{"no limit", limited(0, 7), 0, false},
		{"room", limited(10, 7), 3, true},
		{"over", limited(10, 17), 0, true},
		{"the outer one is nearer", limited(10, 7, limited(100, 99)), 1, true},
		{"the outer one is farther", limited(10, 7, limited(100, 9)), 3, true},
		{"only the outermost has a limit", limited(0, 7, limited(0, 8), limited(20, 9)), 11, true},
		{"the outer one is over", limited(10, 7, limited(0, 8, limited(5, 9))), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if left, ok := c.q.LeftBytes(); left != c.left && c.ok || ok != c.ok {
				t.Errorf("%d bytes left, %v; want %d, %v", left, ok, c.left, c.ok)
			}
			if left, ok := c.q.LeftFiles(); left != c.left && c.ok || ok != c.ok {
				t.Errorf("%d files left, %v; want %d, %v", left, ok, c.left, c.ok)
			}
		})
	}
}

// TestExhausted: which limit has a file system refuse everything more, and of which quota that is.
func TestExhausted(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	over := Quota{Project: Project{ID: 7}, Limits: Limits{HardBytes: 1}, UsedBytes: 2, Enforced: true}
	for _, row := range []struct {
		what string
		set  func(q *Quota)
		of   uint32
		by   Limit
	}{
		{"there is room", func(*Quota) {}, 0, NoLimit},
		{"no limit is set", func(q *Quota) { q.UsedBytes, q.UsedFiles, q.Limits = 1<<50, 1<<50, Limits{} }, 0, NoLimit},
		{"the last byte is used", func(q *Quota) { q.UsedBytes = 100 }, 42, HardBytesLimit},
		{"the last file is there", func(q *Quota) { q.UsedFiles = 10 }, 42, HardFilesLimit},
		{"files are not counted", func(q *Quota) { q.UsedFiles, q.CountsFiles = 10, false }, 0, NoLimit},
		{"the grace of bytes is over", func(q *Quota) { q.BytesUntil = now.Add(-time.Second) }, 42, SoftBytesLimit},
		{"and lasts", func(q *Quota) { q.BytesUntil = now.Add(time.Second) }, 0, NoLimit},
		{"the grace of files is over", func(q *Quota) { q.FilesUntil = now.Add(-time.Second) }, 42, SoftFilesLimit},
		{"it is not enforced", func(q *Quota) { q.UsedBytes, q.Enforced = 100, false }, 0, NoLimit},
		{"one around is used up", func(q *Quota) { q.Around = []Quota{{Enforced: true}, over} }, 7, HardBytesLimit},
		{"and this one does not enforce its own", func(q *Quota) { q.Enforced, q.Around = false, []Quota{over} }, 7, HardBytesLimit},
		{"both are: the narrowest is told", func(q *Quota) { q.UsedFiles, q.Around = 10, []Quota{over} }, 42, HardFilesLimit},
	} {
		q := Quota{Project: Project{ID: 42}, Limits: Limits{SoftBytes: 50, HardBytes: 100, SoftFiles: 5, HardFiles: 10}, UsedBytes: 99, UsedFiles: 9, CountsFiles: true, Enforced: true}
		row.set(&q)
		of, by := q.Exhausted(now)
		id := uint32(0)
		if of != nil {
			id = of.Project.ID
		}
		if by != row.by || id != row.of {
			t.Errorf("%s: %q of project %d, want %q of %d", row.what, by, id, row.by, row.of)
		}
	}
}
