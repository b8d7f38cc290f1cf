package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// TestHungCalls: a call that waits is told of once, when it has waited long enough; one whose thread works is another one each time. A command that is to end leaves
// one behind that has waited, not sooner than others had time to end.
func TestHungCalls(t *testing.T) {
	at := time.Unix(1e9, 0)
	open, list := inCall{"7", "257 open"}, inCall{"8", "217 list"}
	var h hungCalls
	told := 0
	h.look(at.Add(-time.Second), []threadCall{{list, 0, "list /a"}})
	for i := range 31 {
		now := at.Add(time.Duration(i) * time.Second)
		h.look(now, []threadCall{
			{open, int64(i), "open /dead"},          // it wakes up to look at its server
			{list, int64(100 * (i + 1)), "list /a"}, // one call after the other, with the same arguments
		})
		why, once := h.tells(now)
		if want := i >= 20; (why == "open /dead: no answer for 20s; is its server there?") != want || !want && why != "" {
			t.Errorf("after %d s: %q", i, why)
		}
		if once {
			told++
		}
		if err, leaves := h.leaves(now, hungGrace); leaves != (i >= 10) || leaves && err.what != "open /dead" {
			t.Errorf("after %d s it is left behind: %v, %v", i, leaves, err)
		}
		if _, leaves := h.leaves(now, hungGrace-1); leaves {
			t.Errorf("after %d s what does not hang has no time to end", i)
		}
	}
	if told != 1 {
		t.Errorf("it was told %d times", told)
	}
	now := at.Add(31 * time.Second)
	h.look(now, nil)
	if why, _ := h.tells(now); why != "" {
		t.Errorf("it has ended, and is told of: %q", why)
	}
	if _, leaves := h.leaves(now, time.Hour); leaves {
		t.Error("nothing hangs, and something is left behind")
	}
}

// TestThreadCalls: the kernel says in which call a thread waits, and of which path. The opening of a FIFO that is not written to is one; a pipe
// is of no file system.
func TestThreadCalls(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	fifo := filepath.Join(dir, "fifo")
	must.Do(t, unix.Mkfifo(fifo, 0o600))
	folder := must.Get(unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0))(t)
	var pipe [2]int
	must.Do(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	opened := make(chan int, 3)
	opens := func(dir int, name string) {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		must.Tell(t, err)
		opened <- fd
	}
	go opens(unix.AT_FDCWD, fifo)
	go opens(unix.AT_FDCWD, "fifo")
	go opens(folder, "./fifo")
	var seen []threadCall
	patience.Until(t, "three threads wait for the FIFO", nil, func() bool {
		seen = slices.DeleteFunc(threadCalls(), func(c threadCall) bool { return !strings.HasPrefix(c.what, "open "+dir) })
		return len(seen) == 3
	})
	for _, c := range seen {
		if c.what != "open "+fifo {
			t.Errorf("a thread is seen to %s", c.what)
		}
	}
	if path := openPath(pipe[0]); path != "" {
		t.Errorf("a pipe is %s", path)
	}
	write := must.Get(unix.Open(fifo, unix.O_WRONLY|unix.O_CLOEXEC, 0))(t)
	for range 3 {
		must.Do(t, unix.Close(<-opened))
	}
	for _, fd := range []int{write, folder, pipe[0], pipe[1]} {
		must.Do(t, unix.Close(fd))
	}
}
