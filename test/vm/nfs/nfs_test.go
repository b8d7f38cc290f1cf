// Package nfs is what copies do on NFS, in a guest that is its own server: test/vm/guests
// runs it once for each version of the protocol.
package nfs

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

	"datamove.dev/lustre"
	"datamove.dev/lustre/localfs"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// The host says by these where things are.
const (
	mounted  = "NFS_MOUNT"
	exported = "NFS_EXPORT" // the same directory on the server's own ext4
)

func TestMain(m *testing.M) {
	if os.Getenv(mounted) == "" {
		fmt.Println("NFS is mounted in the guests of make e2e-vm")
		return
	}
	rig.Main(m, nil)
}

// folder makes a directory for one test, and returns its path below NFS and below the
// server's own file system.
func folder(t *testing.T) (path, served string) {
	t.Helper()
	path = must.Get(os.MkdirTemp(os.Getenv(mounted), "scenario-"))(t)
	must.Do(t, os.Chmod(path, 0o755))
	t.Cleanup(func() {
		must.Tell(t, os.RemoveAll(path))
	})
	return path, filepath.Join(os.Getenv(exported), filepath.Base(path))
}

// tree makes a tree on the server's own file system. NFS 3 carries no attributes of
// users, so a copy to it would say that some are lost.
func tree(t *testing.T, files int, largeBytes int64) string {
	dir := must.Get(os.MkdirTemp(os.Getenv(exported), "source-"))(t)
	t.Cleanup(func() {
		must.Tell(t, os.RemoveAll(dir))
	})
	rig.Make(t, dir, rig.Shape{Seed: 11, Small: files, Large: 1, LargeBytes: largeBytes, Odd: os.Getenv(mounted) == "/nfs42", OddBytes: 8 << 20})
	return dir
}

// TestRoundTrip: a tree goes to NFS and comes back, nothing is done twice, and verify
// reads that all is equal, and what is not.
func TestRoundTrip(t *testing.T) {
	source := tree(t, 40, 4<<20)
	target, served := folder(t)
	p := rig.New(t)
	p.Do(t, 0, "copy", source, filepath.Join(target, "copy"))
	rig.SameTrees(t, source, filepath.Join(served, "copy"), false)
	p.Do(t, 0, "verify", source, filepath.Join(target, "copy"))
	again := p.Do(t, 0, "sync", "-o", "jsonl", source, filepath.Join(target, "copy"))
	if strings.Contains(again.Stdout(), "datamove.item/v1") {
		t.Errorf("the second run moved something: %s", again.Stdout())
	}
	p.Do(t, 0, "copy", filepath.Join(target, "copy"), filepath.Join(target, "back"))
	rig.SameTrees(t, source, filepath.Join(served, "back"), false)

	spoiled := filepath.Join(served, "back/large/weights-0.bin") // by somebody on the server
	info := must.Get(os.Stat(spoiled))(t)
	f := must.Get(os.OpenFile(spoiled, os.O_WRONLY, 0))(t)
	if _, err := f.WriteAt([]byte("spoiled"), 3<<20); err != nil {
		t.Fatal(err)
	}
	must.Do(t, errors.Join(f.Close(), os.Chtimes(spoiled, info.ModTime(), info.ModTime())))
	if r := p.Do(t, 9, "verify", source, filepath.Join(target, "back")); !strings.Contains(r.Stdout()+r.Stderr(), "weights-0.bin") {
		t.Errorf("verify does not name the file: %s%s", r.Stdout(), r.Stderr())
	}
}

// TestKill: after kill -9 at several moments the same command ends with an equal tree,
// and leaves no temporary name and none of the client's.
func TestKill(t *testing.T) {
	source := tree(t, 100, 8<<20)
	want, _ := rig.Look(t, source)
	target, served := folder(t)
	p := rig.New(t)
	kills := 0
	for _, after := range []int{1, 30, 60, 100} {
		r := p.Start(t, "copy", source, target)
		r.Until("some names to be there, or temporary ones", func() bool {
			select {
			case <-r.Ended():
				return true
			default:
			}
			return len(names(t, served)) >= after
		})
		if r.Kill() {
			kills++
		}
		got, _ := rig.Look(t, served)
		for name, n := range got {
			if n.Type == 0 && n.Content() != want[name].Content() {
				t.Errorf("after a kill %q is %v, want %v", name, n, want[name])
			}
		}
	}
	if kills == 0 {
		t.Error("no run was killed before its end")
	}
	p.Do(t, 0, "copy", source, target)
	rig.SameTrees(t, source, served, false)
	left(t, served)
	p.Do(t, 0, "verify", source, target)
}

// names are all below a directory, temporary ones, too. What goes meanwhile is no error.
func names(t *testing.T, dir string) (all []string) {
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			all = append(all, path)
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
	must.Do(t, err)
	return all
}

// left fails when the client's names for files that are open and gone, or ours, are there.
func left(t *testing.T, dir string) {
	t.Helper()
	settled(t, dir)
	for _, name := range names(t, dir) {
		if rig.Temporary(filepath.Base(name)) {
			t.Errorf("%s is left", name)
		}
	}
}

// settled waits until the client has removed what it keeps under names of its own: a file that is removed while a write of it is not yet
// answered goes when it is, and that may be after the command has ended.
func settled(t *testing.T, dir string) {
	t.Helper()
	all := func() string { return strings.Join(names(t, dir), " ") }
	patience.Until(t, "the client's removal of .nfs files", all, func() bool { return !strings.Contains(all(), ".nfs") })
}

// TestOpenFiles: files that somebody on the same client has open are replaced and
// removed; who has them open reads on what he has opened, under the name that the client
// gives it, and that name goes with him.
func TestOpenFiles(t *testing.T) {
	source := tree(t, 20, 1<<20)
	target, served := folder(t)
	p := rig.New(t)
	p.Do(t, 0, "copy", source, target)
	replaced, removed := "small/000/file-00003.bin", "small/000/file-00004.bin"
	readers := map[string]*os.File{}
	was := map[string][]byte{}
	for _, name := range []string{replaced, removed} {
		f, err := os.Open(filepath.Join(target, name))
		must.Do(t, err)
		defer f.Close()
		readers[name] = f
		if was[name], err = os.ReadFile(filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(source, replaced), []byte("another"), 0o644), os.Remove(filepath.Join(source, removed))))
	p.Do(t, 0, "sync", "--delete", source, target)
	for name, f := range readers {
		got := make([]byte, len(was[name])+1)
		if n, err := f.ReadAt(got, 0); !bytes.Equal(got[:n], was[name]) {
			t.Errorf("who has %s open reads %d bytes (%v), which it had not", name, n, err)
		}
	}
	for _, f := range readers {
		must.Tell(t, f.Close())
	}
	p.Do(t, 0, "sync", "--delete", source, target)
	rig.SameTrees(t, source, served, false)
	left(t, served)
}

// TestQuota: a project's quota on the server stops a copy of an ordinary user over NFS
// as a full target, nothing is half there, and with room the same command ends.
func TestQuota(t *testing.T) {
	source := tree(t, 10, 12<<20)
	target, served := folder(t)
	system := &lustre.System{Kind: lustre.IsExt4}
	localfs.Answer(system, "/dev/vda")
	project := lustre.Project{ID: 4711, Inherit: true}
	dir := must.Get(os.Open(served))(t)
	defer dir.Close()
	limit := func(bytes int64) {
		t.Helper()
		must.Do(t, system.Quota.SetQuota(t.Context(), int(dir.Fd()), project, lustre.Limits{HardBytes: bytes}))
	}
	must.Do(t, errors.Join(system.Quota.SetProject(t.Context(), int(dir.Fd()), project), os.Chown(served, 1000, 1000), os.Chmod(source, 0o755)))
	limit(8 << 20)
	p := rig.New(t)
	p.Cred = &syscall.Credential{Uid: 1000, Gid: 1000}
	must.Do(t, os.Chown(p.State, 1000, 1000))
	must.Do(t, os.Chmod(filepath.Dir(p.State), 0o755))
	large := filepath.Join(source, "large")
	r := p.Do(t, 7, "copy", "--full=fail", large, target)
	settled(t, served)
	if got, _ := rig.Look(t, served); len(got) > 1 {
		t.Errorf("something is there: %v", got)
	}
	t.Logf("it says: %s", r.Stderr())
	limit(64 << 20)
	p.Do(t, 0, "copy", "--full=fail", large, target)
	p.Do(t, 0, "verify", large, target)
	limit(0)
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil || st.Type != unix.NFS_SUPER_MAGIC {
		t.Errorf("the target is on %#x, %v", st.Type, err)
	}
}

// TestLock: a second run on the same target hears who is there.
func TestLock(t *testing.T) {
	source := tree(t, 10, 24<<20)
	target, _ := folder(t)
	first := rig.New(t).Start(t, "copy", "--bwlimit", "1M", source, target)
	first.Until("the first one to begin", func() bool { return len(names(t, target)) > 1 })
	second := rig.New(t).Do(t, 5, "copy", source, target)
	t.Logf("it says: %s", second.Stderr())
	first.Signal(syscall.SIGINT)
	first.Wait() // go test's limit is its limit
}
