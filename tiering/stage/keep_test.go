package stage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/crash/rig"
)

// TestKeep: leases of those who are alive are renewed, those of the dead are dropped when nobody can be about to
// need them, and those of others are left alone.
func TestKeep(t *testing.T) {
	dir, client := served(t)
	m := &Mover{Dial: func(context.Context) (*api.Client, error) { return client, nil }, Node: "n1"}
	held := func(holder string) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			_, err := m.Stage(t.Context(), Source{Location: filepath.Join(dir, "shared/train"), Tier: "scratch"}, holder)
			if err == nil {
				return
			}
			if time.Now().After(limit) {
				t.Fatal(err)
			}
		}
	}
	for _, holder := range []string{"csi:alive", "csi:dead", "slurm:7"} {
		held(holder)
	}
	leases := func() map[string]time.Time {
		t.Helper()
		ends := map[string]time.Time{}
		for l, err := range client.Leases(t.Context(), &datamovev1.ListLeasesRequest{}) {
			must(t, err)
			ends[l.GetHolder()] = l.GetExpireTime().AsTime()
		}
		return ends
	}
	alive := func(holder string) bool { return strings.HasSuffix(holder, "alive") }
	before := leases()
	must(t, m.keep(t.Context(), "csi:", alive))
	after := leases()
	if len(after) != 3 || !after["csi:alive"].After(before["csi:alive"]) || !after["slurm:7"].Equal(before["slurm:7"]) {
		t.Errorf("%v, then %v", before, after)
	}
	m.Grace = time.Nanosecond
	must(t, m.keep(t.Context(), "csi:", alive))
	if left := leases(); len(left) != 2 || left["csi:dead"] != (time.Time{}) {
		t.Errorf("%v", left)
	}
}

// served starts a mover with the tiers shared and scratch, directories below dir, and a file in shared/train.
func served(t *testing.T) (dir string, client *api.Client) {
	t.Helper()
	dir = prepared(t)
	started(t, dir).Until("it answers", func() (ok bool) {
		var err error
		client, err = api.Dial(t.Context(), socketIn(dir), api.Options{})
		return err == nil
	})
	t.Cleanup(func() { must(t, client.Close()) })
	return dir, client
}

func socketIn(dir string) string { return "unix://" + filepath.Join(dir, "sock") }

// prepared makes what a mover needs.
func prepared(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"shared/train", "shared/val", "scratch"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(dir, "shared/train/file"), []byte("train"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "config.yaml"), fmt.Appendf(nil, "tiers:\n  scratch: {level: hot, path: %[1]s/scratch, ephemeral: true, node_local: true}\n  shared: {level: warm, path: %[1]s/shared}\n", dir), 0o644))
	return dir
}

// started starts a mover, on a node n1.
func started(t *testing.T, dir string) *rig.Run {
	t.Helper()
	return rig.NewCommand(t, "datamoved").Start(t, "--config", filepath.Join(dir, "config.yaml"), "--data", filepath.Join(dir, "data"), "--listen", socketIn(dir), "--node", "n1")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
