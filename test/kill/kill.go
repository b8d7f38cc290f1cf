// Package kill ends processes by SIGKILL at the n-th thing that they do, and not after some milliseconds, so that a
// kill that finds a fault can be repeated. n comes from a seed (see Random).
//
// The process is the test binary itself, in a mode: TestMain calls Main, which does the mode in a process that was
// started for it. A mode does operations one after the other and says a line (Say) when one is acknowledged. The
// test kills it
//
//   - at its n-th line (AtLine): what was said is acknowledged, and what comes next is on its way. A mode that asks
//     (Ask) stands still where it does until the test lets it go on: if that is the line, it is killed there;
//   - at its n-th call (AtCall): a system call that changes files, before the kernel does it. That is inside an
//     operation, and the same place each time if one thread makes such calls;
//   - at every call (Prefixes): a state for each prefix of the calls, of one process.
//
// Then the test opens the store and compares it with what was said. AtCall and Prefixes are made of ptrace(2), which
// needs no rights, and know the calls of all threads. What a store writes by mmap(2) is no call.
//
// No wait is bounded by seconds: each ends with a line or with the end of the process, and the limit of the package's
// tests ends a process that does neither.
package kill

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"datamove.dev/test/must"
)

// variable has the mode of a process that was started for it, and its argument.
const variable = "DATAMOVE_TEST_MODE"

// Main does a mode and ends the process, if it was started for that; else it returns.
func Main(modes map[string]func(argument string) error) {
	mode, argument, is := strings.Cut(os.Getenv(variable), "=")
	if !is {
		return
	}
	do := modes[mode]
	if do == nil {
		fmt.Fprintf(os.Stderr, "there is no mode %q\n", mode)
		os.Exit(2)
	}
	if err := do(argument); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

var saying sync.Mutex

// Say says one line in one write.
func Say(words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(words...)
}

// question is before each line of Ask.
const question = "? "

// answers are read by Ask.
var answers = bufio.NewScanner(os.Stdin)

// Ask says a line, and returns when the test has read it and wants another one.
func Ask(words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Print(question + fmt.Sprintln(words...))
	if !answers.Scan() {
		os.Exit(1) // the test is over
	}
}

// Command is this test binary in a mode.
func Command(mode, argument string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), variable+"="+mode+"="+argument, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// Child is a process in a mode.
type Child struct {
	*exec.Cmd
	In     io.WriteCloser // its standard input
	t      testing.TB
	lines  *bufio.Scanner
	asks   bool // the last line was a question
	stderr strings.Builder
}

// Start starts a mode. It ends with the test at the latest.
func Start(t testing.TB, mode, argument string) *Child {
	t.Helper()
	c := &Child{Cmd: Command(mode, argument), t: t}
	c.Stderr = &c.stderr
	in, err := c.StdinPipe()
	out, err1 := c.StdoutPipe()
	if err = errors.Join(err, err1); err == nil {
		err = c.Cmd.Start()
	}
	must.Do(t, err)
	c.In, c.lines = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c
}

// Line returns the next line, and io.EOF when the process has ended and said no more. If the last one was asked, it
// lets the process go on.
func (c *Child) Line() (string, error) {
	if c.asks {
		_, _ = fmt.Fprintln(c.In) // if it lives
	}
	c.asks = false
	return c.scan()
}

func (c *Child) scan() (line string, err error) {
	if c.lines.Scan() {
		line, c.asks = strings.CutPrefix(c.lines.Text(), question)
		return line, nil
	}
	if err := c.lines.Err(); err != nil {
		return "", err
	}
	return "", io.EOF
}

// Kill kills it, reads on until it has said all, and returns what that was. A process that had ended by itself fails
// the test.
func (c *Child) Kill() (rest []string) {
	c.t.Helper()
	_ = c.Process.Kill() // it may have ended, which is seen below
	for {
		line, err := c.scan()
		if err != nil {
			break
		}
		rest = append(rest, line)
	}
	_ = c.Wait() // the state tells how
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		c.t.Fatalf("it ended by itself: %v\n%s\n%s", c.ProcessState, strings.Join(rest, "\n"), c.stderr.String())
	}
	return rest
}

// AtLine starts a mode and kills it at its n-th line, from 1, of those that begin with kind. It hands over each line
// when it was said, also those that it said until it was dead.
func AtLine(t testing.TB, mode, argument, kind string, n int, each func(line string)) {
	t.Helper()
	t.Logf("killed at line %d %s", n, kind)
	c := Start(t, mode, argument)
	c.Until(kind, n, each)
	for _, line := range c.Kill() {
		each(line)
	}
}

// Until hands over lines up to the n-th that begins with kind, or to the last.
func (c *Child) Until(kind string, n int, each func(line string)) {
	for n > 0 {
		line, err := c.Line()
		if err != nil {
			return // how it ended is seen when it is killed
		}
		if each(line); strings.HasPrefix(line, kind) {
			n--
		}
	}
}
