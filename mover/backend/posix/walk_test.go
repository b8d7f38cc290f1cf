package posix

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// forest makes a random tree whose names are chosen to make order difficult, and
// returns what a walk has to yield.
func forest(t testing.TB, root string, seed uint64, size int) []mover.Entry {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	dirs := []string{""}
	var all []mover.Entry
	taken := map[string]bool{}
	for len(all) < size {
		name := mover.Join(dirs[r.IntN(len(dirs))], oddName(r))
		if taken[name] {
			continue
		}
		taken[name] = true
		e := mover.Entry{Name: name, Kind: mover.File}
		path := filepath.Join(root, name)
		switch r.IntN(8) {
		case 0, 1:
			e.Kind = mover.Dir
			must.Do(t, os.Mkdir(path, 0o755))
			dirs = append(dirs, name)
		case 2:
			e.Kind, e.Target = mover.Symlink, "to/"+name
			must.Do(t, os.Symlink(e.Target, path))
		default:
			must.Do(t, os.WriteFile(path, nil, 0o644))
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b mover.Entry) int { return mover.Compare(&a, &b) })
	return all
}

// oddName has bytes around '/' in order, newlines, and bytes that are no UTF-8.
func oddName(r *rand.Rand) string {
	const letters = "ab.-+!0 \n\xff\xc3"
	b := make([]byte, 1+r.IntN(3))
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	if name := string(b); name != "." && name != ".." {
		return name
	}
	return "dot"
}

func walked(t testing.TB, p *Backend, opts mover.WalkOptions) []mover.Entry {
	t.Helper()
	var all []mover.Entry
	for e, err := range p.Walk(t.Context(), opts) {
		if err != nil {
			t.Fatalf("walk %+v at %q: %v", opts, e.Name, err)
		}
		all = append(all, mover.Entry{Name: e.Name, Kind: e.Kind, Target: e.Target})
	}
	return all
}

func sameEntries(a, b mover.Entry) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.Target == b.Target
}

// TestWalkEqualsSort compares walks with sorted lists, for random trees, and each
// tail of them with a walk that goes on in the middle.
func TestWalkEqualsSort(t *testing.T) {
	for seed := range uint64(kill.Times(1, 4)) {
		root := memoryDir(t)
		want := forest(t, root, seed, 400)
		p := opened(t, root, Options{})
		if got := walked(t, p, mover.WalkOptions{}); !slices.EqualFunc(got, want, sameEntries) {
			t.Fatalf("seed %d: walk and sort differ", seed)
		}
		for i := 0; i < len(want); i += 7 {
			after := mover.AfterEntry(&want[i])
			if got := walked(t, p, mover.WalkOptions{After: after}); !slices.EqualFunc(got, want[i+1:], sameEntries) {
				t.Fatalf("seed %d: walk after %q differs", seed, after)
			}
		}
		for _, e := range want {
			if e.Kind != mover.Dir {
				continue
			}
			below := slices.DeleteFunc(slices.Clone(want), func(x mover.Entry) bool {
				return x.Name == e.Name || !mover.Within(x.Name, e.Name)
			})
			if got := walked(t, p, mover.WalkOptions{Dir: e.Name}); !slices.EqualFunc(got, below, sameEntries) {
				t.Fatalf("seed %d: walk below %q differs", seed, e.Name)
			}
			outside := slices.DeleteFunc(slices.Clone(want), func(x mover.Entry) bool { return mover.Within(x.Name, e.Name) })
			skip := func(name string, _ mover.Kind) bool { return name == e.Name }
			if got := walked(t, p, mover.WalkOptions{Skip: skip}); !slices.EqualFunc(got, outside, sameEntries) {
				t.Fatalf("seed %d: walk without %q differs", seed, e.Name)
			}
		}
	}
}

// TestWalkStopsAnywhere ends walks early, by break and by ctx; TestMain sees what
// goroutines are left, and this test what descriptors are.
func TestWalkStopsAnywhere(t *testing.T) {
	root := memoryDir(t)
	total := len(forest(t, root, 9, 1500))
	p := opened(t, root, Options{})
	before := descriptors(t)
	for n := 0; n < total; n += 97 {
		seen := 0
		for range p.Walk(t.Context(), mover.WalkOptions{}) {
			if seen++; seen > n {
				break
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		seen = 0
		var last error
		for _, err := range p.Walk(ctx, mover.WalkOptions{}) {
			if seen++; seen == n+1 {
				cancel(why)
			}
			last = err
		}
		if seen > n+1 && !errors.Is(last, why) {
			t.Fatalf("a walk that was cancelled after %d entries ended with %v", n, last)
		}
		cancel(nil)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	names := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(names)
}

// TestGiantDirectory walks 40,000 names in one directory, in a soak 200,000, and the memory stays
// near the 8 bytes and the name that a listing is.
//
//safety:8 with mover/engine/plan TestManyNamesBetween
func TestGiantDirectory(t *testing.T) {
	files := kill.Times(40_000, 200_000)
	root := memoryDir(t)
	for i := range files {
		must.Do(t, unix.Mknod(fmt.Sprintf("%s/name-of-a-file-%07d", root, i), unix.S_IFREG|0o644, 0))
	}
	p := opened(t, root, Options{})
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n, peak := 0, uint64(0)
	for _, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		if n++; n%10_000 == 5_000 {
			held := ^uint64(0)
			for range 3 { // readers allocate between a collection and its figure: the least one is the nearest to what is held
				runtime.GC()
				runtime.ReadMemStats(&now)
				held = min(held, now.HeapAlloc)
			}
			peak = max(peak, held-min(before.HeapAlloc, held))
		}
	}
	if n != files {
		t.Errorf("%d entries", n)
	}
	if limit := uint64(200 * files); peak > limit {
		t.Errorf("the walk holds %d MiB of memory, more than %d", peak>>20, limit>>20)
	}
}

// TestWalkWithErrors: a directory that can not be read is told, and all around it
// is walked.
//
//safety:4 a directory that fails in the middle
func TestWalkWithErrors(t *testing.T) {
	root := memoryDir(t)
	for _, dir := range []string{"a", "b", "b/deep", "c"} {
		must.Do(t, os.Mkdir(filepath.Join(root, dir), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(root, dir, "f"), nil, 0o644))
	}
	must.Do(t, os.Chmod(root, 0o755))
	for _, mode := range []os.FileMode{0o000, 0o400} { // can not be listed; can be listed but not examined
		must.Do(t, os.Chmod(root+"/b", mode))
		asNobody(t, func() {
			p := opened(t, root, Options{})
			p.readers = 0 // the rights are those of this thread only
			var got []string
			for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
				if err != nil {
					if !errors.Is(err, mover.ErrPermission) || e.Kind != mover.Dir {
						t.Errorf("mode %o: %v with %+v", mode, err, e)
					}
					got = append(got, "error "+e.Name)
					continue
				}
				got = append(got, e.Name)
			}
			want := []string{"a", "a/f", "b", "error b", "c", "c/f"}
			if !slices.Equal(got, want) {
				t.Errorf("mode %o: walk yields %q, want %q", mode, got, want)
			}
		})
	}
}

// asNobody calls f in a thread that has the rights of no user. The thread ends
// with it.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan error, 1)
	go func() {
		defer close(done)      // also when f ends the test
		runtime.LockOSThread() // and never unlocked: the thread must not be used again
		const nobody = 65534
		_, _, e1 := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
		_, _, e2 := unix.RawSyscall(unix.SYS_SETRESGID, nobody, nobody, nobody)
		_, _, e3 := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
		if e1|e2|e3 != 0 {
			done <- e1 | e2 | e3
			return
		}
		f()
	}()
	must.Do(t, <-done)
}

// TestXattrsWithoutTheCall: on a kernel before 6.13, which can not list the attributes of a name in a directory, a walk tells the same.
func TestXattrsWithoutTheCall(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "some"), nil, 0o644))
	must.Do(t, os.WriteFile(filepath.Join(dir, "none"), nil, 0o644))
	if err := unix.Setxattr(filepath.Join(dir, "some"), "user.a", []byte("b"), 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("the file system has no attributes of users")
	}
	p := must.Get(Open(dir, Options{}))(t)
	defer p.Close()
	before := kernel.NoListxattrat.Load()
	defer kernel.NoListxattrat.Store(before)
	for _, without := range []bool{before, true} {
		kernel.NoListxattrat.Store(without)
		for e, err := range p.Walk(t.Context(), mover.WalkOptions{Xattrs: true}) {
			must.Do(t, err)
			want := must.Get(p.Stat(t.Context(), e.Name))(t)
			if !e.Known.Has(mover.FactXattrs) || len(e.Xattrs) != len(want.Xattrs) || (e.Name == "some") != (len(e.Xattrs) > 0) {
				t.Errorf("without the call %v: %s has %q, and Stat says %q", without, e.Name, e.Xattrs, want.Xattrs)
			}
		}
	}
}
