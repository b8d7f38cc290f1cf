package root

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/test/must"
)

// TestSignalsThere: whatever tells a waiting process to end, and how often, its task is cancelled at the service, and the process does not wait when it is
// told twice.
//
//safety:8 with TestInterruptThere a signal that comes twice, as from timeout(1), while a task of a service is being cancelled
func TestSignalsThere(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // else a process inherits that it is ignored
	const cancelled, goesOn = "task0000000000000001 is cancelled; what is done stays\n", "task task0000000000000001 is being cancelled: interrupted; datamove task show task0000000000000001 "
	for _, row := range []struct {
		name          string
		first, second syscall.Signal // 0 is none
		want          string
	}{
		{"timeout once", syscall.SIGTERM, 0, cancelled},
		{"timeout", syscall.SIGTERM, syscall.SIGTERM, goesOn},
		{"^C", syscall.SIGINT, 0, cancelled},
		{"^C twice", syscall.SIGINT, syscall.SIGINT, goesOn},
		{"a closed terminal", syscall.SIGHUP, 0, cancelled},
		{"a closed terminal, and its shell", syscall.SIGHUP, syscall.SIGHUP, goesOn},
		{"a pipe that is not read any more", 0, 0, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newFake(t)
			asked, answer := make(chan struct{}), make(chan struct{})
			var once sync.Once
			s.mu.Lock() // intercept has it, too: the caller is another process, and orders nothing in this one
			s.cancelling = func(context.Context) { once.Do(func() { close(asked); <-answer }) }
			if row.second != 0 {
				s.cancel = func(task *pb.Task) { task.Phase = "cancelling" }
			}
			s.mu.Unlock()
			said := running(t, s)
			if row.first == 0 {
				must.Do(t, said.read.Close())
				s.change("task0000000000000001", func(task *pb.Task) { task.Why = "no room" })
			} else {
				must.Do(t, said.Process.Signal(row.first))
			}
			select {
			case <-asked:
			case <-said.ended:
				t.Fatalf("it ended without a word to the service: %v", said.ProcessState)
			}
			if row.second != 0 {
				must.Do(t, said.Process.Signal(row.second))
			}
			close(answer)
			text, _ := io.ReadAll(said.rest)
			<-said.ended
			if code := said.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.Contains(string(text), row.want) {
				t.Errorf("exit %d, and it said %s", code, text)
			}
		})
	}
}

// process is a command that waits for its task.
type process struct {
	*exec.Cmd
	read  *os.File      // its standard error
	rest  io.Reader     // what it says from now on
	ended chan struct{} // closed when it has ended
}

// running starts a copy by a service, and returns when its task has begun.
func running(t *testing.T, s *fake) *process {
	t.Helper()
	read, write, err := os.Pipe()
	must.Do(t, err)
	cmd := exec.Command("datamove", "copy", "--service", s.address(), "/a", "/b")
	cmd.Stderr = write
	must.Do(t, cmd.Start())
	must.Do(t, write.Close())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended; _ = read.Close() })
	lines := bufio.NewReader(read)
	for {
		line, err := lines.ReadString('\n')
		must.Do(t, err)
		if strings.Contains(line, "task task") {
			return &process{cmd, read, lines, ended}
		}
	}
}
