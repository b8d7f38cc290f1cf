package mount

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// TestNFS: a server whose root is in CSI_NFS, and on this machine at CSI_NFS_EXPORT, is mounted without mount.nfs, also a directory
// of it alone, and taken away again.
func TestNFS(t *testing.T) {
	source, export := os.Getenv("CSI_NFS"), os.Getenv("CSI_NFS_EXPORT")
	if source == "" {
		loopfs.SkipRare(t, "needs a server of NFS")
	}
	const below = "k8s/volumes/1/data"
	must.Do(t, os.MkdirAll(filepath.Join(export, below), 0o755))
	whole := Spec{Type: "nfs4", Source: source, Options: []string{"vers=4.2", "proto=tcp", "clientaddr=127.0.0.1", "noatime"}}
	one := must.Get(whole.Below(below, ""))(t)
	dir := t.TempDir()
	for name, s := range map[string]Spec{"whole": whole, "one": one} {
		target := filepath.Join(dir, name)
		for range 2 {
			must.Do(t, FileSystem(t.Context(), s, target))
		}
		m, mounted, err := At(target)
		if err != nil || !mounted || m.Type != "nfs4" || m.Source != s.Source {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "one/new"), []byte("new"), 0o644))
	if got, err := os.ReadFile(filepath.Join(dir, "whole", below, "new")); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if err := FileSystem(t.Context(), whole, filepath.Join(dir, "one")); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("what is mounted there is taken for another one: %v", err)
	}
	for _, name := range []string{"whole", "one"} {
		target := filepath.Join(dir, name)
		for _, p := range Phases {
			if err := Unmount(target, p); err != nil {
				t.Errorf("%s: %v", p, err)
			}
		}
		if _, mounted, err := At(target); mounted || err != nil {
			t.Errorf("%t, %v", mounted, err)
		}
	}
}
