package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
	"datamove.dev/test/script"
)

// TestMain makes this test binary answer as datamoved, too.
func TestMain(m *testing.M) {
	if what := strings.Fields(os.Getenv("DATAMOVED_CHILD")); len(what) > 0 {
		var err error
		if what[0] == "submit" {
			err = submit(os.Args[1], os.Args[2], os.Args[3])
		} else {
			err = without(what[1:], os.Args[1:])
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	testscript.Main(m, map[string]func(){"datamoved": func() { os.Exit(Main("")) }})
}

// program is a running datamoved.
type program struct {
	t       testing.TB
	cmd     *exec.Cmd
	dir     string // has data, and the socket
	socket  string // its address
	log     *logs
	manager *net.UnixConn
	ended   chan struct{}
	err     error // set before ended is closed

	mu   sync.Mutex
	told []string // to the service manager, line by line; guarded by mu
}

// logs is what a program has said.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// shortDir is a directory whose name leaves room for that of a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "dmd"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// launch starts datamoved with a directory and a socket of its own.
func launch(t testing.TB, dir string, args ...string) *program {
	t.Helper()
	return launchCommand(t, dir, nil, append([]string{"datamoved", "--data", filepath.Join(dir, "data"), "--listen", "unix://" + filepath.Join(dir, "run", "s")}, args...))
}

// launchUnder starts it by another program, which runs it.
func launchUnder(t testing.TB, dir string, env, under []string, args ...string) *program {
	t.Helper()
	self := must.Get(os.Executable())(t)
	name := filepath.Join(dir, "datamoved")
	must.Do(t, os.Symlink(self, name))
	all := append(under, name, "--data", filepath.Join(dir, "data"), "--listen", "unix://"+filepath.Join(dir, "run", "s"))
	return launchCommand(t, dir, env, append(all, args...))
}

func launchCommand(t testing.TB, dir string, env, args []string) *program {
	t.Helper()
	return launchAs(t, dir, false, env, args)
}

// launchAs starts a command line, which may be as another user.
func launchAs(t testing.TB, dir string, another bool, env, args []string) *program {
	t.Helper()
	p := &program{t: t, dir: dir, socket: "unix://" + filepath.Join(dir, "run", "s"), log: &logs{}, ended: make(chan struct{})}
	address := &net.UnixAddr{Name: filepath.Join(dir, "notify-"+time.Now().Format("150405.000000000")), Net: "unixgram"}
	var err error
	if p.manager, err = net.ListenUnixgram("unixgram", address); err != nil {
		t.Fatal(err)
	}
	path := "/proc/self/exe" // also for who can not reach our file
	if args[0] != "datamoved" {
		if path, err = exec.LookPath(args[0]); err != nil {
			t.Fatal(err)
		}
	}
	p.cmd = &exec.Cmd{Path: path, Args: args, Stderr: p.log, Stdout: p.log, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, WaitDelay: time.Second}
	if another && os.Geteuid() == 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: foreignUID, Gid: foreignUID}
		must.Do(t, os.Chmod(address.Name, 0o666))
	}
	p.cmd.Env = append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + address.Name, script.GC}, env...)
	must.Do(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		_ = p.manager.SetReadDeadline(time.Now()) // what it said last is there already
		close(p.ended)
	}()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		p.listen()
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
		<-heard
		_ = p.manager.Close()
		if t.Failed() {
			t.Logf("it said:\n%s", p.log)
		}
	})
	return p
}

// listen hears what is told to the service manager.
func (p *program) listen() {
	packet := make([]byte, 4096)
	for {
		n, err := p.manager.Read(packet)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.told = append(p.told, strings.Split(string(packet[:n]), "\n")...)
		p.mu.Unlock()
	}
}

// heard returns how often something was told.
func (p *program) heard(line string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.told {
		if l == line {
			n++
		}
	}
	return n
}

// waitFor waits until something was told so often, or the program is gone.
func (p *program) waitFor(line string, times int) {
	p.t.Helper()
	p.eventually(line, func() bool { return p.heard(line) >= times })
}

// eventually waits until something is so, or the program is gone.
func (p *program) eventually(what string, is func() bool) {
	p.t.Helper()
	var ended bool
	patience.Until(p.t, what, p.log.String, func() bool {
		select {
		case <-p.ended:
			ended = !is()
			return true
		default:
			return is()
		}
	})
	if ended {
		p.t.Fatalf("it ended before %s: %v", what, p.err)
	}
}

// started waits until it is ready, and connects.
func (p *program) started() *api.Client {
	p.t.Helper()
	p.waitFor("READY=1", 1)
	c, err := api.Dial(p.t.Context(), p.socket, api.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// signalGroup is for a program that runs under another.
func (p *program) signalGroup(s syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil {
		p.t.Fatal(err)
	}
}

// code waits for the end and returns the exit code.
func (p *program) code() int {
	p.t.Helper()
	patience.Until(p.t, "it ends", p.log.String, func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		p.t.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// addressOf finds in the log where it listens on TCP.
func (p *program) addressOf() string {
	p.t.Helper()
	for word := range strings.FieldsSeq(p.log.String()) {
		if _, address, ok := strings.Cut(strings.Trim(word, `"`), "tcp://"); ok && !strings.HasSuffix(address, ":0") {
			return "tcp://" + address
		}
	}
	p.t.Fatalf("it does not say where it listens: %s", p.log)
	return ""
}

// The life of one: it starts without anything, works, and ends when it is told to.
func TestStart(t *testing.T) {
	p := launch(t, shortDir(t))
	c := p.started()
	must.Do(t, errors.Join(os.Mkdir(filepath.Join(p.dir, "a"), 0o700), os.WriteFile(filepath.Join(p.dir, "a", "f"), []byte("content"), 0o600)))
	task, err := c.Submit(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
		Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: filepath.Join(p.dir, "a"), Target: filepath.Join(p.dir, "b")}})
	must.Do(t, err)
	if task, err = c.Wait(t.Context(), task.GetId(), nil); err != nil || task.GetState() != datamovev1.TaskState_TASK_STATE_DONE {
		t.Fatalf("%v, %v", task, err)
	}
	if got, err := os.ReadFile(filepath.Join(p.dir, "b", "f")); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if p.heard("STOPPING=1") != 1 {
		t.Errorf("told: %q", p.told)
	}
	if _, err := os.Lstat(strings.TrimPrefix(p.socket, "unix://")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	again := launch(t, p.dir)
	if task, err = again.started().GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: task.GetId()}); err != nil || task.GetState() != datamovev1.TaskState_TASK_STATE_DONE {
		t.Errorf("after a restart: %v, %v", task, err)
	}
}

// After a kill it goes on, with the socket that was left.
func TestKill(t *testing.T) {
	p := launch(t, shortDir(t))
	p.started()
	p.signal(syscall.SIGKILL)
	if code := p.code(); code == 0 {
		t.Errorf("killed with %d", code)
	}
	again := launch(t, p.dir)
	again.started()
}

// A directory and an address are of one process. The second says whose they are.
func TestTwo(t *testing.T) {
	first := launch(t, shortDir(t))
	first.started()
	second := launch(t, first.dir)
	if code := second.code(); code != 5 {
		t.Errorf("on the same directory: exit %d", code)
	}
	if want := "datamoved, process " + strconv.Itoa(first.cmd.Process.Pid); !strings.Contains(second.log.String(), want) {
		t.Errorf("it does not say whose it is: %s", second.log)
	}
	third := launchCommand(t, first.dir, nil, []string{"datamoved", "--data", filepath.Join(first.dir, "other"), "--listen", first.socket})
	if code := third.code(); code != 5 || !strings.Contains(third.log.String(), "a server answers there already") {
		t.Errorf("at the same address: exit %d: %s", code, third.log)
	}
	if _, err := first.started().GetInfo(t.Context(), &datamovev1.GetInfoRequest{}); err != nil {
		t.Error(err)
	}
}

// SIGHUP takes up a configuration wholly, or not at all, and says so.
func TestReload(t *testing.T) {
	dir := shortDir(t)
	file := filepath.Join(dir, "c.yaml")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	me := must.Get(user.Current())(t)
	role := "{members: [" + me.Username + "], may: [task.*]}"
	write("roles: {one: " + role + "}\n")
	p := launch(t, dir, "--config", file)
	c := p.started()
	roles := func() []string {
		t.Helper()
		info := must.Get(c.GetInfo(t.Context(), &datamovev1.GetInfoRequest{}))(t)
		return info.GetRoles()
	}
	for i, mistake := range []string{"tiers: {two: {level: wrong, path: /tmp}}", "roles: {two: {members: [x], may: [task.fly]}}"} {
		write(mistake + "\n")
		p.signal(syscall.SIGHUP)
		p.waitFor("READY=1", 2+i)
		if got := roles(); !slices.Equal(got, []string{"one"}) || !strings.Contains(p.log.String(), "nothing has changed") {
			t.Errorf("a mistake: %q", got)
		}
		if _, err := c.Reload(t.Context(), &datamovev1.ReloadRequest{}); err == nil || !strings.Contains(err.Error(), "two") {
			t.Errorf("a mistake, by the API: %v", err)
		}
	}
	write("roles: {one: " + role + ", two: " + role + "}\nnode: elsewhere\n")
	p.signal(syscall.SIGHUP)
	p.waitFor("READY=1", 4)
	if got := roles(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("taken up: %q", got)
	}
	if p.heard("RELOADING=1") != 3 || !slices.ContainsFunc(p.told, func(l string) bool { return strings.HasPrefix(l, "MONOTONIC_USEC=") }) {
		t.Errorf("told: %q", p.told)
	}
	if !strings.Contains(p.log.String(), `"at the next start"=node`) {
		t.Errorf("it does not say what needs a restart: %s", p.log)
	}
}

// Work in flight is put back, and goes on after the restart.
func TestStop(t *testing.T) {
	p := launch(t, shortDir(t))
	c := p.started()
	source := filepath.Join(p.dir, "source")
	must.Do(t, os.Mkdir(source, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(source, "big"), bytes.Repeat([]byte("content"), 4<<20), 0o600))
	task, err := c.Submit(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
		Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: source, Target: filepath.Join(p.dir, "t"),
		Options: &datamovev1.Options{BytesPerSecond: 512 << 10, NoReflink: true}}})
	must.Do(t, err)
	p.eventually("the task runs", func() bool {
		now, err := c.GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: task.GetId()})
		return err == nil && now.GetFirstByteTime() != nil
	})
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	again := launch(t, p.dir)
	c = again.started()
	again.eventually("the task runs again", func() bool {
		now, err := c.GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: task.GetId()})
		return err == nil && now.GetState() == datamovev1.TaskState_TASK_STATE_RUNNING
	})
	again.signal(syscall.SIGTERM)
	again.signal(syscall.SIGTERM) // at once
	again.code()
}

// A watchdog is told that we live, as often as it wants.
func TestWatchdog(t *testing.T) {
	dir := shortDir(t)
	p := launchCommand(t, dir, []string{"WATCHDOG_USEC=100000"},
		[]string{"datamoved", "--data", filepath.Join(dir, "data"), "--listen", "unix://" + filepath.Join(dir, "run", "s")})
	p.waitFor("WATCHDOG=1", 3)
}

// Systemd may have opened the socket.
func TestActivation(t *testing.T) {
	dir := shortDir(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	must.Do(t, err)
	defer l.Close()
	f, err := l.File()
	must.Do(t, err)
	defer f.Close()
	self, err := os.Executable()
	must.Do(t, err)
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" --data "$1" --listen "unix://$2"`,
		filepath.Join(filepath.Dir(self), filepath.Base(self)), filepath.Join(dir, "data"), filepath.Join(dir, "s"))
	cmd.ExtraFiles, cmd.Env, cmd.Stderr = []*os.File{f}, []string{"HOME=" + dir}, &logs{}
	link := filepath.Join(dir, "datamoved")
	must.Do(t, os.Symlink(self, link))
	cmd.Args[3] = link
	must.Do(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM) }()
	ctx := t.Context()
	c, err := api.Dial(ctx, "unix://"+filepath.Join(dir, "s"), api.Options{}) // who knocks waits until somebody opens
	if err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
	defer c.Close()
	if _, err := c.GetInfo(ctx, &datamovev1.GetInfoRequest{}); err != nil {
		t.Errorf("%v: %s", err, cmd.Stderr)
	}
}
