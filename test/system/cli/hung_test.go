package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/deadmount"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// hung mounts a file system whose process takes every question and answers none: whoever
// waits for it can not be killed. asked is closed when somebody does.
func hung(t *testing.T) (dir string, asked <-chan struct{}) {
	t.Helper()
	dir = t.TempDir()
	ended, begun := make(chan struct{}), make(chan struct{})
	fd := deadmount.Open(t, dir, func() { <-ended })
	go func() {
		defer close(ended)
		var once sync.Once
		request := make([]byte, 1<<20)
		for {
			n, err := unix.Read(fd, request)
			switch {
			case err == unix.EINTR:
			case err != nil:
				return // it was unmounted
			case deadmount.IsInit(request[:n]):
				if _, err := unix.Write(fd, deadmount.Ready(request)); err != nil {
					t.Error("answer to the kernel's first question: ", err)
				}
			default:
				once.Do(func() { close(begun) })
			}
		}
	}()
	return dir, begun
}

// beside is an environment with a tier on a mount that hangs, and another.
func beside(t *testing.T, dead, alive string) []string {
	t.Helper()
	config := filepath.Join(alive, "config.yaml")
	must.Do(t, os.WriteFile(config, []byte("tiers:\n  dead: {level: warm, path: "+dead+"}\n  alive: {level: hot, path: "+alive+"}\n"), 0o600))
	return append(os.Environ(), "HOME="+alive, "DATAMOVE_CONFIG="+config, "NO_COLOR=1")
}

// TestStopHung: a signal for the first process alone ends a command that hangs, before it would say that there is no answer.
func TestStopHung(t *testing.T) {
	t.Parallel()
	dir, asked := hung(t)
	command := exec.CommandContext(t.Context(), "datamove", "tier", "df")
	command.Env = beside(t, dir, t.TempDir())
	var text bytes.Buffer
	command.Stdout, command.Stderr = &text, &text
	must.Do(t, command.Start())
	<-asked
	must.Do(t, command.Process.Signal(unix.SIGTERM))
	_ = command.Wait() // the code tells
	if code := command.ProcessState.ExitCode(); code != 130 || strings.Count(text.String(), "interrupted") != 1 || strings.Contains(text.String(), "no answer") {
		t.Errorf("exit %d:\n%s", code, &text)
	}
}

// TestHungMount: a mount that hangs is told of, beside what does not, and no command hangs
// with it. What it left behind in the kernel ends with the mount.
func TestHungMount(t *testing.T) {
	t.Parallel()
	dir, _ := hung(t)
	fine := t.TempDir()
	environment := beside(t, dir, fine)
	rows := []struct {
		args  string
		code  int
		lines []string
	}{
		{"tier df", 10, []string{`^dead +- +- .*\(no answer in 10 s\)$`, `^alive +\d.*` + fine + `$`, `^try: .*umount`}},
		{"tier list -o json", 10, []string{`"error":"no answer in 10 s"`, `"name":"alive".*"total_bytes":\d`}},
		{"layout show dead:", 10, []string{`: dead:: no answer in 10 s$`}},
		{"quota show " + dir + " " + dir + "/a", 10, []string{`: no answer in 10 s$`}},
		{"layout advise " + dir, 10, []string{`: no answer in 10 s$`}},
		{"layout set --stripe-count 4 " + dir, 10, []string{`: no answer in 10 s$`}},
		{"quota set --bytes 1GiB " + dir, 10, []string{`: no answer in 10 s$`}},
		{"doctor", 1, []string{`^fail  ` + dir + `  folder: no answer in 10 s$`, `^      mend: .*umount`, `^(pass|warn)  ` + fine + `  space: \d`}},
		{"__complete layout set --pool x " + dir + " --pool ", 0, []string{`^:4$`}},
		{"__complete tier df ", 0, []string{`^alive\thot$`, `^dead\twarm$`}},
	}
	what := make([]said, len(rows))
	var all sync.WaitGroup
	for i, row := range rows {
		all.Go(func() {
			command := exec.CommandContext(t.Context(), "datamove", strings.Split(row.args, " ")...)
			command.Env = environment
			what[i] = ended(command) // its pipes are read to their end, which what is left behind must not hold
		})
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	patience.Until(t, "all commands have ended", nil, func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
	for i, row := range rows {
		t.Run(strings.ReplaceAll(row.args, dir, "DEAD"), func(t *testing.T) { what[i].wants(t, row.code, row.lines...) })
	}
}
