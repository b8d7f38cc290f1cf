package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// bench is what the worlds of one direction share.
type bench struct {
	program *rig.Program
	source  string // a tree
	store   *rig.Store
	ext4    string // mounted
	former  string // what a target of a sync has at first
	stored  string // prefix with the source
	lives   int
	random  *rand.Rand // decides how it is killed
}

func newBench(t *testing.T) *bench { return &bench{program: rig.New(t), source: rig.Memory(t)} }

// disk is a directory on an ext4 of this direction.
func (b *bench) disk(t *testing.T) string {
	if b.ext4 == "" {
		b.ext4 = rig.Disk(t, "ext4", 1<<30)
	}
	checker(t)(os.RemoveAll(b.life())) // there is room for one
	b.lives++
	return b.life()
}

func (b *bench) life() string { return filepath.Join(b.ext4, fmt.Sprint("life-", b.lives)) }

// fill makes the source, and what the target has before a sync.
func (b *bench) fill(t *testing.T, shape rig.Shape, sync bool) {
	if len(list(t, b.source)) > 0 {
		return
	}
	shape.Seed = 1
	rig.Make(t, b.source, shape)
	if sync {
		b.former = filepath.Join(rig.Memory(t), "former")
		duplicate(t, b.source, b.former)
		change(t, b.source)
		if b.store == nil {
			changeKinds(t, b.source)
		}
	}
}

// change makes a source out of what will be the former target: of each kind of
// change a few.
func change(t *testing.T, dir string) {
	check := checker(t)
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string { return fmt.Sprintf("%016x%010x", random.Uint64(), random.Uint32()) }
	small, err := filepath.Glob(filepath.Join(dir, "small", "*", "*"))
	check(err)
	for i, path := range small {
		switch i % 7 {
		case 0:
			check(os.WriteFile(path, []byte(text()), 0o644))
		case 1:
			check(os.Remove(path))
		case 2:
			check(os.Chtimes(path, time.Time{}, time.Unix(1_700_000_000, 123456789)))
		case 3:
			check(os.WriteFile(path+".new", []byte(text()), 0o644))
		}
	}
	weights := filepath.Join(dir, "large", "weights-0.bin")
	f, err := os.OpenFile(weights, os.O_WRONLY, 0)
	check(err)
	_, err = f.WriteAt([]byte(text()), 5<<20)
	check(err)
	check(f.Close())
}

// changeKinds makes a file of a directory, and a directory of a file. The server
// of these tests can not do that below one key.
func changeKinds(t *testing.T, dir string) {
	check := checker(t)
	was := filepath.Join(dir, "small", "002")
	check(os.RemoveAll(was))
	check(os.WriteFile(was, []byte("now a file"), 0o644))
	was = filepath.Join(dir, "odd", "a\\b")
	check(os.Remove(was))
	check(os.MkdirAll(filepath.Join(was, "deep"), 0o750))
	check(os.WriteFile(filepath.Join(was, "deep", "file"), []byte("now below"), 0o644))
}

func checker(t *testing.T) func(error) {
	return func(err error) {
		t.Helper()
		must.Do(t, err)
	}
}

func (b *bench) args(source, target string, sync bool) []string {
	if sync {
		return []string{"sync", "--delete", "-q", "--preserve=privileges", source, target}
	}
	return []string{"copy", "-q", "--preserve=privileges", source, target}
}

// toFiles is a copy or sync to a directory.
func (b *bench) toFiles(t *testing.T, base string, sync bool) world {
	b.fill(t, rig.Shape{Small: kill.Times(160, 1200), Large: kill.Times(1, 2), Odd: true, OddBytes: int64(kill.Times(8<<20, 64<<20)), Special: true}, sync)
	target := filepath.Join(base, "target")
	if sync {
		must.Do(t, os.MkdirAll(base, 0o755))
		duplicate(t, b.former, target)
	}
	w := b.watched(t, target)
	w.args = b.args(b.source, target, sync)
	w.kill = func(n int) (*rig.Run, int) { return b.program.KillAtCall(t, n, w.args...) }
	return w
}

// watched is a world with a directory as its target.
func (b *bench) watched(t *testing.T, target string) world {
	w := world{program: b.program}
	w.want, _ = rig.Look(t, b.source)
	if b.former != "" {
		w.former, _ = rig.Look(t, b.former)
	}
	w.see = func() rig.Tree {
		if _, err := os.Lstat(target); os.IsNotExist(err) {
			return nil
		}
		seen, _ := rig.Look(t, target)
		return seen
	}
	w.equal = func() { rig.SameTrees(t, b.source, target, b.former == "") }
	return w
}

// stored is what goes to a store: a file of two parts in CI, and two of three in soak.
var stored = rig.Shape{Small: kill.Times(60, 250), Large: kill.Times(1, 2), LargeBytes: int64(kill.Times(17<<20, 40<<20)) + 4321, Odd: true, OddBytes: int64(kill.Times(8<<20, 64<<20)), Special: true}

// toStore is a copy or sync to a prefix, which is then brought back.
func (b *bench) toStore(t *testing.T, sync bool) world {
	if b.store == nil {
		b.store = rig.NewStore(t, b.program)
	}
	b.fill(t, stored, sync)
	b.lives++
	prefix := fmt.Sprint("life-", b.lives)
	want, _ := rig.Look(t, b.source)
	w := world{program: b.program, want: rig.Objects(want), args: b.args(b.source, b.store.At(prefix), sync)}
	if sync {
		before, _ := rig.Look(t, b.former)
		w.former = rig.Objects(before)
		b.uploaded(t, prefix)
	}
	w.kill = func(n int) (*rig.Run, int) {
		return b.store.KillAtRequest(t, b.program, n, b.random.IntN(2) == 0, w.args...)
	}
	w.see = func() rig.Tree { return b.store.Look(t, prefix) }
	w.equal = func() { b.backAgain(t, prefix) }
	return w
}

// uploaded puts the former tree below prefix: once by the program, and then by
// copying the server's files, which is faster.
func (b *bench) uploaded(t *testing.T, prefix string) {
	if b.stored == "" {
		b.stored = "former"
		b.program.Do(t, 0, "copy", "-q", b.former, b.store.At(b.stored))
	}
	duplicate(t, b.store.Dir(b.stored), b.store.Dir(prefix))
}

// backAgain brings a prefix back and compares.
func (b *bench) backAgain(t *testing.T, prefix string) {
	if own := b.store.Own(t, prefix); len(own) != 1 || own[0] != "manifest-v1.jsonl.zst" {
		t.Errorf("the program left %q below %s", own, prefix)
	}
	if n := b.store.Uploads(t); n > 0 {
		t.Errorf("%d uploads are open", n)
	}
	back := rig.Memory(t)
	b.program.Do(t, 0, "copy", "-q", "--preserve=privileges", b.store.At(prefix), back)
	rig.SameTrees(t, b.source, back, b.former == "")
	for _, dir := range []string{back, b.store.Dir(prefix)} {
		must.Tell(t, os.RemoveAll(dir))
	}
}

// fromStore is a copy of a prefix to a directory.
func (b *bench) fromStore(t *testing.T) world {
	if b.store == nil {
		b.store = rig.NewStore(t, b.program)
		b.fill(t, stored, false)
		b.stored = "source"
		b.program.Do(t, 0, "copy", "-q", b.source, b.store.At(b.stored))
	}
	target := filepath.Join(b.disk(t), "target")
	w := b.watched(t, target)
	w.args = b.args(b.store.At(b.stored), target, false)
	w.kill = func(n int) (*rig.Run, int) { return b.program.KillAtCall(t, n, w.args...) }
	return w
}
