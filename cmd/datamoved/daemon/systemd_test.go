package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"datamove.dev/test/document"
	"datamove.dev/test/must"
)

// unitDir is where the units are.
var unitDir = filepath.Join("..", "..", "..", "deploy", "systemd")

// serviceUnits are the services, and how exposed systemd may find each (of 100).
var serviceUnits = map[string]int{"datamoved.service": 40, "datamoved-agent.service": 40, "datamoved-coordinator.service": 16}

// readUnit returns the settings of a unit, by key.
func readUnit(t *testing.T, name string) map[string][]string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(unitDir, name)))(t)
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			all[key] = append(all[key], value)
		}
	}
	return all
}

// copies are the units with a program that is there.
func copies(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self := must.Get(os.Executable())(t)
	for _, name := range []string{"datamoved.service", "datamoved-agent.service", "datamoved-coordinator.service", "datamoved.socket", "datamove-checkpoint@.service"} {
		text := must.Get(os.ReadFile(filepath.Join(unitDir, name)))(t)
		text = bytes.ReplaceAll(text, []byte("/usr/local/bin/datamoved"), []byte(self))
		text = bytes.ReplaceAll(text, []byte("/usr/local/bin/datamove "), []byte(self+" "))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return dir
}

func needTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is missing", name)
	}
}

// Systemd understands every line of the units, and finds them as closed as they say.
func TestUnits(t *testing.T) {
	needTool(t, "systemd-analyze")
	dir := copies(t)
	exposed := maps.Clone(serviceUnits)
	exposed["datamove-checkpoint@.service"] = 25
	for name, most := range exposed {
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", filepath.Join(dir, name)).CombinedOutput()
		if said := ofUnit(string(out), dir); err != nil || said != "" {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", fmt.Sprintf("--threshold=%d", most), filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", filepath.Join(dir, "datamoved.socket")).CombinedOutput(); err != nil || ofUnit(string(out), dir) != "" {
		t.Errorf("the socket: %v\n%s", err, out)
	}
}

// ofUnit leaves out what systemd-analyze says of other units of this machine.
func ofUnit(out, dir string) (ours string) {
	for line := range strings.Lines(out) {
		if strings.Contains(line, dir) || strings.HasPrefix(line, "datamove") {
			ours += line
		}
	}
	return ours
}

// inUnit starts the command line of a unit as systemd would: with its directories,
// as its user.
func inUnit(t *testing.T, name string, env []string, edit func(string) string) *program {
	t.Helper()
	unit, dir := readUnit(t, name), shortDir(t)
	env = append(env, "STATE_DIRECTORY="+filepath.Join(dir, "state"), "RUNTIME_DIRECTORY="+filepath.Join(dir, "run"), "DATAMOVE_CONFIG="+filepath.Join(dir, "c.yaml"))
	must.Do(t, os.WriteFile(filepath.Join(dir, "c.yaml"), nil, 0o644))
	for _, d := range []string{"", "state", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil && d != "" {
			t.Fatal(err)
		}
		must.Do(t, os.Chmod(filepath.Join(dir, d), 0o755))
		if unit["User"] != nil && os.Geteuid() == 0 {
			must.Do(t, os.Chown(filepath.Join(dir, d), foreignUID, foreignUID))
		}
	}
	line := edit(unit["ExecStart"][0])
	args := strings.Fields(strings.Replace(line, "/usr/local/bin/datamoved", "datamoved", 1))
	return launchAs(t, dir, unit["User"] != nil, env, args)
}

// The units start what they say, and it tells systemd how it does: READY, RELOADING,
// STOPPING. What reloads it is the unit's, too.
func TestUnitCommands(t *testing.T) {
	coordinator, _, token := pairOf(t)
	secret := filepath.Join(shortDir(t), "token")
	must.Do(t, os.WriteFile(secret, []byte(token), 0o600))
	for name := range serviceUnits {
		t.Run(name, func(t *testing.T) {
			unit := readUnit(t, name)
			p := inUnit(t, name, nil, func(line string) string {
				line = strings.Replace(line, "${DATAMOVE_COORDINATOR}", coordinator.addressOf()+" --node=n1", 1)
				return strings.Replace(line, "/etc/datamove/join.token", secret, 1)
			})
			p.waitFor("READY=1", 1)
			if unit["Type"][0] != "notify" || len(unit["ExecReload"]) != 2 {
				t.Fatalf("%q", unit)
			}
			check := exec.Command("/proc/self/exe", strings.Fields(unit["ExecReload"][0])[1:]...)
			check.Args[0], check.Env = "datamoved", p.cmd.Env
			if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), "answers:") {
				t.Errorf("%s: %v: %s", unit["ExecReload"][0], err, out)
			}
			kill := strings.Fields(strings.Replace(unit["ExecReload"][1], "$MAINPID", fmt.Sprint(p.cmd.Process.Pid), 1))
			if out, err := exec.Command(kill[0], kill[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%q: %v: %s", kill, err, out)
			}
			p.waitFor("RELOADING=1", 1)
			p.waitFor("READY=1", 2)
			p.signal(syscall.SIGTERM)
			if code := p.code(); code != 0 || p.heard("STOPPING=1") != 1 {
				t.Errorf("exit %d, told %q", code, p.told)
			}
		})
	}
}

// What the unit leaves to root is enough for what workers do: as another user, and as
// root with owners, times, devices and set-id bits.
func TestUnitCapabilities(t *testing.T) {
	needTool(t, "setpriv")
	needRoot(t)
	unit := readUnit(t, "datamoved.service")
	keep := "-all"
	for word := range strings.FieldsSeq(strings.Join(unit["CapabilityBoundingSet"], " ")) {
		keep += ",+" + strings.ToLower(strings.TrimPrefix(word, "CAP_"))
	}
	if unit["NoNewPrivileges"][0] != "yes" {
		t.Fatal("NoNewPrivileges")
	}
	dir := shortDir(t)
	p := launchUnder(t, dir, nil, []string{"setpriv", "--bounding-set=" + keep, "--inh-caps=-all", "--no-new-privs"})
	p.waitFor("READY=1", 1)
	copyAs(t, p, foreignUID)
	copyAsRoot(t, p)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("to act as others takes root")
	}
}

// foreignUID is a user without a name.
const foreignUID = 23456

// copyAs has a user's file copied for that user, who may not read what others have.
func copyAs(t *testing.T, p *program, uid int) {
	t.Helper()
	home := filepath.Join(p.dir, "home")
	source, target := filepath.Join(home, "a"), filepath.Join(home, "b")
	must.Do(t, os.MkdirAll(source, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(source, "f"), []byte("mine"), 0o600))
	for _, name := range []string{p.dir, home, source, filepath.Join(source, "f")} {
		must.Do(t, os.Chown(name, uid, uid))
	}
	must.Do(t, os.Chmod(p.dir, 0o711))
	if out := submitAs(t, p, uid, source, target); !strings.HasPrefix(out, "TASK_STATE_DONE") {
		t.Fatalf("as uid %d: %s", uid, out)
	}
	info, err := os.Stat(filepath.Join(target, "f"))
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != uid {
		t.Errorf("%v, %v", info, err)
	}
	secret := filepath.Join(p.dir, "secret")
	must.Do(t, os.WriteFile(secret, []byte("root's"), 0o600))
	if out := submitAs(t, p, uid, secret, filepath.Join(home, "stolen")); !strings.HasPrefix(out, "TASK_STATE_FAILED") {
		t.Errorf("a file of root: %s", out)
	}
}

// submitAs submits a copy in a process of that user, and returns the ended task as JSON.
func submitAs(t *testing.T, p *program, uid int, source, target string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", strings.TrimPrefix(p.socket, "unix://"), source, target)
	cmd.Env = []string{"DATAMOVED_CHILD=submit"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// submit is the process of submitAs: JSON over the socket is all it needs.
func submit(socket, source, target string) error {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	c := &http.Client{Transport: tr}
	ask := func(method, path, body string) (task struct{ ID, State string }, text []byte, err error) {
		q, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		if err != nil {
			return task, nil, err
		}
		if body != "" {
			q.Header.Set("Content-Type", "application/json")
		}
		a, err := c.Do(q)
		if err != nil {
			return task, nil, err
		}
		defer a.Body.Close()
		if text, err = io.ReadAll(a.Body); err == nil {
			err = json.Unmarshal(text, &task)
		}
		if a.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", a.Status, text)
		}
		return task, text, err
	}
	spec := fmt.Sprintf(`{"spec":{"kind":"TASK_KIND_COPY","source":%q,"target":%q}}`, source, target)
	task, text, err := ask(http.MethodPost, "/v1/tasks", spec)
	for err == nil && (task.State == "TASK_STATE_QUEUED" || task.State == "TASK_STATE_RUNNING") {
		time.Sleep(20 * time.Millisecond)
		task, text, err = ask(http.MethodGet, "/v1/tasks/"+task.ID, "")
	}
	fmt.Printf("%s: %s\n", task.State, text) // protobuf's JSON has spaces by chance
	return err
}

// copyAsRoot has root's task keep what only root can.
func copyAsRoot(t *testing.T, p *program) {
	t.Helper()
	source, target := filepath.Join(p.dir, "ra"), filepath.Join(p.dir, "rb")
	file := filepath.Join(source, "f")
	for _, do := range []func() error{
		func() error { return os.Mkdir(source, 0o755) },
		func() error { return os.WriteFile(file, []byte("x"), 0o600) },
		func() error { return os.Chown(file, 7, 8) },
		func() error { return os.Chmod(file, 0o751|os.ModeSetuid|os.ModeSetgid) },
		func() error { return os.Chtimes(file, time.Unix(1, 0), time.Unix(2, 0)) },
		func() error {
			return unix.Mknod(filepath.Join(source, "dev"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
		},
	} {
		must.Do(t, do())
	}
	if out := submitAs(t, p, 0, source, target); !strings.HasPrefix(out, "TASK_STATE_DONE") {
		t.Fatalf("as root: %s", out)
	}
	var want, got, dev unix.Stat_t
	for name, st := range map[string]*unix.Stat_t{file: &want, filepath.Join(target, "f"): &got, filepath.Join(target, "dev"): &dev} {
		must.Do(t, unix.Lstat(name, st))
	}
	if got.Mode != want.Mode || got.Uid != want.Uid || got.Gid != want.Gid || got.Mtim != want.Mtim || dev.Mode&unix.S_IFMT != unix.S_IFCHR || dev.Rdev != unix.Mkdev(1, 3) {
		t.Errorf("root's copy: %+v, want %+v; the device %+v", got, want, dev)
	}
}

// No system call that the service or a worker makes is one that the unit forbids. One
// that systemd does not know yet is answered with ENOSYS (NEWS of 248), as an older
// kernel would, and that has to be good enough.
func TestUnitSystemCalls(t *testing.T) {
	needTool(t, "strace")
	needTool(t, "systemd-analyze")
	needRoot(t)
	if testing.Short() {
		t.Skip("under strace everything takes long")
	}
	missing := forbidden(t, "datamoved.service", []string{"setresuid", "landlock_restrict_self", "mknodat", "execve"}, func(p *program) {
		copyAs(t, p, foreignUID)
		copyAsRoot(t, p)
	})
	if len(missing) > 0 {
		p := launchUnder(t, shortDir(t), []string{"DATAMOVED_CHILD=without " + strings.Join(missing, " ")}, []string{"/proc/self/exe"})
		p.waitFor("READY=1", 1)
		copyAs(t, p, foreignUID)
		copyAsRoot(t, p)
	}
	missing = forbidden(t, "datamoved-coordinator.service", []string{"accept4", "fsync"}, func(p *program) {
		must.Tell(t, getOver(p.socket, "http://localhost/v1/tasks"))
		if said, err := command("backup", filepath.Join(p.dir, "b"), "--data", filepath.Join(p.dir, "data"), "--listen", p.socket); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	}, "--no-agent")
	if len(missing) > 0 {
		t.Errorf("the coordinator makes %q, which systemd does not know", missing)
	}
}

// forbidden has work done under strace. It returns the numbers of the system calls
// that systemd does not know, and complains of those that a unit forbids.
func forbidden(t *testing.T, unit string, expected []string, body func(*program), args ...string) (missing []string) {
	t.Helper()
	dir := shortDir(t)
	trace := filepath.Join(dir, "trace")
	p := launchUnder(t, dir, nil, []string{"strace", "-f", "-qq", "-e", "signal=none", "-o", trace}, args...)
	p.waitFor("READY=1", 1)
	body(p)
	p.signalGroup(syscall.SIGTERM)
	p.code()
	made := systemCalls(t, trace)
	for _, name := range expected {
		if !slices.Contains(made, name) {
			t.Fatalf("%s is not among %q: these are not all", name, made)
		}
	}
	may, known := allowed(t, readUnit(t, unit)["SystemCallFilter"]), allowed(t, []string{"@known"})
	for _, name := range made {
		number, raw := strings.CutPrefix(name, "syscall_0x")
		switch {
		case may[name]:
		case raw: // strace does not know it either
			missing = append(missing, number)
		case known[name]:
			t.Errorf("%s forbids %s", unit, name)
		default:
			t.Errorf("systemd does not know %s: see whether we can do without", name)
		}
	}
	return missing
}

// without runs a program for which some system calls are not there.
func without(numbers, args []string) error {
	runtime.LockOSThread()
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the number of the call
	for _, number := range numbers {
		n, err := strconv.ParseUint(number, 16, 32)
		if err != nil {
			return err
		}
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: uint32(n)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
		return err
	}
	if err := os.Unsetenv("DATAMOVED_CHILD"); err != nil {
		return err
	}
	return unix.Exec(args[0], args, os.Environ())
}

var callLine = regexp.MustCompile(`^\d+ +([a-z_0-9]+)\(`)

func systemCalls(t *testing.T, trace string) (names []string) {
	t.Helper()
	text := must.Get(os.ReadFile(trace))(t)
	for line := range strings.Lines(string(text)) {
		if m := callLine.FindStringSubmatch(line); m != nil {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// callSets are the sets of system calls of systemd, and what is in each.
var callSets = sync.OnceValues(func() (map[string][]string, error) {
	out, err := exec.Command("systemd-analyze", "--no-pager", "syscall-filter").Output()
	sets, set := map[string][]string{}, ""
	for line := range strings.Lines(string(out)) {
		switch name := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "@"):
			set = name
		case strings.HasPrefix(line, " ") && !strings.HasPrefix(name, "#"):
			sets[set] = append(sets[set], name)
		}
	}
	return sets, err
})

// allowed expands a filter into names.
func allowed(t *testing.T, filters []string) map[string]bool {
	t.Helper()
	may := map[string]bool{}
	var add func(word string, is bool)
	add = func(word string, is bool) {
		if !strings.HasPrefix(word, "@") {
			may[word] = is
			return
		}
		sets, err := callSets()
		if err != nil || sets[word] == nil {
			t.Fatalf("%s is no set of system calls: %v", word, err)
		}
		for _, name := range sets[word] {
			add(name, is)
		}
	}
	for _, filter := range filters {
		words, not := strings.CutPrefix(filter, "~")
		for word := range strings.FieldsSeq(words) {
			add(word, !not)
		}
	}
	add("@default", true)
	return may
}

// The recipe for backup and restore, as it stands in its guide.
func TestRecipe(t *testing.T) {
	var blocks []string
	for _, b := range must.Get(document.Read("../../..", "docs/guides/upgrade-backup-uninstall.md"))(t) {
		if strings.Contains(b.Text, "datamoved backup") || strings.Contains(b.Text, "audit verify") {
			blocks = append(blocks, b.Text)
		}
	}
	if len(blocks) != 2 {
		t.Fatalf("%d blocks", len(blocks))
	}
	dir := shortDir(t)
	bin := filepath.Join(dir, "bin")
	file := filepath.Join(dir, "config.yaml")
	here := strings.NewReplacer("/var/lib/", dir+"/", "/var/backups/", dir+"/", "datamoved.service", "")
	self, err := os.Executable()
	must.Do(t, err)
	// systemctl starts and stops in its own way, datamove verifies the audit log.
	systemctl := fmt.Sprintf(`#!/bin/sh
cd %[1]s
case $1 in
start) datamoved >>log 2>&1 & echo $! > pid; until datamoved check | grep -q ' answers: '; do sleep 0.05; done ;;
stop) kill $(cat pid); while [ -e run/s ]; do sleep 0.05; done; until flock -n datamove/lock true; do sleep 0.05; done ;;
esac
`, dir)
	for _, do := range []func() error{
		func() error { return os.Mkdir(bin, 0o755) },
		func() error { return os.Symlink(self, filepath.Join(bin, "datamoved")) },
		func() error { return os.WriteFile(filepath.Join(bin, "systemctl"), []byte(systemctl), 0o755) },
		func() error {
			return os.WriteFile(filepath.Join(bin, "datamove"), []byte("#!/bin/sh\ntest -d $3\n"), 0o755)
		},
		func() error {
			return os.WriteFile(file, []byte("data: "+dir+"/datamove\nlisten: ['unix://"+dir+"/run/s']\n"), 0o600)
		},
	} {
		must.Do(t, do())
	}
	needTool(t, "flock")
	script := "set -ex\nsystemctl start\n" + here.Replace(blocks[0]) + "echo later > " + dir + "/datamove/later\n" + here.Replace(blocks[1])
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "DATAMOVE_CONFIG=" + file, "HOME=" + dir}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	defer func() {
		stop := exec.Command(filepath.Join(bin, "systemctl"), "stop")
		stop.Env = cmd.Env
		_ = stop.Run()
	}()
	if err != nil || !strings.Contains(string(out), "restored the state of") || !strings.HasSuffix(strings.TrimSpace(string(out)), "queued") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "datamove", "later")); err == nil {
		t.Error("the state is the old one")
	}
}
