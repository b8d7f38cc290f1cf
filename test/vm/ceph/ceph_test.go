// Package ceph is what copies do on a CephFS that is mounted twice, by clients of their
// own: test/e2e-ceph runs it on ceph-fuse, and test/vm/guests on the kernel's client. Tests
// wait for servers most of the time, so they do it together, each in a directory of its own.
package ceph

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// Who runs this says by these where things are. The file system has the data pool
// cephfs.fast.data, a name that is too long for a Lustre.
const (
	mounted = "CEPH_MOUNT"
	// What is read there is in the cluster, and not a cache. ceph-fuse may wait 5 seconds for
	// each file that another client wrote, so not all is read there.
	another = "CEPH_MOUNT_USER"
)

func TestMain(m *testing.M) {
	if os.Getenv(mounted) == "" {
		fmt.Println("CephFS is mounted by make e2e-ceph")
		return
	}
	rig.Main(m, nil)
}

// folder makes a directory for one test, and returns its path on both mounts.
func folder(t *testing.T) (path, seen string) {
	t.Helper()
	path = must.Get(os.MkdirTemp(os.Getenv(mounted), "scenario-"))(t)
	t.Cleanup(func() {
		must.Tell(t, os.RemoveAll(path))
	})
	return path, filepath.Join(os.Getenv(another), filepath.Base(path))
}

// tree makes a tree on a file system of the machine.
func tree(t *testing.T, s rig.Shape) string {
	t.Helper()
	dir := t.TempDir()
	s.Seed = 13
	rig.Make(t, dir, s)
	return dir
}

// same fails the test when two directories are not equal. Where nothing was written a
// CephFS does not tell.
func same(t *testing.T, source, target string) {
	t.Helper()
	want, _ := rig.Look(t, source)
	got, temps := rig.Look(t, target)
	for _, tree := range []rig.Tree{want, got} {
		for name, n := range tree {
			n.Atime, n.Sparse = 0, false
			tree[name] = n
		}
	}
	for _, line := range rig.Differences(want, got) {
		t.Error(line)
	}
	if len(temps) > 0 {
		t.Errorf("temporary names are left: %q", temps)
	}
}

// whole fails the test when a file of target is not what it is a copy of, and returns how
// many there are.
func whole(t *testing.T, source, target string) (files int) {
	t.Helper()
	want, _ := rig.Look(t, source)
	got, _ := rig.Look(t, target)
	for name, n := range got {
		if n.Type != 0 {
			continue
		}
		files++
		if n.Content() != want[name].Content() {
			t.Errorf("%q is %v, want %v", name, n, want[name])
		}
	}
	return files
}

// layout fails the test when a file has not the one that copies are made with here.
func layout(t *testing.T, file string) {
	t.Helper()
	const want = "stripe_unit=65536 stripe_count=4 object_size=4194304 pool=cephfs.fast.data"
	var b [256]byte
	n, err := unix.Getxattr(file, "ceph.file.layout", b[:])
	if err != nil || string(b[:n]) != want {
		t.Errorf("the layout of %s is %q, %v; want %q", file, b[:max(n, 0)], err, want)
	}
}

// TestRoundTrip: a tree goes to CephFS and comes back, nothing is done twice, and verify
// finds what another client has spoiled.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	source := tree(t, rig.Shape{Small: 40, Large: 1, LargeBytes: 4 << 20, Odd: true, OddBytes: 8 << 20, Special: true})
	target, seen := folder(t)
	copied, back := filepath.Join(target, "copy"), filepath.Join(t.TempDir(), "back")
	p := rig.New(t)
	p.Do(t, 0, "copy", source, copied)
	same(t, source, filepath.Join(seen, "copy"))
	p.Do(t, 0, "verify", source, copied)
	if again := p.Do(t, 0, "sync", "-o", "jsonl", source, copied); strings.Contains(again.Stdout(), "datamove.item/v1") {
		t.Errorf("the second run moved something: %s", again.Stdout())
	}
	p.Do(t, 0, "copy", copied, back)
	same(t, source, back)

	spoiled := filepath.Join(seen, "copy/large/weights-0.bin")
	info, err := os.Stat(spoiled)
	must.Do(t, err)
	f, err := os.OpenFile(spoiled, os.O_WRONLY, 0)
	must.Do(t, err)
	_, err = f.WriteAt([]byte("spoiled"), 3<<20)
	must.Do(t, errors.Join(err, f.Close(), os.Chtimes(spoiled, info.ModTime(), info.ModTime())))
	if r := p.Do(t, 9, "verify", source, copied); !strings.Contains(r.Stdout()+r.Stderr(), "weights-0.bin") {
		t.Errorf("verify does not name the file: %s%s", r.Stdout(), r.Stderr())
	}
}

// TestLayouts: copies get the layout of their directory, keep it when they are made again,
// and take it along where another one is the default.
func TestLayouts(t *testing.T) {
	t.Parallel()
	source := tree(t, rig.Shape{Small: 10, Large: 1, LargeBytes: 20<<20 - 1234})
	target, seen := folder(t)
	striped, kept := filepath.Join(target, "striped"), filepath.Join(target, "kept")
	p := rig.New(t)
	must.Do(t, os.Mkdir(striped, 0o755))
	p.Do(t, 0, "layout", "set", "--stripe-size", "64KiB", "--stripe-count", "4", "--pool", "cephfs.fast.data", striped)
	copied := filepath.Join(striped, "copy")
	for _, again := range [][]string{nil, {"--again", "--checksum"}} {
		p.Do(t, 0, append(append([]string{"copy"}, again...), source, copied)...)
		same(t, source, filepath.Join(seen, "striped/copy"))
		layout(t, filepath.Join(copied, "large/weights-0.bin"))
	}
	p.Do(t, 0, "copy", "--preserve", "mode,owner,group,mtime,xattrs,links,layout", copied, kept)
	same(t, source, filepath.Join(seen, "kept"))
	layout(t, filepath.Join(kept, "large/weights-0.bin"))
}

// TestQuota: a quota of a directory ends a copy or lets it wait until there is more room,
// and what is there by then is whole. The copies are slow, since a quota is held late.
func TestQuota(t *testing.T) {
	source := tree(t, rig.Shape{Large: 28, LargeBytes: 1 << 20})
	target, _ := folder(t)
	copied := filepath.Join(target, "copy")
	p := rig.New(t)
	p.Do(t, 0, "quota", "set", "--bytes", "16MiB", target)
	p.Do(t, 7, "copy", "--bwlimit", "2MiB/s", "--full=fail", source, copied)
	if n := whole(t, source, copied); n > 22 {
		t.Errorf("%d files of 1 MiB went into a quota of 16", n)
	}
	r := p.Start(t, "copy", "--bwlimit", "2MiB/s", "--full=wait", source, copied)
	r.Until("it says that it waits", func() bool { return strings.Contains(r.Said()+r.Complained(), "paused") })
	p.Do(t, 0, "quota", "set", "--bytes", "1GiB", target)
	r.Want(0)
	same(t, source, copied)
}

// TestKill: after kill -9 at several moments the same command ends with an equal tree, and
// leaves no temporary name.
func TestKill(t *testing.T) {
	t.Parallel()
	source := tree(t, rig.Shape{Small: 100, Large: 1, LargeBytes: 8 << 20})
	target, seen := folder(t)
	p := rig.New(t)
	kills := 0
	for _, after := range []int{1, 30, 60, 90} {
		r := p.Start(t, "copy", source, target)
		r.Until("some names to be there, or temporary ones", func() bool {
			select {
			case <-r.Ended():
				return true
			default:
				return names(t, target) >= after
			}
		})
		if r.Kill() {
			kills++
		}
		whole(t, source, target)
	}
	if kills == 0 {
		t.Error("no run was killed before its end")
	}
	p.Do(t, 0, "copy", source, target)
	same(t, source, seen)
	p.Do(t, 0, "verify", source, target)
}

// names is how many there are below a directory, temporary ones, too. What goes meanwhile
// is no error.
func names(t *testing.T, dir string) (n int) {
	err := filepath.WalkDir(dir, func(_ string, _ os.DirEntry, err error) error {
		n++
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	must.Do(t, err)
	return n
}

// TestOpenFiles: files that are open on another client are replaced and removed, and who
// has them open reads on what he has opened.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	source := tree(t, rig.Shape{Small: 20, Large: 1, LargeBytes: 1 << 20})
	target, seen := folder(t)
	p := rig.New(t)
	p.Do(t, 0, "copy", source, target)
	replaced, removed := "small/000/file-00003.bin", "small/000/file-00004.bin"
	readers := map[*os.File][]byte{}
	for _, name := range []string{replaced, removed} {
		f, err := os.Open(filepath.Join(seen, name))
		must.Do(t, err)
		defer f.Close()
		if readers[f], err = os.ReadFile(filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(source, replaced), []byte("another"), 0o644), os.Remove(filepath.Join(source, removed))))
	p.Do(t, 0, "sync", "--delete", source, target)
	for f, was := range readers {
		got := make([]byte, len(was)+1)
		if n, err := f.ReadAt(got, 0); !bytes.Equal(got[:n], was) {
			t.Errorf("who has %s open reads %d bytes (%v), which it had not", f.Name(), n, err)
		}
	}
	same(t, source, seen)
}

// TestLock: a run on the same directory by another client hears who is there.
func TestLock(t *testing.T) {
	t.Parallel()
	source := tree(t, rig.Shape{Large: 1, LargeBytes: 48 << 20})
	target, seen := folder(t)
	must.Do(t, os.Chmod(target, 0o777))
	first := rig.New(t).Start(t, "copy", "--bwlimit", "2M", source, target)
	first.Until("the first one begins", func() bool { return names(t, target) > 1 })
	if second := rig.New(t).Do(t, 5, "copy", source, seen); !strings.Contains(second.Stderr(), "process") {
		t.Errorf("it does not say who holds the target: %s", second.Stderr())
	}
	first.Signal(syscall.SIGINT)
	first.Want(130)
}
