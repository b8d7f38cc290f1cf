package cli

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/test/deadmount"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// TestStoppedMount: a command in this process names the call that has no answer, whatever it is for, and ends when it is told to, with its calls in the kernel.
func TestStoppedMount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deadmount.Stopped(t, dir)
	for _, row := range []struct {
		args        string // DEAD is the mount
		first, next syscall.Signal
		code        int    // -1 is the last signal
		says        string // behind it
	}{
		{"copy DEAD ALIVE/new", syscall.SIGTERM, 0, 130, "datamove: copy: interrupted; not waited for: "},
		{"sync ALIVE DEAD", syscall.SIGINT, 0, 130, "not waited for"},
		{"ls DEAD", syscall.SIGHUP, 0, 130, "not waited for"},
		{"du DEAD/a", syscall.SIGTERM, 0, 130, "not waited for"},
		{"rm DEAD/a", syscall.SIGTERM, 0, 130, "not waited for"},
		{"find DEAD", syscall.SIGTERM, 0, 130, "not waited for"},
		{"verify ALIVE DEAD", syscall.SIGTERM, 0, 130, "not waited for"},
		{"copy ALIVE DEAD/b", syscall.SIGINT, syscall.SIGINT, -1, ""},
	} {
		t.Run(row.args, func(t *testing.T) {
			t.Parallel()
			alive := t.TempDir()
			names := strings.NewReplacer("DEAD", dir, "ALIVE", filepath.Join(alive, "data"))
			must.Do(t, os.Mkdir(filepath.Join(alive, "data"), 0o755))
			command := exec.CommandContext(t.Context(), "datamove", strings.Split(names.Replace(row.args), " ")...)
			command.Env = beside(t, dir, alive)
			errors := must.Get(command.StderrPipe())(t)
			must.Do(t, command.Start())
			lines := bufio.NewReader(errors)
			waits := regexp.MustCompile(`: waiting: (stat|open) ` + dir + `(/.)?: no answer for 20s; is its server there\?$`)
			for said := ""; !waits.MatchString(strings.TrimSpace(said)); {
				var err error
				said, err = lines.ReadString('\n')
				if err != nil {
					t.Fatalf("it has ended, and said last: %s", said)
				}
			}
			must.Do(t, command.Process.Signal(row.first))
			var rest []byte
			over := make(chan struct{})
			go func() {
				defer close(over)
				rest, _ = io.ReadAll(lines)
			}()
			patience.Until(t, "it has ended", nil, func() bool {
				if row.next != 0 {
					_ = command.Process.Signal(row.next) // one that comes before the first is heard is the same for the kernel
				}
				select {
				case <-over:
					return true
				default:
					return false
				}
			})
			_ = command.Wait() // the code tells
			state := command.ProcessState.Sys().(syscall.WaitStatus)
			if row.code >= 0 && state.ExitStatus() != row.code || row.code < 0 && state.Signal() != row.next || !strings.Contains(string(rest), names.Replace(row.says)) {
				t.Errorf("%v:\n%s", command.ProcessState, rest)
			}
		})
	}
}
