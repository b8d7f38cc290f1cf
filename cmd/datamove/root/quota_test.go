package root

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// TestQuotaCommands is a session on a Lustre; test/script/btrfs/quota.txt is one on a real
// btrfs.
func TestQuotaCommands(t *testing.T) {
	root := t.TempDir()
	f := newFakeLustre(root)
	run := onLustre(f)
	dir, file := filepath.Join(root, "vision"), filepath.Join(root, "file")
	for _, err := range []error{os.Mkdir(dir, 0o755), os.WriteFile(file, nil, 0o600)} {
		must.Do(t, err)
	}

	// Who is in no project is not held by any limit.
	run("quota", "show", dir).wants(t, 0, `^- +0 B .* none  .*vision$`, `note: .*vision is in no project`)
	run("quota", "set", "--bytes", "1TiB", dir).wants(t, 2, `is in no project`, `try: --project ID`)

	// It is put into one, with limits. What is not named stays.
	run("quota", "set", "--project", "4242", "--bytes", "10TiB", "--files", "1000000", dir).wants(t, 0,
		`^PROJECT +USED +HARD +LEFT +FILES +HARD +LEFT  HELD    PATH$`, `^4242 +0 B  10.0 TiB  10.0 TiB +0  1,000,000  1,000,000  users   .*vision$`)
	run("quota", "set", "--soft-bytes", "9TiB", dir).wants(t, 0, `^PROJECT +USED +SOFT +HARD +LEFT +FILES +SOFT +HARD +LEFT  HELD    PATH$`, `^4242 +0 B +9.00 TiB +10.0 TiB .* 1,000,000  users`)
	run("quota", "set", "--soft-bytes", "11TiB", dir).wants(t, 2, `is above the hard one`)
	run("quota", "set", "--bytes", "none", "--soft-bytes", "none", dir).wants(t, 0, `^4242 +0 B +- +- +0 `)

	// One that is full on an OST is told so, though it is not as a whole.
	project := lustre.Project{ID: 4242}
	q := f.quotas[project]
	q.HardBytes, q.UsedBytes, q.HardFiles, q.UsedFiles = 10<<40, 4<<40, 100, 250
	q.FilesUntil = time.Now().Add(time.Hour)
	q.Targets = []lustre.TargetQuota{{Target: "lab-OST0000", UsedBytes: 3 << 40, GrantedBytes: 2 << 40}, {Target: "lab-OST0001", UsedBytes: 1 << 40, GrantedBytes: 2 << 40},
		{Target: "flash", Pool: true, UsedBytes: 5 << 30, GrantedBytes: 5 << 30}, {Target: "disk", Pool: true, UsedBytes: 1 << 30, GrantedBytes: 6 << 30}}
	f.quotas[project] = q
	s := run("quota", "show", dir)
	s.wants(t, 0, `^4242 +4.00 TiB +10.0 TiB +6.00 TiB +250 +100 +0  users +.*vision \(over the soft limit of files, until `,
		`^  lab-OST0000 +3.00 TiB +2.00 TiB .* over its share$`,
		`^  pool flash +5.00 GiB +5.00 GiB .* full: nothing more goes to its OSTs$`, `^  pool disk +1.00 GiB +6.00 GiB`)
	run("quota", "show", "-o", "wide", dir).wants(t, 0, `^  lab-OST0001 +1.00 TiB +2.00 TiB`)
	var v []quotaJSON
	must.Do(t, json.Unmarshal([]byte(run("quota", "show", "-o", "json", dir).out), &v))
	if len(v) != 1 || *v[0].LeftBytes != 6<<40 || *v[0].LeftFiles != 0 || !v[0].Targets[0].Over || v[0].Targets[1].Over || !v[0].Targets[2].Over || v[0].Targets[3].Over || !v[0].Targets[3].Pool || v[0].FilesUntil == nil || v[0].BytesUntil != nil {
		t.Errorf("%+v", v)
	}
	run("quota", "set", "--bytes", "1TiB", dir).wants(t, 0, `note: .* holds more than that already`)

	// Below it things are in the project, too. What was there before is not, and that is said.
	run("quota", "set", "--project", "7", root).wants(t, 0, `note: .* what was in it before is not`)
	// A directory is made for a project; one that comes to nothing is gone again.
	run("quota", "set", "--make", "--project", "8", "--files", "5", filepath.Join(root, "new")).wants(t, 0, `^8 +0 B`)
	run("quota", "set", "--make", "--project", "666", "--files", "5", filepath.Join(root, "denied")).wants(t, 4, `only root may set it`)
	if _, err := os.Stat(filepath.Join(root, "denied")); err == nil {
		t.Error("a directory without its limits is there")
	}
	run("quota", "set", "--make", "--files", "5", filepath.Join(root, "other")).wants(t, 2, `a project has a number`)
	run("quota", "set", "--make", "--project", "8", dir).wants(t, 5, `file exists`)
	run("quota", "set", "--bytes", "1", file).wants(t, 2, `is a file`)
	f.lacks = true
	run("quota", "show", dir, file).wants(t, 1, `quota of .*unsupported`)
	run("quota", "set", "--bytes", "1", dir).wants(t, 1, `quota of .*unsupported`)
}

// settled is a file system on which a directory stays in the project that it was made in,
// as on btrfs and GPFS.
type settled struct{ *fakeLustre }

func (settled) SetProject(context.Context, int, lustre.Project) error { return errors.ErrUnsupported }

func (settled) MakeProject(context.Context, int, string, uint32) (lustre.Project, error) {
	return lustre.Project{}, errors.ErrUnsupported
}

func (settled) RemoveProject(context.Context, int, string, lustre.Project) error {
	return errors.ErrUnsupported
}

// TestQuotaOfAnother: who names a project that a directory can not be put into has not set
// the limits of that one, which is somebody else's.
func TestQuotaOfAnother(t *testing.T) {
	f := newFakeLustre(t.TempDir())
	f.as = func(s *lustre.System) { s.Kind, s.Quota = lustre.IsBtrfs, settled{f} }
	f.projects[f.root] = lustre.Project{ID: 256, Inherit: true}
	run := onLustre(f)
	run("quota", "set", "--bytes", "1TiB", f.root).wants(t, 0, `^256 .* 1.00 TiB`)
	run("quota", "set", "--project", "257", "--bytes", "1GiB", f.root).wants(t, 1, `unsupported`)
	if q := f.quotas[lustre.Project{ID: 257}]; q.HardBytes != 0 {
		t.Errorf("project 257, which nobody is in, is limited to %d bytes", q.HardBytes)
	}
}
