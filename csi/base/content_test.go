package base

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// snapshotOf is the wish for a snapshot.
func snapshotOf(b *Base, name string, of volume.ID) Wish {
	return Wish{ID: volume.ID{Kind: volume.Snapshot, FileSystem: "lab", Key: volume.KeyOf(b.Identity, volume.Snapshot, name)}, Name: name, From: &of}
}

// TestSnapshotAndRestore: a snapshot has what was there at its moment, is changed by nobody, outlives its volume,
// and becomes a volume again, with its own limit.
func TestSnapshotAndRestore(t *testing.T) {
	b := opened(t, onBtrfs(t))
	w := wish(t, b, "pvc-1", 20*mib, "trash", "0s", "mode", "1777")
	_, err := b.Make(t.Context(), w)
	must.Do(t, err)
	file := filepath.Join(pathOf(t, b, w.ID), "file")
	must.Do(t, os.WriteFile(file, []byte("before"), 0o600))
	s := snapshotOf(b, "snap-1", w.ID)
	r, err := b.Make(t.Context(), s)
	must.Do(t, err)
	again, err := b.Make(t.Context(), s)
	must.Do(t, err)
	if again.Mark != r.Mark {
		t.Errorf("%+v, and then %+v", r, again)
	}
	must.Do(t, os.WriteFile(file, []byte("after"), 0o600))
	frozen := pathOf(t, b, s.ID)
	if err := os.WriteFile(filepath.Join(frozen, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("a snapshot was changed: %v", err)
	}
	must.Do(t, b.Remove(t.Context(), w.ID, "test"))
	gone, _, err := b.Reap(t.Context(), time.Now())
	if gone != 1 || err != nil {
		t.Errorf("%d, %v", gone, err)
	}
	restored := wish(t, b, "pvc-2", 30*mib)
	restored.From = &s.ID
	_, err = b.Make(t.Context(), restored)
	must.Do(t, err)
	top := pathOf(t, b, restored.ID)
	if got, err := os.ReadFile(filepath.Join(top, "file")); err != nil || string(got) != "before" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Stat(top); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("%v, %v", info, err)
	}
	if n, err := fill(filepath.Join(top, "big"), 60*mib); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("%d, %v", n, err)
	}
	must.Do(t, b.Remove(t.Context(), s.ID, "test"))
	if gone, _, err := b.Reap(t.Context(), time.Now().Add(48*time.Hour)); gone != 1 || err != nil {
		t.Errorf("%d, %v", gone, err)
	}
	if got, err := os.ReadFile(filepath.Join(top, "file")); err != nil || string(got) != "before" {
		t.Errorf("without its snapshot: %q, %v", got, err)
	}
}

// TestCopyIsAskedFor: where the file system can not clone, who makes the volume is told what to copy, and until
// that is done there is no volume.
func TestCopyIsAskedFor(t *testing.T) {
	b := opened(t, inMemory(t))
	w := wish(t, b, "pvc-1", mib)
	_, err := b.Make(t.Context(), w)
	must.Do(t, err)
	must.Do(t, os.WriteFile(filepath.Join(pathOf(t, b, w.ID), "file"), []byte("content"), 0o600))
	clone := wish(t, b, "pvc-2", mib)
	clone.From = &w.ID
	for range 2 {
		_, err = b.Make(t.Context(), clone)
		var u *Unfilled
		if !errors.As(err, &u) {
			t.Fatal(err)
		}
		if _, err := b.Find(t.Context(), clone.ID); err == nil {
			t.Error("it is found before it is whole")
		}
		content := must.Get(os.ReadFile(filepath.Join(b.spec.Root, u.Source, "file")))(t)
		must.Do(t, os.WriteFile(filepath.Join(b.spec.Root, u.Target, "file"), content, 0o600))
	}
	_, err = b.Filled(t.Context(), clone)
	must.Do(t, err)
	if got, err := os.ReadFile(filepath.Join(pathOf(t, b, clone.ID), "file")); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
}
