package volumestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// promised is a btrfs as the disk of a node.
func promised(t *testing.T) Spec {
	t.Helper()
	s := onBtrfs(t)
	s.Promise = &Promise{KeepFree: 20}
	return s
}

func spaceOf(t *testing.T, b *Base) Space {
	t.Helper()
	s := must.Get(b.Space(t.Context()))(t)
	return s
}

// TestPromises: volumes together are promised no more than there is, what is removed counts until it is
// gone, and one that is there is found though there would be no room for it.
//
//safety:8 volumes together are promised no more than there is, with snapshots, at once, and where others have filled the disk; a disk that is full
func TestPromises(t *testing.T) {
	b := opened(t, promised(t))
	space := spaceOf(t, b)
	if space.RoomBytes != space.TotalBytes-mover.Kept(space.TotalBytes, 20) || space.RoomBytes > 512*mib {
		t.Fatalf("%+v", space)
	}
	w := wish(t, b, "pvc-1", space.RoomBytes-10*mib, "trash", "0s")
	_, err := b.Make(t.Context(), w)
	must.Do(t, err)
	_, err = b.Make(t.Context(), w)
	must.Do(t, err)
	second := wish(t, b, "pvc-2", 20*mib)
	for range 2 {
		if _, err := b.Make(t.Context(), second); !errors.Is(err, mover.ErrFull) {
			t.Errorf("%v", err)
		}
	}
	must.Do(t, b.Remove(t.Context(), w.ID, "test"))
	if _, err := b.Make(t.Context(), second); !errors.Is(err, mover.ErrFull) {
		t.Errorf("what is in the trash was promised again: %v", err)
	}
	if gone, _, err := b.Reap(t.Context(), time.Now()); gone != 1 || err != nil {
		t.Errorf("%d, %v", gone, err)
	}
	_, err = b.Make(t.Context(), second)
	must.Do(t, err)
}

// TestPromisesOfSnapshots: a snapshot may come to hold all that its volume may, and counts as that.
//
//safety:8 with TestPromises
func TestPromisesOfSnapshots(t *testing.T) {
	b := opened(t, promised(t))
	half := spaceOf(t, b).RoomBytes/2 - mib
	w := forAll(t, b, "pvc-1", half)
	s := snapshotOf(b, "one", w.ID)
	_, err := b.Make(t.Context(), s)
	must.Do(t, err)
	if _, err := b.Make(t.Context(), snapshotOf(b, "two", w.ID)); !errors.Is(err, mover.ErrFull) {
		t.Errorf("%v", err)
	}
	if got := spaceOf(t, b); got.GivenBytes != 2*half || got.RoomBytes > 2*mib {
		t.Errorf("%+v", got)
	}
	must.Do(t, b.Remove(t.Context(), s.ID, "test"))
	_, _, err = b.Reap(t.Context(), time.Now())
	must.Do(t, err)
	if got := spaceOf(t, b); got.GivenBytes != half {
		t.Errorf("%+v", got)
	}
}

// TestPromisesTogether: volumes that grow at the same time are promised no more than there is.
//
//safety:8 with TestPromises
func TestPromisesTogether(t *testing.T) {
	s := promised(t)
	b := opened(t, s)
	const n = 8
	var wishes []Wish
	for i := range n {
		wishes = append(wishes, forAll(t, b, fmt.Sprint("pvc-", i), mib))
	}
	before := spaceOf(t, b)
	var all sync.WaitGroup
	for _, w := range wishes {
		all.Go(func() {
			b, err := Open(t.Context(), s)
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			if _, err := b.Expand(t.Context(), w.ID, before.RoomBytes/3); err != nil && !errors.Is(err, mover.ErrFull) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if after := spaceOf(t, b); after.GivenBytes > before.GivenBytes+before.RoomBytes || after.GivenBytes < before.RoomBytes/3*2 {
		t.Errorf("%+v, and before %+v", after, before)
	}
}

// TestPromisesOfWhatIsFree: what others have written can not be promised, and what volumes have written of what they were
// promised is not taken off twice; nor is what only a snapshot has still.
//
//safety:8 with TestPromises
func TestPromisesOfWhatIsFree(t *testing.T) {
	s := onBtrfsOf(t, 2<<30)
	s.Promise = &Promise{KeepFree: 20}
	b := opened(t, s)
	about := func(what string, want int64) {
		t.Helper()
		must.Do(t, loopfs.CleanUp(b.spec.Root))
		if got := spaceOf(t, b); got.RoomBytes < want-20*mib || got.RoomBytes > want+20*mib {
			t.Errorf("%s: %+v, and not about %d", what, got, want)
		}
	}
	room := spaceOf(t, b).RoomBytes
	w := forAll(t, b, "pvc-1", 100*mib)
	about("a volume", room-100*mib)
	must.Do(t, os.WriteFile(filepath.Join(pathOf(t, b, w.ID), "file"), make([]byte, 90*mib), 0o600))
	about("that is full", room-100*mib)
	_, err := b.Make(t.Context(), snapshotOf(b, "snap", w.ID))
	must.Do(t, err)
	about("and its snapshot", room-200*mib)
	must.Do(t, b.Remove(t.Context(), w.ID, "test"))
	_, _, err = b.Reap(t.Context(), time.Now())
	must.Do(t, err)
	about("the snapshot alone", room-100*mib)
	// What is free beside the volumes is some 250 MiB more than may be promised.
	must.Do(t, os.WriteFile(filepath.Join(b.spec.Root, "big"), make([]byte, 600*mib), 0o600))
	if must.Do(t, loopfs.CleanUp(b.spec.Root)); spaceOf(t, b).RoomBytes > room-300*mib {
		t.Errorf("%+v, and %d before others filled it", spaceOf(t, b), room)
	}
}
