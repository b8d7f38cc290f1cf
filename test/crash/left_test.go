package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// What a killed run had begun of a file that is gone from the source since is
// dropped by the next run, which has no use for it.
func TestLeftOfWhatIsGone(t *testing.T) {
	p, source, files := rig.New(t), rig.Memory(t), filepath.Join(rig.Memory(t), "target")
	store := rig.NewStore(t, p)
	rig.Make(t, source, rig.Shape{Seed: 8, Small: 10})
	p.Do(t, 0, "copy", "-q", source, store.At("first")) // looks what the bucket can do, with an upload too
	for name, row := range map[string]struct {
		target string
		begun  func() bool
	}{
		"files": {files, func() bool { n, _ := drafts(files); return n > 1 }}, // the lock is one
		"store": {store.At("gone"), func() bool { return store.Uploads(t) > 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Make(t, source, rig.Shape{Seed: 8, Small: 10, Large: 1, LargeBytes: 80 << 20})
			r := p.Start(t, "copy", "-q", "--bwlimit", "4MiB/s", source, row.target)
			r.Until("a draft is there", row.begun)
			r.Kill()
			must.Do(t, os.RemoveAll(filepath.Join(source, "large")))
			p.Do(t, 0, "copy", "-q", source, row.target)
			if n, _ := drafts(files); n > 0 || store.Uploads(t) > 0 {
				t.Errorf("%d drafts and %d uploads are left", n, store.Uploads(t))
			}
		})
	}
}

// A part that a killed run had sent, and that its store takes in after the upload was
// aborted, brings the upload back. The next run aborts it once more.
//
//safety:3 a part of the killed run comes when its upload was aborted, and brings it back: the next run leaves none
func TestPartComesLate(t *testing.T) {
	p, source := rig.New(t), rig.Memory(t)
	store := rig.NewStore(t, p)
	rig.Make(t, source, rig.Shape{Seed: 10, Small: 10})
	p.Do(t, 0, "copy", "-q", source, store.At("first")) // looks what the bucket can do, with an upload too
	rig.Make(t, source, rig.Shape{Seed: 10, Small: 10, Large: 1, LargeBytes: 80 << 20})
	r := p.Start(t, "copy", "-q", "--bwlimit", "1MiB/s", source, store.At("late"))
	r.Until("an upload is there", func() bool { return len(store.UploadDirs(t)) > 0 })
	r.Kill()
	upload := store.UploadDirs(t)[0]

	r = p.Start(t, "copy", "-q", "--bwlimit", "10MiB/s", source, store.At("late"))
	r.Until("the upload was aborted, and another begun", func() bool {
		now := store.UploadDirs(t)
		return len(now) > 0 && !slices.Contains(now, upload)
	})
	if err := os.Mkdir(upload, 0o755); err != nil { // as the server does when the part is there
		t.Fatal(err)
	}
	must.Do(t, os.WriteFile(filepath.Join(upload, "1"), []byte("part"), 0o644))
	r.Want(0)
	if left := store.UploadDirs(t); len(left) > 0 {
		t.Errorf("uploads are left: %q", left)
	}
}

// A holder that was killed and that nobody has waited for, as it happens in
// containers, holds nothing.
func TestHeldByZombie(t *testing.T) {
	p, source := rig.New(t), rig.Memory(t)
	store := rig.NewStore(t, p)
	rig.Make(t, source, rig.Shape{Seed: 9, Large: 1, LargeBytes: 40 << 20})
	careless := *p
	careless.Wrapper = []string{"sh", "-c", `"$0" "$@" & exec sleep 1000`}
	parent := careless.Start(t, "copy", "-q", "--bwlimit", "256KiB/s", source, store.At("zombie"))
	lock := filepath.Join(store.Dir("zombie"), ".datamove", "lock")
	parent.Until("the target is locked", func() bool { st, err := os.Stat(lock); return err == nil && st.Size() > 0 })
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent.PID(), parent.PID()))
	if err != nil {
		t.Skip("the kernel does not list children: ", err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(children)))
	must.Do(t, err)
	must.Do(t, syscall.Kill(child, syscall.SIGKILL))
	parent.Until("it is a zombie", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return err == nil && strings.Contains(string(stat), ") Z ")
	})
	p.Do(t, 0, "copy", "-q", source, store.At("zombie"))
}
