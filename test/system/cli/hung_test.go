package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// hung mounts a file system whose process takes every question and answers none: whoever
// waits for it can not be killed. asked is closed when somebody does.
func hung(t *testing.T) (dir string, asked <-chan struct{}) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("needs /dev/fuse: ", err)
	}
	dir = t.TempDir()
	if err := unix.Mount("hung", dir, "fuse.hung", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)); err != nil {
		_ = unix.Close(fd)
		t.Skip("needs root, to mount: ", err)
	}
	ended, begun := make(chan struct{}), make(chan struct{})
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
			case n >= fuseHeader && binary.NativeEndian.Uint32(request[4:]) == fuseInit:
				if _, err := unix.Write(fd, fuseReady(request)); err != nil {
					t.Error("answer to the kernel's first question: ", err)
				}
			default:
				once.Do(func() { close(begun) })
			}
		}
	}()
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Error("unmount: ", err)
		}
		<-ended
		_ = unix.Close(fd)
	})
	return dir, begun
}

// From include/uapi/linux/fuse.h: the size of a request's head, and the first request.
const (
	fuseHeader = 40
	fuseInit   = 26
)

// fuseReady answers the first request: version 7.31, and writes of 64 KiB.
func fuseReady(request []byte) []byte {
	answer := make([]byte, 16+64) // fuse_out_header, fuse_init_out
	order := binary.NativeEndian
	order.PutUint32(answer, uint32(len(answer)))
	copy(answer[8:16], request[8:16]) // the number of the request
	order.PutUint32(answer[16:], 7)
	order.PutUint32(answer[20:], 31)
	order.PutUint32(answer[24:], 64<<10) // read ahead
	order.PutUint32(answer[36:], 64<<10)
	return answer
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
