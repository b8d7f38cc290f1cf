package volumestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// somebody is who writes: root is not held to the quotas of every file system.
const somebody = 1234

// onDisk is a file system with project quotas, which few machines have.
func onDisk(t *testing.T, kind lustre.Kind, mkfs ...string) Spec {
	t.Helper()
	root := loopfs.Mount(t, loopfs.Spec{Type: string(kind), Make: append([]string{"-q"}, mkfs...), Options: "prjquota", Rare: true})
	s := Spec{Name: "lab", Kind: kind, Root: root, Volumes: "k8s", IDs: Range{First: 1000, Last: 1999}}
	b := opened(t, s)
	if b.handle.System.Quota == nil {
		loopfs.SkipRare(t, "this kernel has no project quotas for "+string(kind))
	}
	return s
}

// TestSystems: on each kind of file system a volume holds what it may and no more, grows, and leaves nothing behind. Those that are
// mounted by somebody else are in CSI_DIRS, as nfs=/nfs42,cephfs=/ceph.
func TestSystems(t *testing.T) {
	systems := map[string]func(t *testing.T) Spec{
		"btrfs":  onBtrfs,
		"memory": inMemory,
		"ext4": func(t *testing.T) Spec {
			return onDisk(t, lustre.IsExt4, "-O", "quota,project", "-E", "quotatype=prjquota")
		},
		"xfs": func(t *testing.T) Spec { return onDisk(t, lustre.IsXFS) },
	}
	for pair := range strings.SplitSeq(os.Getenv("CSI_DIRS"), ",") {
		if kind, dir, ok := strings.Cut(pair, "="); ok {
			systems[kind+" there"] = func(t *testing.T) Spec {
				volumes := "csi-" + random()
				t.Cleanup(func() { must.Do(t, os.RemoveAll(filepath.Join(dir, volumes))) })
				return Spec{Name: "lab", Kind: lustre.Kind(kind), Root: dir, Volumes: volumes, Unenforced: kind == string(lustre.IsNFS)}
			}
		}
	}
	for name, spec := range systems {
		t.Run(name, func(t *testing.T) { live(t, spec(t)) })
	}
}

// live is the life of a volume.
func live(t *testing.T, s Spec) {
	b := opened(t, s)
	w := wish(t, b, "pvc-1", 20*mib, "mode", "1777", "trash", "0s")
	r, err := b.Make(t.Context(), w)
	must.Do(t, err)
	if r.Enforced == s.Unenforced {
		t.Fatalf("%+v", r)
	}
	data := pathOf(t, b, w.ID)
	if info, err := os.Stat(data); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("%v, %v", info, err)
	}
	n, err := fillAs(t, filepath.Join(data, "a"), 200*mib, r.Enforced)
	if r.Enforced && (!errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.ENOSPC) || n > 60*mib) || !r.Enforced && err != nil {
		t.Errorf("%d, %v", n, err)
	}
	_, err = b.Expand(t.Context(), w.ID, 80*mib)
	must.Do(t, err)
	if n, err := fillAs(t, filepath.Join(data, "b"), 16*mib, r.Enforced); err != nil {
		t.Errorf("after it has grown: %d, %v", n, err)
	}
	f, err := b.Find(t.Context(), w.ID)
	must.Do(t, err)
	if stats, err := b.Stats(t.Context(), f); err != nil || r.Enforced && (stats.TotalBytes != 80*mib || stats.LeftBytes > 80*mib) {
		t.Errorf("%+v, %v", stats, err)
	}
	f.Close()

	clone := wish(t, b, "pvc-2", 80*mib, "trash", "0s")
	clone.From = &w.ID
	_, err = b.Make(t.Context(), clone)
	var u *Unfilled
	if errors.As(err, &u) { // who copies, is asked for; here it is nobody
		if _, err := os.Stat(filepath.Join(s.Root, u.Source, "b")); err != nil {
			t.Error(err)
		}
		_, err = b.Filled(t.Context(), clone)
	} else if err == nil {
		if info, statErr := os.Stat(filepath.Join(pathOf(t, b, clone.ID), "b")); statErr != nil || info.Size() != 16*mib {
			t.Errorf("%v, %v", info, statErr)
		}
	}
	must.Do(t, err)

	for _, id := range []volume.ID{w.ID, clone.ID} {
		must.Do(t, b.Remove(t.Context(), id, "test"))
		if _, err := b.Find(t.Context(), id); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
	if gone, left, err := b.Reap(t.Context(), time.Now()); gone != 2 || left != 0 || err != nil {
		t.Errorf("%d, %d, %v", gone, left, err)
	}
	nothingIn(t, b, volumesDir, makingDir, trashDir)
	settled(t, b)
	again, err := b.Make(t.Context(), w)
	must.Do(t, err)
	if entries, err := os.ReadDir(pathOf(t, b, w.ID)); err != nil || len(entries) > 0 || again.Mark == r.Mark {
		t.Errorf("%v, %v", entries, err)
	}
}

// fillAs writes as an ordinary user until a file has n bytes, or is refused. Where nothing is enforced, a little is enough.
func fillAs(t *testing.T, path string, n int64, enforced bool) (done int64, err error) {
	t.Helper()
	if !enforced {
		n = min(n, 16*mib)
	}
	dir, openErr := os.OpenRoot(filepath.Dir(path)) // what is above it may be nobody's else
	must.Do(t, openErr)
	defer dir.Close()
	must.Do(t, loopfs.As(somebody, func() {
		var f *os.File
		if f, err = dir.Create(filepath.Base(path)); err == nil {
			done, err = fillFile(f, n)
		}
	}))
	return done, err
}
