package volumestore

import (
	"errors"
	"fmt"
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

// TestOwnerOfClone: what begins with another volume has the owner and mode that its class says, and those of its beginning where that says nothing.
// A snapshot keeps all of them.
func TestOwnerOfClone(t *testing.T) {
	b := opened(t, onBtrfs(t))
	w := wish(t, b, "pvc-1", 20*mib, "uid", "7", "mode", "0750")
	_, err := b.Make(t.Context(), w)
	must.Do(t, err)
	s := snapshotOf(b, "snap-1", w.ID)
	must.Do(t, os.Chown(pathOf(t, b, w.ID), 7, 2000)) // as a pod with an fsGroup leaves it
	must.Do(t, os.Chmod(pathOf(t, b, w.ID), 0o770|os.ModeSetgid))
	_, err = b.Make(t.Context(), s)
	must.Do(t, err)
	for i, row := range []struct {
		from  *volume.ID
		class []string
		said  Said
		want  string
	}{
		{nil, []string{"uid", "1000", "gid", "1000", "mode", "0750"}, Said{}, "1000:1000 750"},
		{&w.ID, []string{"uid", "1000", "gid", "1000", "mode", "0750"}, Said{true, true, true}, "1000:1000 750"},
		{&s.ID, []string{"uid", "1000", "gid", "1000", "mode", "0750"}, Said{true, true, true}, "1000:1000 750"},
		{&w.ID, nil, Said{}, "7:2000 2770"},
		{&s.ID, nil, Said{}, "7:2000 2770"},
		{&w.ID, []string{"uid", "1000"}, Said{UID: true}, "1000:2000 2770"},
		{&w.ID, []string{"uid", "0", "gid", "0"}, Said{UID: true, GID: true}, "0:0 2770"},
		{&s.ID, []string{"mode", "0755"}, Said{Mode: true}, "7:2000 755"},
	} {
		clone := wish(t, b, fmt.Sprintf("clone-%d", i), 20*mib, row.class...)
		clone.From, clone.Said = row.from, row.said
		_, err := b.Make(t.Context(), clone)
		must.Do(t, err)
		var st unix.Stat_t
		must.Do(t, unix.Stat(pathOf(t, b, clone.ID), &st))
		if got := fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode&0o7777); got != row.want {
			t.Errorf("from %v, class %q: %s, and not %s", row.from, row.class, got, row.want)
		}
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
