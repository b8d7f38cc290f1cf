package volumestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/localfs"
	"datamove.dev/mover"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// nothingIn looks if directories of a base are empty.
func nothingIn(t *testing.T, b *Base, names ...string) {
	t.Helper()
	for _, name := range names {
		if entries, err := os.ReadDir(filepath.Join(b.top.name(), name)); err != nil || len(entries) > 0 {
			t.Errorf("%s has %v, %v", name, entries, err)
		}
	}
}

// settled waits until nothing is left of projects: some go when the kernel has cleaned up.
func settled(t *testing.T, b *Base) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		if b.spec.Kind == lustre.IsBtrfs {
			must.Do(t, loopfs.CleanUp(b.spec.Root))
		}
		_, _, err := b.Reap(t.Context(), time.Now())
		must.Do(t, err)
		if entries, err := os.ReadDir(filepath.Join(b.top.name(), projectsDir)); err != nil || len(entries) == 0 {
			must.Do(t, err)
			return
		}
	}
	nothingIn(t, b, projectsDir)
}

// forAll makes a volume that everybody may write.
func forAll(t *testing.T, b *Base, name string, bytes int64) Wish {
	t.Helper()
	w := wish(t, b, name, bytes, "mode", "1777", "trash", "0s")
	_, err := b.Make(t.Context(), w)
	must.Do(t, err)
	return w
}

// asSomebody does something in the directory of a volume, as a pod does: what lies above it is nobody's.
func asSomebody(t *testing.T, path string, do func(here string)) {
	t.Helper()
	mounted := t.TempDir()
	must.Do(t, os.Chmod(filepath.Dir(mounted), 0o755))
	must.Do(t, unix.Mount(path, mounted, "", unix.MS_BIND, ""))
	defer func() { must.Do(t, unix.Unmount(mounted, unix.MNT_DETACH)) }()
	must.Do(t, loopfs.As(somebody, func() { do(mounted) }))
}

// TestNestedSubvolumes: who makes subvolumes in a volume is held to its capacity all the same, at once, or, where he asks the
// kernel for none of its groups, from the next reaping on. They go with the volume, also when he has made them
// read-only, and leave nothing behind.
//
//safety:5/volumes subvolumes in subvolumes, which their owner has made read-only
//safety:8 with TestQuotaHolds
func TestNestedSubvolumes(t *testing.T) {
	b := opened(t, onBtrfs(t))
	w := forAll(t, b, "pvc-1", 20*mib)
	if r, err := b.Make(t.Context(), w); err != nil || !r.Enforced || r.Escape == "" {
		t.Errorf("%+v, %v", r, err)
	}
	s := &localfs.Subvolumes{}
	asSomebody(t, pathOf(t, b, w.ID), func(here string) {
		must.Do(t, loopfs.Groupless(here, "stray"))
		if n, err := fill(here+"/stray/file", 10*mib); err != nil {
			t.Error(n, err)
		}
		at, err := unix.Open(here, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		must.Do(t, err)
		defer unix.Close(at)
		_, err = s.MakeProject(t.Context(), at, "inner", 0o700)
		must.Do(t, err)
		if n, err := fill(here+"/inner/file", 40*mib); !errors.Is(err, unix.EDQUOT) || n > 20*mib {
			t.Errorf("%d bytes, %v", n, err)
		}
		must.Do(t, os.Remove(here+"/inner/file"))
		must.Do(t, os.WriteFile(here+"/inner/file", nil, 0o600))
	})
	_, _, err := b.Reap(t.Context(), time.Now())
	must.Do(t, err)
	f, err := b.Find(t.Context(), w.ID)
	must.Do(t, err)
	stats, err := b.Stats(t.Context(), f)
	f.Close()
	if err != nil || stats.TotalBytes != 20*mib || stats.UsedBytes < 10*mib {
		t.Errorf("%+v, %v", stats, err)
	}
	asSomebody(t, pathOf(t, b, w.ID), func(here string) {
		if n, err := fill(here+"/stray/more", 20*mib); !errors.Is(err, unix.EDQUOT) || n > 10*mib {
			t.Errorf("%d bytes, %v", n, err)
		}
		for _, name := range []string{"inner", "stray"} {
			root := must.Get(unix.Open(filepath.Join(here, name), unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
			must.Do(t, s.Freeze(t.Context(), root, true))
			unix.Close(root)
		}
	})
	_, err = b.Expand(t.Context(), w.ID, 40*mib)
	must.Do(t, err)
	must.Do(t, b.Remove(t.Context(), w.ID, "test"))
	if gone, left, err := b.Reap(t.Context(), time.Now()); gone != 1 || left != 0 || err != nil {
		t.Errorf("%d, %d, %v", gone, left, err)
	}
	settled(t, b)
}

// numbered is a file system with project IDs, which are only written down.
type numbered struct {
	lustre.Quotas
	fail error // of SetQuota
	mu   sync.Mutex
	held map[uint32]int64
	put  []lustre.Project // that directories were put under
}

func (n *numbered) SetProject(_ context.Context, _ int, p lustre.Project) error {
	n.put = append(n.put, p)
	return nil
}

func (n *numbered) Quota(_ context.Context, _ int, p lustre.Project) (lustre.Quota, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return lustre.Quota{Project: p, Limits: lustre.Limits{HardBytes: n.held[p.ID]}, Enforced: true, Escape: "by a trick"}, nil
}

func (n *numbered) SetQuota(_ context.Context, _ int, p lustre.Project, l lustre.Limits) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held[p.ID] = l.HardBytes
	if l == (lustre.Limits{}) {
		return nil
	}
	return n.fail
}

// onNumbered is a base on it.
func onNumbered(t *testing.T, n *numbered) *Base {
	t.Helper()
	s := inMemory(t)
	s.IDs = Range{First: 1000, Last: 1003}
	b := opened(t, s)
	n.held = map[uint32]int64{}
	b.handle.System.Quota = n
	return b
}

// TestProjectIsTheQuotas: the directory of a volume is put under the project that has its limit, and so is all that is made in it.
func TestProjectIsTheQuotas(t *testing.T) {
	n := &numbered{}
	b := onNumbered(t, n)
	for i, bytes := range []int64{mib, 2 * mib} {
		r := must.Get(b.Make(t.Context(), wish(t, b, fmt.Sprint("pvc-", i), bytes)))(t)
		if r.Project == nil || len(n.put) != i+1 || n.put[i] != *r.Project || !r.Project.Inherit || r.Project.ID < 1000 || r.Project.ID > 1003 {
			t.Fatalf("%+v, and put under %+v", r.Project, n.put)
		}
		if n.held[r.Project.ID] != bytes || len(n.held) != i+1 {
			t.Errorf("limits %v, and the volume of %d bytes is under %d", n.held, bytes, r.Project.ID)
		}
	}
}

// TestEscapeIsSaid: the record says who is not held by a limit that is enforced.
func TestEscapeIsSaid(t *testing.T) {
	b := onNumbered(t, &numbered{})
	r, err := b.Make(t.Context(), wish(t, b, "pvc-1", mib))
	if err != nil || !r.Enforced || !strings.Contains(r.Escape, "no pod may be root") || !strings.Contains(r.Escape, "by a trick") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFailedForGood: of what can not be made nothing is left, and nothing is given: no room, and no project ID.
//
//safety:8 creations that fail, or are never asked for again, keep neither room nor project IDs
func TestFailedForGood(t *testing.T) {
	n := &numbered{}
	b := onNumbered(t, n)
	for _, kind := range []error{mover.ErrUnsupported, mover.ErrFull, mover.ErrUsage} {
		n.fail = kind
		for range 10 { // there are four IDs
			if _, err := b.Make(t.Context(), wish(t, b, "pvc-1", mib)); !errors.Is(err, kind) {
				t.Fatalf("%v, and not %v", err, kind)
			}
		}
		nothingIn(t, b, volumesDir, makingDir, trashDir, projectsDir)
		if s, err := b.Space(t.Context()); err != nil || s.GivenBytes != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	}
	source := wish(t, b, "pvc-2", mib)
	n.fail = nil
	_, err := b.Make(t.Context(), source)
	must.Do(t, err)
	clone := wish(t, b, "pvc-3", mib)
	clone.From, clone.Uncopied = &source.ID, "nobody copies"
	if _, err := b.Make(t.Context(), clone); !errors.Is(err, mover.ErrUnsupported) {
		t.Error(err)
	}
	nothingIn(t, b, makingDir, trashDir)
}

// TestGivenUp: what was begun and could not be made for now is gone on with; when nobody comes back to it for a day, it goes, with
// its project ID. What is being copied stays until who has it copied lets go of it.
//
//safety:8 with TestFailedForGood
func TestGivenUp(t *testing.T) {
	n := &numbered{}
	b := onNumbered(t, n)
	source, copied, begun := wish(t, b, "pvc-1", mib), wish(t, b, "pvc-2", mib), wish(t, b, "pvc-3", mib)
	_, err := b.Make(t.Context(), source)
	must.Do(t, err)
	copied.From = &source.ID
	_, err = b.Make(t.Context(), copied)
	var u *Unfilled
	if !errors.As(err, &u) {
		t.Fatal(err)
	}
	n.fail = mover.ErrUnreachable
	marks := map[string]bool{}
	for range 2 {
		if _, err := b.Make(t.Context(), begun); !errors.Is(err, n.fail) {
			t.Fatal(err)
		}
		mark := must.Get(b.Begun(t.Context(), begun.ID))(t)
		marks[mark] = true
	}
	if len(marks) != 1 {
		t.Errorf("it was begun anew: %v", marks)
	}
	if gone, left, err := b.Reap(t.Context(), time.Now().Add(time.Hour)); gone != 0 || left != 0 || err != nil {
		t.Errorf("%d, %d, %v", gone, left, err)
	}
	must.Do(t, os.Mkdir(filepath.Join(b.top.name(), makingDir, "0123456789abcdef0123456789abcdef"), 0o700)) // killed at its first step
	if gone, left, err := b.Reap(t.Context(), time.Now().Add(25*time.Hour)); gone != 1 || left != 0 || err != nil {
		t.Errorf("%d, %d, %v", gone, left, err)
	}
	nothingIn(t, b, trashDir)
	entries, err := os.ReadDir(filepath.Join(b.top.name(), makingDir))
	if err != nil || len(entries) != 1 || entries[0].Name() != copied.ID.Key {
		t.Errorf("%v, %v", entries, err)
	}
	claims, err := os.ReadDir(filepath.Join(b.top.name(), projectsDir))
	if err != nil || len(claims) != 2 {
		t.Errorf("%v, %v", claims, err)
	}
	for after, want := range map[time.Duration]int{time.Hour: 0, 25 * time.Hour: 1} {
		if all, err := b.Forsaken(t.Context(), time.Now().Add(after)); err != nil || len(all) != want {
			t.Errorf("after %v: %v, %v", after, all, err)
		}
	}
	n.fail = nil
	_, err = b.Filled(t.Context(), copied)
	must.Do(t, err)
}

// TestComingBack: what is asked for again and again is not forsaken, however long it takes.
//
//safety:8 with TestFailedForGood
func TestComingBack(t *testing.T) {
	n := &numbered{fail: mover.ErrUnreachable}
	b := onNumbered(t, n)
	w := wish(t, b, "pvc-1", mib)
	for range 3 {
		if _, err := b.Make(t.Context(), w); !errors.Is(err, n.fail) {
			t.Fatal(err)
		}
		long := unix.NsecToTimespec(time.Now().Add(-48 * time.Hour).UnixNano())
		at := filepath.Join(b.top.name(), makingDir, w.ID.Key)
		must.Do(t, unix.UtimesNanoAt(unix.AT_FDCWD, at, []unix.Timespec{long, long}, 0))
		if _, err := b.Make(t.Context(), w); !errors.Is(err, n.fail) {
			t.Fatal(err)
		}
		if gone, _, err := b.Reap(t.Context(), time.Now()); gone != 0 || err != nil {
			t.Errorf("%d, %v", gone, err)
		}
	}
}

// TestClaimOfUnknown: who is killed between the claim of an ID and its record leaves a claim that is found by its mark.
//
//safety:8 with TestFailedForGood
func TestClaimOfUnknown(t *testing.T) {
	n := &numbered{fail: mover.ErrUnreachable}
	b := onNumbered(t, n)
	w := wish(t, b, "pvc-1", mib)
	if _, err := b.Make(t.Context(), w); !errors.Is(err, n.fail) {
		t.Fatal(err)
	}
	making := must.Get(b.in(makingDir))(t)
	defer making.close()
	at := must.Get(making.sub(w.ID.Key))(t)
	defer at.close()
	var r Record
	must.Do(t, at.read(recordFile, &r))
	r.Project = nil
	must.Do(t, at.write(recordFile, r, true))
	must.Do(t, b.Remove(t.Context(), w.ID, "test"))
	if gone, _, err := b.Reap(t.Context(), time.Now()); gone != 1 || err != nil {
		t.Errorf("%d, %v", gone, err)
	}
	nothingIn(t, b, projectsDir)
}

// TestOursToTheEnd: the mark is looked at again before something in the trash is destroyed; its tombstone says what it held.
//
//safety:5/volumes what lies in the trash is exchanged for something else before it is destroyed
func TestOursToTheEnd(t *testing.T) {
	for name, spec := range map[string]func(*testing.T) Spec{"memory": inMemory, "btrfs": onBtrfs} {
		t.Run(name, func(t *testing.T) {
			b := opened(t, spec(t))
			w := forAll(t, b, "pvc-1", 20*mib)
			must.Do(t, b.Remove(t.Context(), w.ID, "test"))
			all, err := b.Trash(t.Context())
			if err != nil || len(all) != 1 || all[0].Stone.Bytes != 20*mib {
				t.Fatalf("%+v, %v", all, err)
			}
			data := filepath.Join(b.top.name(), trashDir, all[0].Name, dataDir)
			must.Do(t, os.Rename(data, data+".away"))
			must.Do(t, os.MkdirAll(filepath.Join(data, "precious"), 0o700))
			if gone, left, err := b.Reap(t.Context(), time.Now()); gone != 0 || left != 1 || !errors.Is(err, mover.ErrConflict) {
				t.Errorf("%d, %d, %v", gone, left, err)
			}
			data = filepath.Join(filepath.Dir(data)+going, dataDir)
			if _, err := os.Stat(filepath.Join(data, "precious")); err != nil {
				t.Error(err)
			}
			must.Do(t, os.RemoveAll(data))
			must.Do(t, os.Rename(data+".away", data))
			if gone, left, err := b.Reap(t.Context(), time.Now()); gone != 1 || left != 0 || err != nil {
				t.Errorf("%d, %d, %v", gone, left, err)
			}
		})
	}
}

// TestMadeIsFound: what is made is found by the same wish, whatever became of what it began with.
//
//safety:5/volumes an answer that was lost, asked for again when what the volume was made of has grown or is gone
func TestMadeIsFound(t *testing.T) {
	b := opened(t, onBtrfs(t))
	w := forAll(t, b, "pvc-1", 20*mib)
	clone, snap := wish(t, b, "pvc-2", 20*mib), snapshotOf(b, "snap", w.ID)
	clone.From = &w.ID
	for _, wished := range []Wish{clone, snap} {
		made := must.Get(b.Make(t.Context(), wished))(t)
		for what, happens := range map[string]func() error{
			"its source has grown":   func() error { _, err := b.Expand(t.Context(), w.ID, 40*mib); return err },
			"its source was removed": func() error { return b.Remove(t.Context(), w.ID, "test") },
		} {
			must.Do(t, happens())
			if again, err := b.Make(t.Context(), wished); err != nil || again.Mark != made.Mark {
				t.Errorf("%s: %+v, %v", what, again, err)
			}
			if _, err := b.Restore(t.Context(), w.ID); err != nil && !errors.Is(err, mover.ErrNotExist) {
				t.Error(err)
			}
		}
	}
}

// TestSmallRestore: what is restored or cloned has at least the room that its source had.
//
//safety:8 a restore into less than the snapshot may hold
func TestSmallRestore(t *testing.T) {
	b := opened(t, onBtrfs(t))
	w := forAll(t, b, "pvc-1", 20*mib)
	s := snapshotOf(b, "snap", w.ID)
	r := must.Get(b.Make(t.Context(), s))(t)
	if r.Bytes != 20*mib || r.Asked.Bytes != 0 {
		t.Errorf("%+v", r)
	}
	must.Do(t, b.Remove(t.Context(), w.ID, "test"))
	small := wish(t, b, "pvc-2", 10*mib)
	small.From = &s.ID
	var u *TooSmall
	if _, err := b.Make(t.Context(), small); !errors.As(err, &u) || u.Bytes != 20*mib {
		t.Errorf("%v", err)
	}
	nothingIn(t, b, makingDir)
}
