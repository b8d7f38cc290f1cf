package volumestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestRestore: what was removed can be brought back, until it is destroyed or its name is taken.
//
//safety:5/volumes what was removed can be brought back until it is destroyed, never half; what has to be archived first stays
func TestRestore(t *testing.T) {
	for name, spec := range map[string]func(*testing.T) Spec{"memory": inMemory, "btrfs": onBtrfs} {
		t.Run(name, func(t *testing.T) {
			b := opened(t, spec(t))
			w := wish(t, b, "pvc-1", 20*mib)
			made, err := b.Make(t.Context(), w)
			must.Do(t, err)
			must.Do(t, os.WriteFile(filepath.Join(pathOf(t, b, w.ID), "file"), []byte("kept"), 0o600))
			_, err = b.Restore(t.Context(), w.ID)
			if !errors.Is(err, mover.ErrNotExist) {
				t.Errorf("one that was not removed: %v", err)
			}
			for range 2 { // removed, and brought back, twice
				must.Do(t, b.Remove(t.Context(), w.ID, "test"))
				if all, err := b.Trash(t.Context()); err != nil || len(all) != 1 || all[0].Stone.By != "test" || all[0].Record.Mark != made.Mark {
					t.Fatalf("%+v, %v", all, err)
				}
				back := must.Get(b.Restore(t.Context(), w.ID))(t)
				if back.Mark != made.Mark || back.Bytes != 20*mib {
					t.Errorf("%+v", back)
				}
				if got, err := os.ReadFile(filepath.Join(pathOf(t, b, w.ID), "file")); err != nil || string(got) != "kept" {
					t.Errorf("%q, %v", got, err)
				}
			}
			// A name that is taken meanwhile stays whose it is.
			must.Do(t, b.Remove(t.Context(), w.ID, "test"))
			other, err := b.Make(t.Context(), w)
			must.Do(t, err)
			if _, err := b.Restore(t.Context(), w.ID); !errors.Is(err, mover.ErrConflict) {
				t.Errorf("%v", err)
			}
			if f, err := b.Find(t.Context(), w.ID); err != nil || f.Record.Mark != other.Mark {
				t.Errorf("%v", err)
			} else {
				f.Close()
			}
			// From the moment on that it is being destroyed, nothing is brought back.
			must.Do(t, b.Remove(t.Context(), w.ID, "test"))
			over, cancel := context.WithCancel(t.Context())
			cancel()
			before, left, _ := b.Reap(over, time.Now().Add(48*time.Hour))
			if before+left != 2 {
				t.Errorf("%d are gone, and %d left", before, left)
			}
			if _, err := b.Restore(t.Context(), w.ID); !errors.Is(err, mover.ErrNotExist) {
				t.Errorf("%v", err)
			}
			if gone, left, err := b.Reap(t.Context(), time.Now()); before+gone != 2 || left != 0 || err != nil {
				t.Errorf("%d, %d, %v", gone, left, err)
			}
		})
	}
}

// TestUnarchived: what has to be archived stays until that was done, however long it lies there.
//
//safety:5/volumes with TestRestore
func TestUnarchived(t *testing.T) {
	b := opened(t, inMemory(t))
	w := wish(t, b, "pvc-1", mib, "onDelete", "archive", "archiveTo", "cold:attic", "trash", "0s", "csi.storage.k8s.io/pvc/namespace", "vision", "csi.storage.k8s.io/pvc/name", "home")
	_, err := b.Make(t.Context(), w)
	must.Do(t, err)
	must.Do(t, os.WriteFile(filepath.Join(pathOf(t, b, w.ID), "file"), []byte("kept"), 0o600))
	must.Do(t, b.Remove(t.Context(), w.ID, "test"))
	later := time.Now().Add(1000 * time.Hour)
	if gone, _, err := b.Reap(t.Context(), later); gone != 0 || err != nil {
		t.Fatalf("%d, %v", gone, err)
	}
	all, err := b.Unarchived(t.Context())
	if err != nil || len(all) != 1 || all[0].Target != "cold:attic/vision/home/"+all[0].Name {
		t.Fatalf("%+v, %v", all, err)
	}
	if got, err := os.ReadFile(filepath.Join(b.spec.Root, all[0].Source, "file")); err != nil || string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
	must.Do(t, b.Archived(t.Context(), all[0].Name, time.Now()))
	if all, err := b.Unarchived(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if gone, _, err := b.Reap(t.Context(), later); gone != 1 || err != nil {
		t.Errorf("%d, %v", gone, err)
	}
}
