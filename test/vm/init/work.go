//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/vm/wire"
)

// work does the job, and tells the host how it went.
func work() {
	if err := base(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		os.Exit(1)
	}
	text, err := os.ReadFile(wire.JobFile)
	var job wire.Job
	if err == nil {
		err = json.Unmarshal(text, &job)
	}
	if err == nil {
		err = load(job.Modules) // the port, too, is a module's
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		os.Exit(1)
	}
	out, err := port(wire.Port)
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		os.Exit(1)
	}
	t := &teller{out: json.NewEncoder(out)}
	if err := do(job, t); err != nil {
		t.tell(wire.Event{Failed: err.Error()})
	}
	unix.Sync()
	t.tell(wire.Event{Done: true})
}

func do(job wire.Job, t *teller) error {
	if err := loopback(); err != nil {
		return err
	}
	for _, m := range job.Mounts {
		if err := mount(m); err != nil {
			return err
		}
	}
	for i, c := range job.Commands {
		exit := command(i, c, job.Env, t)
		t.tell(wire.Event{Exit: &exit})
		if exit.Code != 0 && !c.Optional {
			return nil // the host knows
		}
	}
	return nil
}

// teller sends events; output comes from several goroutines.
type teller struct {
	mu  sync.Mutex
	out *json.Encoder // guarded by mu
}

func (t *teller) tell(e wire.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.out.Encode(e); err != nil {
		fmt.Fprintln(os.Stderr, "init: the host does not listen:", err)
	}
}

// stream is the standard output or error of one command.
type stream struct {
	t       *teller
	command int
	failure bool
}

func (s stream) Write(p []byte) (int, error) {
	for left := p; len(left) > 0; {
		n := min(len(left), wire.ChunkBytes)
		s.t.tell(wire.Event{Output: &wire.Output{Command: s.command, Error: s.failure, Text: left[:n]}})
		left = left[n:]
	}
	return len(p), nil
}

// lingering is how long output is read on after the end of a command whose children
// still hold it.
const lingering = 10 * time.Second

func command(i int, c wire.Command, env []string, t *teller) wire.Exit {
	exit := wire.Exit{Command: i, Code: -1}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if c.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("took longer than %v", c.Timeout))
	}
	defer cancel()
	if len(c.Args) == 0 {
		exit.Reason = "no program is named"
		return exit
	}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env = append(append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}, env...), c.Env...)
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = io.Writer(stream{t, i, false}), io.Writer(stream{t, i, true})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = lingering
	err := cmd.Run()
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // mostly, nobody is left
	}
	if cmd.ProcessState != nil {
		exit.Code = cmd.ProcessState.ExitCode()
	}
	switch {
	case err != nil && context.Cause(ctx) != nil:
		exit.Code, exit.Reason = -1, context.Cause(ctx).Error()
	case errors.Is(err, exec.ErrWaitDelay): // its own end was good
	case err != nil:
		exit.Reason = err.Error()
	}
	return exit
}
