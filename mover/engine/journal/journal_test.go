package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	kill.Main(map[string]func(string) error{"work": work, "live": live, "live once": liveOnce, "open": openAndWrite})
	goleak.VerifyTestMain(m)
}

func reopen(t *testing.T, dir string, o Options) *Journal {
	t.Helper()
	j := must.Get(Open(dir, o))(t)
	return j
}

func closed(t *testing.T, j *Journal) {
	t.Helper()
	must.Do(t, j.Close())
}

func large(name string) Record {
	return Record{
		Name:      name,
		Source:    mover.Identity{Kind: mover.File, Dev: 7, Ino: 8, Size: 1 << 30, Mtime: mover.Time{Sec: -5, Nsec: 999}, ETag: "\"e\""},
		Token:     mover.Token(".datamove-task-1-" + name),
		PartBytes: 8 << 20,
	}
}

func receipt(i int) mover.Receipt {
	return mover.Receipt{Part: mover.Part{Index: i, Off: int64(i) << 23, Length: 8 << 20}, CRC: uint64(i) * 0x9e3779b97f4a7c15, ETag: fmt.Sprint("etag", i)}
}

func small(n int) []Record {
	batch := make([]Record, n)
	for i := range batch {
		batch[i] = large(fmt.Sprintf("dir/small-%06d", i))
		batch[i].Complete, batch[i].CRC = true, uint64(i)
	}
	return batch
}

// left returns what is left, by name.
func left(j *Journal) map[string]Record {
	m := map[string]Record{}
	for _, r := range j.Left(context.Background()) {
		m[r.Name] = r
	}
	return m
}

func TestGoesOn(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "tasks", "t1")
	if Exists(dir) {
		t.Fatal("there is a journal before the first Open")
	}
	j := reopen(t, dir, Options{})
	want := large("big\xff\nname")
	id := must.Get(j.Begin(ctx, want))(t)
	for _, i := range []int{3, 0, 12_000, 3} {
		must.Do(t, j.Part(ctx, id, receipt(i)))
	}
	done := must.Get(j.Begin(ctx, large("published")))(t)
	must.Do(t, j.Part(ctx, done, receipt(0)))
	must.Do(t, j.Clear(ctx, done))
	if _, _, ok := j.Lookup(want.Name); ok {
		t.Error("Lookup finds what this run began; it is for earlier ones")
	}
	closed(t, j)

	want.Receipts = []mover.Receipt{receipt(0), receipt(3), receipt(12_000)}
	want.Unsure = []int{0, 3, 12_000}
	j = reopen(t, dir, Options{})
	got, again, ok := j.Lookup(want.Name)
	if !ok || again != id || !reflect.DeepEqual(got, want) {
		t.Errorf("Lookup = %+v, %d, %v\nwant %+v, %d", got, again, ok, want, id)
	}
	if _, _, ok := j.Lookup("published"); ok || len(left(j)) != 1 {
		t.Error("what was cleared is back")
	}
	if fresh, err := j.Begin(ctx, large("another")); err != nil || fresh <= id {
		t.Errorf("Begin = %d, %v: an id is given twice", fresh, err)
	}
	must.Do(t, j.Complete(ctx, id, 42))
	closed(t, j)

	j = reopen(t, dir, Options{})
	if got, _, _ := j.Lookup(want.Name); !got.Complete || got.CRC != 42 {
		t.Errorf("completion is lost: %+v", got)
	}
	must.Do(t, j.Clear(ctx, id))
	if _, _, ok := j.Lookup(want.Name); ok {
		t.Error("Lookup finds what is cleared")
	}
	must.Do(t, j.Remove())
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Remove left the directory:", err)
	}
}

func TestBatch(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	j := reopen(t, dir, Options{})
	batch := small(20_000) // several chunks, several transactions
	whole := must.Get(j.Stage(ctx, batch))(t)
	published := must.Get(j.Stage(ctx, small(10)))(t)
	must.Do(t, j.Clear(ctx, published))
	closed(t, j)

	j = reopen(t, dir, Options{})
	if got := left(j); len(got) != len(batch) {
		t.Fatalf("%d of %d records are left", len(got), len(batch))
	}
	var ids []uint64
	for i := range batch {
		r, id, ok := j.Lookup(batch[i].Name)
		if !ok || !reflect.DeepEqual(r, batch[i]) {
			t.Fatalf("Lookup(%q) = %+v, %v", batch[i].Name, r, ok)
		}
		ids = append(ids, id)
	}
	must.Do(t, j.Clear(ctx, ids[:19_999]...))
	if got := left(j); len(got) != 1 || !reflect.DeepEqual(got[batch[19_999].Name], batch[19_999]) {
		t.Fatalf("%d records are left, want the last one", len(got))
	}
	closed(t, j)

	j = reopen(t, dir, Options{})
	_, id, ok := j.Lookup(batch[19_999].Name)
	if !ok || id != ids[19_999] || len(left(j)) != 1 {
		t.Error("the last one is gone")
	}
	must.Do(t, j.Clear(ctx, id))
	for _, letter := range []byte{keyStaged, keyCleared} {
		if keys, err := j.keys([]byte{letter}); err != nil || len(keys) != 0 {
			t.Errorf("%d keys %q remain of a batch without records, %v", len(keys), letter, err)
		}
	}
	must.Do(t, j.Clear(ctx, whole, whole, 12345<<indexBits)) // again, and unknown: no harm
	closed(t, j)
}

// After a power cut only what was durable at the target counts.
//
//safety:3 after another boot only what was marked durable counts; damaged files cost time, nothing else
func TestReboot(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep=", keep), func(t *testing.T) { reboot(t, keep) })
	}
}

func reboot(t *testing.T, keep bool) {
	ctx, dir := t.Context(), t.TempDir()
	j := reopen(t, dir, Options{KeepOnReboot: keep, boot: "one"})
	a, err := j.Begin(ctx, large("a"))
	must.Do(t, err)
	b, err := j.Begin(ctx, large("b"))
	must.Do(t, err)
	must.Do(t, j.Part(ctx, a, receipt(0)))
	must.Do(t, j.Part(ctx, b, receipt(0)))
	mark := j.Mark()
	must.Do(t, j.Part(ctx, a, receipt(1))) // while the target is being synced
	must.Do(t, j.DurableUpTo(ctx, mark, a))
	must.Do(t, j.Part(ctx, b, receipt(1)))
	must.Do(t, j.Durable(ctx, b))
	must.Do(t, j.DurableUpTo(ctx, mark, b)) // late: takes nothing back
	must.Do(t, j.Part(ctx, b, receipt(2)))
	must.Do(t, j.Complete(ctx, b, 1))
	_, err = j.Stage(ctx, small(3))
	must.Do(t, err)
	closed(t, j)

	j = reopen(t, dir, Options{KeepOnReboot: keep, boot: "one"})
	if got := left(j); len(got) != 5 || len(got["a"].Receipts) != 2 || !got["b"].Complete {
		t.Errorf("kill -9 costs something: %+v", got)
	}
	closed(t, j)

	j = reopen(t, dir, Options{KeepOnReboot: keep, boot: "two"})
	got := left(j)
	parts := [2]int{len(got["a"].Receipts), len(got["b"].Receipts)}
	if keep && (len(got) != 5 || parts != [2]int{2, 3} || !got["b"].Complete) {
		t.Errorf("a reboot costs something although the target keeps it: %+v", got)
	}
	if !keep && (len(got) != 2 || parts != [2]int{1, 2} || got["b"].Complete) {
		t.Errorf("records count that may be lost: %+v", got)
	}
	must.Do(t, j.Part(ctx, a, receipt(9))) // and a new part is not under the old mark
	closed(t, j)
	j = reopen(t, dir, Options{boot: "three"})
	if got := left(j); len(got["a"].Receipts) != 1 {
		t.Errorf("the mark covers a part that came after it: %+v", got["a"])
	}
	closed(t, j)
}

func TestFacts(t *testing.T) {
	dir := t.TempDir()
	j := reopen(t, dir, Options{})
	if f, err := j.Facts(); f != (Facts{}) || err != nil {
		t.Error(f, err)
	}
	want := Facts{SourceSystem: "ext4 3f-9c", Completed: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Entries: 9}
	must.Do(t, j.SetFacts(t.Context(), want))
	closed(t, j)
	j = reopen(t, dir, Options{boot: "another"})
	if f, err := j.Facts(); f != want || err != nil {
		t.Error(f, err)
	}
	closed(t, j)
}

func TestHeld(t *testing.T) {
	dir := t.TempDir()
	j := reopen(t, dir, Options{})
	if _, err := Open(dir, Options{}); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("second Open: %v, want ErrHeld", err)
	}
	closed(t, j)
}

func TestUsage(t *testing.T) {
	ctx := t.Context()
	j := reopen(t, t.TempDir(), Options{})
	defer closed(t, j)
	huge := large(strings.Repeat("n", 1<<20))
	_, begin := j.Begin(ctx, huge)
	_, stage := j.Stage(ctx, []Record{huge})
	id := must.Get(j.Begin(ctx, large("a")))(t)
	for what, err := range map[string]error{
		"begin": begin, "stage": stage,
		"part of no id":    j.Part(ctx, 0, receipt(0)),
		"part of a batch":  j.Part(ctx, id+1, receipt(0)),
		"negative part":    j.Part(ctx, id, receipt(-1)),
		"durable batch":    j.Durable(ctx, id+1),
		"complete nothing": j.Complete(ctx, 0, 0),
	} {
		if !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v, want ErrUsage", what, err)
		}
	}
}

func TestConcurrent(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	j := reopen(t, dir, Options{boot: "one"})
	id := must.Get(j.Begin(ctx, large("big")))(t)
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := range 25 {
				batch, err1 := j.Stage(ctx, small(20))
				err := errors.Join(err1, j.Part(ctx, id, receipt(w*25+i)), j.Clear(ctx, batch))
				if i == 12 {
					err = errors.Join(err, j.Durable(ctx, id))
				}
				must.Tell(t, err)
			}
		})
	}
	workers.Wait()
	must.Do(t, j.Durable(ctx, id))
	closed(t, j)
	j = reopen(t, dir, Options{boot: "two"})
	if got := left(j); len(got) != 1 || len(got["big"].Receipts) != 200 {
		t.Errorf("%d records, %d parts", len(got), len(got["big"].Receipts))
	}
	closed(t, j)
}

// More is staged than memtables hold, so that tables and compactions take part.
func TestManyBatches(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	j := reopen(t, dir, Options{})
	batch := small(5000)
	for range 40 {
		id := must.Get(j.Stage(ctx, batch))(t)
		must.Do(t, j.Clear(ctx, id))
	}
	_, err := j.Stage(ctx, batch)
	must.Do(t, err)
	closed(t, j)
	j = reopen(t, dir, Options{})
	if got := left(j); len(got) != len(batch) {
		t.Errorf("%d of %d are left", len(got), len(batch))
	}
	closed(t, j)
}

// A full disk is an error, and not the signal that a write to a mapping gets.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=96m"); err != nil {
		t.Skip("needs the right to mount a tmpfs:", err)
	}
	defer func() { must.Do(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	j := reopen(t, filepath.Join(dir, "task"), Options{})
	id := must.Get(j.Begin(t.Context(), large("big")))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "other"), make([]byte, 40<<20), 0o600))
	if err := j.Part(t.Context(), id, receipt(0)); !errors.Is(err, mover.ErrFull) {
		t.Errorf("Part = %v, want ErrFull", err)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "other")))
	must.Do(t, j.Part(t.Context(), id, receipt(0)))
	closed(t, j)
	must.Do(t, os.WriteFile(filepath.Join(dir, "other"), make([]byte, 90<<20), 0o600))
	if _, err := Open(filepath.Join(dir, "task"), Options{}); !errors.Is(err, mover.ErrFull) {
		t.Errorf("Open = %v, want ErrFull and no damage", err)
	}
}

func TestNotOurs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file, Options{}); err == nil {
		t.Error("a file is opened as a journal")
	}
}

func TestLogger(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	dir := t.TempDir()
	closed(t, reopen(t, dir, Options{Logger: log}))
	if text.Len() != 0 {
		t.Errorf("an ordinary run logs: %s", &text)
	}
}

func TestLogs(t *testing.T) {
	dir := t.TempDir()
	j := reopen(t, dir, Options{})
	defer closed(t, j)
	if got := kvstore.Logs(dir); len(got) != 1 || !slices.IsSorted(got) {
		t.Errorf("logs = %q: the fsync of Durable looks for other files than Badger writes", got)
	}
}

// TestUnsure: which parts a sync has confirmed is known to the next run.
//
//safety:3 with mover/engine/transfer TestLostPartsAreSentAgain
func TestUnsure(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	j := reopen(t, dir, Options{})
	id := must.Get(j.Begin(ctx, large("big")))(t)
	must.Do(t, j.Part(ctx, id, receipt(0)))
	must.Do(t, j.Part(ctx, id, receipt(1)))
	mark := j.Mark()
	must.Do(t, j.Part(ctx, id, receipt(2))) // while it is synced
	must.Do(t, j.DurableUpTo(ctx, mark, id))
	must.Do(t, j.Part(ctx, id, receipt(3)))
	must.Do(t, j.Part(ctx, id, receipt(0))) // stored again since
	closed(t, j)
	j = reopen(t, dir, Options{})
	defer closed(t, j)
	got, _, ok := j.Lookup("big")
	if want := []int{0, 2, 3}; !ok || !slices.Equal(got.Unsure, want) || len(got.Receipts) != 4 {
		t.Errorf("unsure are %v of %d parts, want %v", got.Unsure, len(got.Receipts), want)
	}
}
