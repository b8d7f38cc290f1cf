package root

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/test/must"
)

// terminal is one with nobody before it: what is written to it can be read.
type terminal struct {
	*os.File // the side of the program
	screen   *watched
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	must.Do(t, unix.IoctlSetPointerInt(int(far.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(far.Fd()), unix.TIOCGPTN)
	must.Do(t, err)
	near, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must.Do(t, err)
	term := &terminal{near, &watched{said: make(chan struct{})}}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(term.screen, far) }) // until the other side is closed
	t.Cleanup(func() {
		_ = near.Close()
		wg.Wait()
		_ = far.Close()
	})
	return term
}

// TestColours are there on a terminal, unless NO_COLOR says otherwise.
func TestColours(t *testing.T) {
	s, _ := furnished(t)
	for env, want := range map[string]string{"": "\x1b[32mtask0000000000000002  done", "NO_COLOR": "\ntask0000000000000002  done"} {
		term := newTerminal(t)
		a := cli.App{In: strings.NewReader(""), Out: term.File, Err: io.Discard, Env: func(key string) string {
			return map[string]string{"DATAMOVE_SERVICE": s.address(), env: "1"}[key]
		}}
		must.Do(t, execute(t.Context(), &a, []string{"task", "list", "--all"}))
		term.screen.wait(t.Context(), "on scratch")
		if text := term.screen.String(); !strings.Contains(text, want) || strings.Contains(text, "\x1b") != (env == "") {
			t.Errorf("%q: %q", env, text)
		}
	}
}

// TestWatchOnATerminal draws a task live, and what became of it.
func TestWatchOnATerminal(t *testing.T) {
	s := newFake(t)
	id := s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/a", Target: "/b"}, "").GetId()
	s.change(id, func(t *pb.Task) {
		t.State, t.Phase = pb.TaskState_TASK_STATE_RUNNING, "moving"
		t.Progress = &pb.Progress{FilesDone: 1, BytesDone: 1 << 20, PlanComplete: true, Planned: &pb.Totals{Files: 2, Bytes: 2 << 20}}
	})
	term := newTerminal(t)
	go func() {
		term.screen.wait(t.Context(), "1/2 files  1.00 MiB/2.00 MiB  50%")
		s.change(id, isDone)
	}()
	a := cli.App{In: strings.NewReader(""), Out: term.File, Err: io.Discard, Env: func(key string) string { return map[string]string{"DATAMOVE_SERVICE": s.address()}[key] }}
	must.Do(t, execute(t.Context(), &a, []string{"task", "watch", id}))
	term.screen.wait(t.Context(), "already there\r\n")
	has(t, "screen", term.screen.String(), "\x1b[1A\x1b[2K"+id+"  \x1b[32mdone (exit 0)\x1b[0m\r\ncopied 2 files")
}
