package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// Accounts that nobody has.
const (
	alice = 12345
	team  = 23456
	bob   = 54321
)

var scratch string // of all tests; everybody may go in

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == itself {
		beItself(os.Args[2])
	}
	var err error
	if scratch, err = os.MkdirTemp("", "acting"); err == nil {
		err = os.Chmod(scratch, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(scratch)
		os.Exit(code)
	}))
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("acts as other users: needs root")
	}
}

func needLandlock(t testing.TB) {
	t.Helper()
	if landlockABI() < leastABI {
		t.Skipf("the kernel has version %d of Landlock's ABI; needs %d", landlockABI(), leastABI)
	}
}

// built returns a program below testdata, as it is shipped: without C.
func built(t testing.TB, name, cgo string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	file := filepath.Join(scratch, name+cgo)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	build := exec.Command("go", "build", "-o", file, "./testdata/"+name)
	build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return file
}

var building sync.Mutex

// folder makes an empty directory of an account.
func folder(t testing.TB, owner int) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp(scratch, "test"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755))
	if os.Geteuid() == 0 {
		must.Do(t, os.Chown(dir, owner, owner))
	}
	return dir
}

// put writes a file with an owner, a group and a mode.
func put(t testing.TB, path, text string, uid, gid int, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	if os.Geteuid() == 0 {
		must.Do(t, os.Chown(path, uid, gid))
	}
	must.Do(t, os.Chmod(path, mode))
}

// actor is a process that does what it is asked to.
type actor struct {
	*Process
	t   testing.TB
	in  *json.Encoder
	out *json.Decoder
}

func options(t testing.TB, o Options) Options {
	t.Helper()
	if o.Path == "" {
		o.Path = built(t, "actor", "0")
	}
	if o.Stderr == nil {
		o.Stderr = &said{t: t}
	}
	return o
}

// said shows what a process writes to its standard error.
type said struct {
	t    testing.TB
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.t.Logf("process: %s", p)
	return s.text.Write(p)
}

func begin(t testing.TB, o Options) *actor {
	t.Helper()
	p := must.Get(Start(t.Context(), options(t, o)))(t)
	a := &actor{p, t, json.NewEncoder(p.Conn), json.NewDecoder(p.Conn)}
	t.Cleanup(func() { must.Do(t, p.Stop(0)) })
	return a
}

// ask returns what the process got, and the name of its error.
func (a *actor) ask(op string, words ...string) (out, wrong string) {
	a.t.Helper()
	words = append(words, "", "")
	must.Do(a.t, a.in.Encode(map[string]string{"Op": op, "A": words[0], "B": words[1]}))
	var answer struct{ Error, Out string }
	must.Do(a.t, a.out.Decode(&answer))
	return answer.Out, answer.Error
}

// wants checks the error of a request; "" is none.
func (a *actor) wants(want string, op string, words ...string) string {
	a.t.Helper()
	out, got := a.ask(op, words...)
	if !slices.Contains(strings.Split(want, "|"), got) {
		a.t.Errorf("%s %s: got %q (%q), want %q", op, strings.Join(words, " "), got, out, want)
	}
	return out
}

var everything = Confinement{Write: []string{"/"}}

func asAlice(groups ...uint32) Account { return Account{UID: alice, GID: alice, Groups: groups} }

// field returns a line of a file below /proc/PID.
func field(t testing.TB, pid int, file, key string) string {
	t.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)))(t)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.Join(strings.Fields(rest), " ")
		}
	}
	t.Fatalf("%s has no line %s", file, key)
	return ""
}

// openFiles counts the descriptors of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	names := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(names)
}

// gone waits until a process that is not our child has ended.
func gone(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	must.Do(t, err)
	defer unix.Close(fd)
	const patience = 60_000 // milliseconds; only a failure waits so long
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience)
		if err == unix.EINTR {
			continue
		}
		must.Do(t, err)
		if n == 0 {
			t.Fatalf("process %d does not end", pid)
		}
		return
	}
}
