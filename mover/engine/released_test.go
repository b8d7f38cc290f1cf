package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// hsm is a file system with an archive. A released file is one hole, as large as it was;
// it is back when it was asked for and looked at often enough.
type hsm struct {
	mu       sync.Mutex
	contents map[uint64][]byte // of released files, by inode
	looks    map[uint64]int    // until a recalled one is back
	requests []int             // how many files each had
	denied   error             // why nothing is brought back
	again    bool              // what comes back is released at once
}

// release takes the content of a file away.
func (h *hsm) release(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	was, statErr := os.Stat(path)
	var st unix.Stat_t
	if err = errors.Join(err, statErr, unix.Stat(path, &st), os.Truncate(path, 0), os.Truncate(path, int64(len(content)))); err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.Chtimes(path, was.ModTime(), was.ModTime()))
	h.contents[st.Ino] = content
}

func inode(fd int) (st unix.Stat_t) {
	if err := unix.Fstat(fd, &st); err != nil {
		panic(err)
	}
	return st
}

// Away implements mover.FileSystem.
func (h *hsm) Away(fd int) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := inode(fd)
	content, away := h.contents[st.Ino]
	left, asked := h.looks[st.Ino]
	if !away || !asked || h.again {
		return away, nil
	}
	if h.looks[st.Ino]--; left > 0 {
		return true, nil
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_WRONLY, 0)
	if err != nil {
		return true, err
	}
	defer f.Close()
	if _, err := f.WriteAt(content, 0); err != nil {
		return true, err
	}
	times := []unix.Timespec{st.Atim, st.Mtim}
	delete(h.contents, st.Ino)
	return false, unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), times, 0)
}

// Recall implements mover.FileSystem.
func (h *hsm) Recall(_ context.Context, fds []int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, len(fds))
	for _, fd := range fds {
		h.looks[inode(fd).Ino] = 1
	}
	return h.denied
}

func (*hsm) Create(int, string, int, uint32, mover.NewFile) (int, error) {
	return -1, mover.ErrUnsupported
}
func (*hsm) Multiple(int, int64) int64            { return 0 }
func (*hsm) Layout(int) ([]byte, int64, error)    { return nil, 0, mover.ErrUnsupported }
func (*hsm) Left(int) (mover.Room, bool, error)   { return mover.Room{}, false, nil }
func (h *hsm) open(int) (mover.FileSystem, error) { return h, nil }

// archived is a source of which half is in an archive only: 300 small files, a large
// one, and two names of one.
func archived(t *testing.T) (h *hsm, source string) {
	t.Helper()
	source = filepath.Join(t.TempDir(), "source")
	h = &hsm{contents: map[uint64][]byte{}, looks: map[uint64]int{}}
	must.Do(t, os.MkdirAll(source+"/d", 0o755))
	write := func(name, content string) {
		must.Do(t, os.WriteFile(filepath.Join(source, name), []byte(content), 0o644))
	}
	for i := range 600 {
		write(fmt.Sprintf("d/%03d", i), fmt.Sprint("content ", i))
		if i%2 == 0 {
			h.release(t, filepath.Join(source, fmt.Sprintf("d/%03d", i)))
		}
	}
	write("large", strings.Repeat("0123456789abcdef", 1<<17))
	h.release(t, source+"/large")
	write("one", "of two names")
	must.Do(t, os.Link(source+"/one", source+"/two"))
	h.release(t, source+"/one")
	return h, source
}

// states notes for what a task paused.
type states struct {
	mu     sync.Mutex
	paused []string // guarded by mu
}

func (*states) Item(Item) {}
func (s *states) State(p Phase, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p == Waiting {
		s.paused = append(s.paused, why)
	}
}

func (h *hsm) copy(t *testing.T, source, target string, r Request) (Report, error) {
	t.Helper()
	r.Source, r.Target = location.Location{Scheme: location.POSIX, Path: source}, location.Location{Scheme: location.POSIX, Path: target}
	r.StateDir, r.Reflink = t.TempDir(), ReflinkNever
	if r.Work == 0 {
		r.Work = Copy
	}
	task, err := Start(t.Context(), r, func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		return posix.Open(l.Path, posix.Options{Create: o.Write, FileSystem: h.open})
	})
	must.Do(t, err)
	return task.Wait()
}

// TestReleasedAreRestored: nobody reads a hole for a content, and the archive is asked
// for many files at once.
//
//safety:4 files with their content in an archive only, which looks like one hole: none is copied as such, and nothing is removed for it
func TestReleasedAreRestored(t *testing.T) {
	h, source := archived(t)
	target, seen := filepath.Join(t.TempDir(), "target"), &states{}
	report, err := h.copy(t, source, target, Request{Observer: seen})
	if err != nil || report.Failed > 0 {
		t.Fatalf("%v; %d failed: %+v", err, report.Failed, report.Failures)
	}
	for i := range 600 {
		name := fmt.Sprintf("/d/%03d", i)
		if got, err := os.ReadFile(target + name); string(got) != fmt.Sprint("content ", i) {
			t.Errorf("%s has %q (%v)", name, got, err)
		}
	}
	if got, _ := os.ReadFile(target + "/large"); string(got) != strings.Repeat("0123456789abcdef", 1<<17) {
		t.Error("large has another content")
	}
	if got, _ := os.ReadFile(target + "/two"); string(got) != "of two names" {
		t.Errorf("two has %q", got)
	}
	asked := 0
	for _, n := range h.requests {
		asked += n
	}
	if asked != 302 || len(h.requests) > 8 {
		t.Errorf("302 files were asked for in requests of %v", h.requests)
	}
	if len(seen.paused) == 0 || !strings.Contains(seen.paused[0], "archive") {
		t.Errorf("the task paused for %q", seen.paused)
	}
}

// TestReleasedAreSkipped: they are left out and told, and nothing is removed for it.
//
//safety:4 with TestReleasedAreRestored
func TestReleasedAreSkipped(t *testing.T) {
	h, source := archived(t)
	target := filepath.Join(t.TempDir(), "target")
	must.Do(t, errors.Join(os.MkdirAll(target+"/d", 0o755), os.WriteFile(target+"/d/000", []byte("old"), 0o644), os.WriteFile(target+"/gone", nil, 0o644)))
	report, err := h.copy(t, source, target, Request{Work: Sync, Delete: true, Released: ReleasedSkip})
	if err != nil || report.Failed > 0 {
		t.Fatalf("%v; %d failed: %+v", err, report.Failed, report.Failures)
	}
	if len(h.requests) > 0 {
		t.Errorf("the archive was asked for %v", h.requests)
	}
	if !strings.Contains(strings.Join(report.Notes, "\n"), "303 released files") { // with the second name
		t.Errorf("notes: %q", report.Notes)
	}
	if got, _ := os.ReadFile(target + "/d/000"); string(got) != "old" {
		t.Errorf("000, which was left out, has %q", got)
	}
	for name, there := range map[string]bool{"/d/001": true, "/d/002": false, "/large": false, "/one": false, "/two": false, "/gone": false} {
		if _, err := os.Lstat(target + name); (err == nil) != there {
			t.Errorf("%s: %v, and there should be %v", name, err, there)
		}
	}
}

// TestReleasedFail: each is named, whatever the reason is that it does not come.
//
//safety:4 with TestReleasedAreRestored
func TestReleasedFail(t *testing.T) {
	for what, c := range map[string]struct {
		denied error
		again  bool
		way    Released
		want   error
	}{
		"as it was asked for": {nil, false, ReleasedFail, mover.ErrReleased},
		"nobody may ask":      {unix.EPERM, false, ReleasedRestore, mover.ErrPermission},
		"nobody can ask":      {mover.ErrUnsupported, false, ReleasedRestore, mover.ErrUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			h, source := archived(t)
			h.denied, h.again = c.denied, c.again
			report, err := h.copy(t, source, filepath.Join(t.TempDir(), "target"), Request{Released: c.way})
			if err == nil || report.Failed != 303 && report.Failed != 302 {
				t.Errorf("%v; %d failed", err, report.Failed)
			}
			for _, f := range report.Failures {
				if !errors.Is(f.Err, c.want) && f.Name != "two" {
					t.Errorf("%s: %v", f.Name, f.Err)
				}
			}
		})
	}
}

// TestFactsOfReleased: facts are brought over without the content.
func TestFactsOfReleased(t *testing.T) {
	h, source := archived(t)
	target := filepath.Join(t.TempDir(), "target")
	if _, err := h.copy(t, source, target, Request{}); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		path := filepath.Join(source, fmt.Sprintf("d/%03d", 2*i))
		h.release(t, path)
		must.Do(t, os.Chmod(path, 0o600))
	}
	h.requests = nil
	report, err := h.copy(t, source, target, Request{})
	if err != nil || report.Updated < 300 || report.Files > 0 || len(h.requests) > 0 {
		t.Errorf("%v; %d updated, %d copied, the archive was asked for %v", err, report.Updated, report.Files, h.requests)
	}
}

// TestOneReleased: a file by itself, under another name.
func TestOneReleased(t *testing.T) {
	h, source := archived(t)
	target := filepath.Join(t.TempDir(), "copy")
	if _, err := h.copy(t, source+"/d/000", target, Request{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(target); string(got) != "content 0" {
		t.Errorf("the copy has %q", got)
	}
}

// TestReleasedNeverComes: a task that waits for an archive which does not answer can be stopped.
func TestReleasedNeverComes(t *testing.T) {
	h, source := archived(t)
	h.again = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	task, err := Start(ctx, Request{
		Work: Copy, Source: location.Location{Scheme: location.POSIX, Path: source}, Target: location.Location{Scheme: location.POSIX, Path: filepath.Join(t.TempDir(), "target")},
		StateDir: t.TempDir(), Reflink: ReflinkNever, Observer: stopper{cancel},
	}, func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		return posix.Open(l.Path, posix.Options{Create: o.Write, FileSystem: h.open})
	})
	must.Do(t, err)
	if _, err := task.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// stopper stops a task when it pauses.
type stopper struct{ stop func() }

func (stopper) Item(Item) {}
func (s stopper) State(p Phase, _ string) {
	if p == Waiting {
		s.stop()
	}
}
