package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command is a program to run in a node. Its environment has nothing but Env, a
// PATH, and a home in the directory of the node: no proxy, no credentials of ours.
type Command struct {
	Path string
	Args []string
	Env  []string
}

// Process is a program that runs in a node, or has.
type Process struct {
	Stdout, Stderr output

	what  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
	err   error         // how; known when it has ended
}

// Start starts a program in the namespace of the node. It is killed when ctx ends,
// or this process does.
func (n *Node) Start(ctx context.Context, c Command) (*Process, error) {
	p := &Process{what: fmt.Sprintf("%s in %s", filepath.Base(c.Path), n.Name), ended: make(chan struct{})}
	path, err := exec.LookPath(c.Path) // ip would say so only later
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.what, err)
	}
	p.cmd = exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.space, path}, c.Args...)...) // ip becomes the program
	p.cmd.Dir = n.Dir
	p.cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + n.Dir, "NO_COLOR=1"}, c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.Stdout, &p.Stderr
	p.cmd.WaitDelay = 10 * time.Second // for a child of the program that holds its output open
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	begun := make(chan error)
	go p.run(begun)
	if err := <-begun; err != nil {
		return nil, fmt.Errorf("%s: %w", p.what, err)
	}
	return p, nil
}

// run starts the program from a thread that stays until it has ended: the death of
// that thread would be the signal for it to die.
func (p *Process) run(begun chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	begun <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// Wait returns when the program has ended: nil when it says that all is well.
func (p *Process) Wait() error {
	<-p.ended
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.what, p.err, strings.TrimSpace(p.Stderr.String()+p.Stdout.String()))
	}
	return nil
}

// CPU is the time that a program which has ended spent on a CPU.
func (p *Process) CPU() time.Duration {
	<-p.ended
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Stop kills the program and waits for its end.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// Said returns when the program has printed words. Its end without them is an error.
func (p *Process) Said(ctx context.Context, words string) error {
	for over := false; ; {
		out, log := p.Stdout.changes(), p.Stderr.changes()
		switch {
		case strings.Contains(p.Stdout.String(), words), strings.Contains(p.Stderr.String(), words):
			return nil
		case over:
			return fmt.Errorf("%s ended and did not say %q: %s", p.what, words, strings.TrimSpace(p.Stderr.String()+p.Stdout.String()))
		}
		select {
		case <-out:
		case <-log:
		case <-p.ended:
			over = true // what it said last is looked at once more
		case <-ctx.Done():
			return fmt.Errorf("%s did not say %q: %w", p.what, words, context.Cause(ctx))
		}
	}
}

// outputBytes is how much of what a program prints is kept.
const outputBytes = 4 << 20

// output is what a program prints, while others read it.
type output struct {
	mu      sync.Mutex // guards all below
	text    bytes.Buffer
	changed chan struct{} // closed with the next write; nil when nobody waits
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p[:min(len(p), outputBytes-o.text.Len())])
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return len(p), nil
}

func (o *output) changes() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}

// String returns what was printed so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// together starts something in each node at once and waits for all. The first
// failure ends the others.
func together(ctx context.Context, nodes []*Node, run func(ctx context.Context, i int, n *Node) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failed := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			if failed[i] = run(ctx, i, n); failed[i] != nil {
				stop(failed[i])
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errors.Join(failed...)
}
