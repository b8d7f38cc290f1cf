package root

import (
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// TestTierRoom: a file system that is half empty can have a project that is full, and a
// server.
func TestTierRoom(t *testing.T) {
	root := t.TempDir()
	f := newFakeLustre(root)
	config := filepath.Join(root, "config.yaml")
	must.Do(t, os.WriteFile(config, []byte("tiers:\n  project: {level: warm, path: "+root+"}\n  gone: {level: hot, path: /nowhere}\n"), 0o600))
	run := onLustre(f)
	run("--config", config, "tier", "df").wants(t, 0, `QUOTA LEFT  FULLEST`, `^project .* - +40% `, `^gone .* - +- `)
	f.projects[root] = lustre.Project{ID: 42, Inherit: true}
	f.quotas[lustre.Project{ID: 42}] = lustre.Quota{Limits: lustre.Limits{HardBytes: 10 << 40}, UsedBytes: 9 << 40}
	f.targets[2].FreeBytes = 0
	f.targets[3].Inactive = "it does not answer"
	run("--config", config, "tier", "df", "project").wants(t, 0, `^project .* 1.00 TiB +100% `)
	run("--config", config, "tier", "df", "-o", "yaml", "project").wants(t, 0, `^    fullest:$`, `^      name: lab-OST0002_UUID$`, `^      left_bytes: 1099511627776$`,
		`^    inactive:$`, `why: it does not answer`)
	run("--config", config, "tier", "list", "-o", "json").wants(t, 0, `"total_bytes"`)
}
