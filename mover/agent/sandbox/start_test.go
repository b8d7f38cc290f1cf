package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// What a process may is what its account may, by uid, gid and groups.
//
//safety:7 a real process has the ids, groups and capabilities of the caller, and nothing of the service's
func TestActsAsTheUser(t *testing.T) {
	needRoot(t)
	was := must.Get(os.Getgroups())(t)
	must.Do(t, syscall.Setgroups([]int{777, 778})) // groups of ours, which must not get into it
	defer func() { must.Do(t, syscall.Setgroups(was)) }()
	mask := syscall.Umask(0o077) // and ours
	defer syscall.Umask(mask)
	dir := folder(t, alice)
	for name, f := range map[string]struct {
		uid, gid int
		mode     os.FileMode
	}{
		"own": {alice, alice, 0o600}, "of bob": {bob, bob, 0o600}, "of root": {0, 0, 0o600}, "of the group root": {0, 0, 0o040},
		"of the team": {0, team, 0o040}, "of our group": {0, 777, 0o040}, "of the gid": {0, alice, 0o040},
	} {
		put(t, filepath.Join(dir, name), name, f.uid, f.gid, f.mode)
	}
	for _, row := range []struct {
		name   string
		groups []uint32
		status string
		want   map[string]string
	}{
		{"with the team", []uint32{alice, team}, "12345 23456", map[string]string{"own": "", "of the gid": "", "of the team": "",
			"of bob": "EACCES", "of root": "EACCES", "of the group root": "EACCES", "of our group": "EACCES"}},
		{"without it", nil, "", map[string]string{"own": "", "of the gid": "", "of the team": "EACCES",
			"of bob": "EACCES", "of root": "EACCES", "of the group root": "EACCES", "of our group": "EACCES"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := begin(t, Options{Account: asAlice(row.groups...), Roots: everything})
			for name, want := range row.want {
				a.wants(want, "read", filepath.Join(dir, name))
			}
			for key, want := range map[string]string{
				"Uid:": "12345 12345 12345 12345", "Gid:": "12345 12345 12345 12345", "Groups:": row.status,
				"CapInh:": "0000000000000000", "CapPrm:": "0000000000000000", "CapEff:": "0000000000000000", "CapAmb:": "0000000000000000",
				"NoNewPrivs:": "1", "Umask:": "0022",
			} {
				for _, thread := range threads(t, a.PID()) {
					if got := field(t, a.PID(), thread+"/status", key); got != want {
						t.Errorf("%s: %s %s, want %s", thread, key, got, want)
					}
				}
			}
			made := filepath.Join(dir, "made "+row.name)
			a.wants("", "write", made, "text")
			if got := a.wants("", "stat", made); got != "12345:12345 100644" {
				t.Errorf("what it makes is %s", got)
			}
			a.wants("EPERM", "chown", made, "54321")
			a.wants("EPERM", "device", made+" device")
			a.wants("EPERM", "setuid", filepath.Join(dir, "of bob"))
			a.wants("", "setuid", made) // of its own file: as everybody may
		})
	}
}

func threads(t *testing.T, pid int) (all []string) {
	names := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)))(t)
	for _, n := range names {
		all = append(all, "task/"+n.Name())
	}
	return all
}

// What the process is beside its ids: out of our session, first to go when memory
// ends, without core dumps, and not to be traced by others of its account.
func TestHowItRuns(t *testing.T) {
	needRoot(t)
	a := begin(t, Options{Account: asAlice(), Roots: everything})
	if sid, err := unix.Getsid(a.PID()); err != nil || sid != a.PID() {
		t.Errorf("session %d of process %d (%v)", sid, a.PID(), err)
	}
	if got := field(t, a.PID(), "oom_score_adj", ""); got != "500" {
		t.Errorf("oom_score_adj %s", got)
	}
	if got := field(t, a.PID(), "limits", "Max core file size"); got != "0 0 bytes" {
		t.Errorf("core dumps: %s", got)
	}
	if got := a.wants("", "read", "/proc/self/cmdline"); got != a.cmd.Path+"\x00" {
		t.Errorf("arguments %q", got)
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", a.PID())); err != nil || cwd != "/" {
		t.Errorf("it runs in %s (%v)", cwd, err)
	}
	other := begin(t, Options{Account: asAlice(), Roots: everything})
	for _, file := range []string{"environ", "maps", "auxv"} {
		a.wants("EACCES|EPERM", "read", fmt.Sprintf("/proc/%d/%s", other.PID(), file))
	}
	a.wants("EACCES|EPERM", "list", fmt.Sprintf("/proc/%d/fd", other.PID()))
}

// A process that is apart opens what its account may, and another process of the account can not even limit it.
//
//safety:7 the process that probes read access can neither be read nor limited by its user
func TestApart(t *testing.T) {
	needRoot(t)
	limits := func(pid int) bool {
		cmd := exec.Command("prlimit", "--pid", fmt.Sprint(pid), "--nofile=512:512")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice, Gid: alice}}
		return cmd.Run() == nil
	}
	dir := folder(t, alice)
	put(t, filepath.Join(dir, "own"), "text", alice, alice, 0o600)
	put(t, filepath.Join(dir, "of bob"), "text", bob, bob, 0o600)
	put(t, filepath.Join(dir, "of nobody"), "text", overflow, overflow, 0o600)
	for apart, ids := range map[bool]string{false: "12345 12345 12345 12345", true: "12345 12345 65534 12345"} {
		who := asAlice()
		who.Apart = apart
		a := begin(t, Options{Account: who, Roots: everything})
		if got := field(t, a.PID(), "status", "Uid:"); got != ids || field(t, a.PID(), "status", "CapPrm:") != "0000000000000000" {
			t.Errorf("apart: %v: its ids are %s, want %s", apart, got, ids)
		}
		if limits(a.PID()) == apart {
			t.Errorf("apart: %v: another process of the account limits it", apart)
		}
		a.wants("", "read", filepath.Join(dir, "own"))
		a.wants("EACCES", "read", filepath.Join(dir, "of bob"))
		a.wants("EACCES", "read", filepath.Join(dir, "of nobody"))
	}
}

// Who acts as root can restore what only root can.
func TestRootKeepsItsCapabilities(t *testing.T) {
	needRoot(t)
	dir, outside := folder(t, 0), folder(t, 0)
	put(t, filepath.Join(outside, "f"), "", 0, 0, 0o644)
	a := begin(t, Options{Root: true, Roots: Confinement{Write: []string{dir}}})
	file := filepath.Join(dir, "f")
	a.wants("", "write", file, "text")
	a.wants("", "chown", file, "54321")
	a.wants("", "setuid", file)
	if got := a.wants("", "stat", file); got != "54321:54321 104755" {
		t.Errorf("it is %s", got)
	}
	a.wants("", "device", filepath.Join(dir, "null"))
	if a.Enforced.Landlock > 0 {
		a.wants("EACCES", "device", filepath.Join(outside, "null"))
		a.wants("EACCES", "write", filepath.Join(outside, "f"), "text")
		a.wants("EACCES", "read", "/etc/shadow")
		a.wants("EACCES", "read", fmt.Sprintf("/proc/%d/environ", os.Getpid()))
	}
	if got := field(t, a.PID(), "status", "NoNewPrivs:"); got != "1" {
		t.Errorf("NoNewPrivs %s", got)
	}
}

// Neither files nor the environment of this process get into another one.
//
//safety:7 with TestActsAsTheUser
func TestNothingLeaks(t *testing.T) {
	t.Setenv("DATAMOVE_SECRET", "do not tell")
	leaked := filepath.Join(folder(t, 0), "leaked")
	fd, err := unix.Open(leaked, unix.O_RDWR|unix.O_CREAT, 0o600) // without O_CLOEXEC
	must.Do(t, err)
	defer unix.Close(fd)
	var pipe [2]int
	must.Do(t, unix.Pipe(pipe[:]))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	pipeName, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", pipe[0]))
	must.Do(t, err)
	me, err := self()
	must.Do(t, err)
	o := options(t, Options{Account: me, Root: me.UID == 0, Env: []string{"TZ=UTC"}, Args: []string{"one", "two"}, Roots: everything})
	for name, start := range map[string]func() *actor{
		"by Start": func() *actor { return begin(t, o) },
		"by Start without an environment": func() *actor {
			o := o
			o.Env = nil
			return begin(t, o)
		},
		"what exec lets through": func() *actor { return unsealed(t, o, fd, pipe[0], pipe[1]) },
	} {
		t.Run(name, func(t *testing.T) {
			a := start()
			open := a.wants("", "files")
			for _, word := range []string{leaked, pipeName} {
				if strings.Contains(open, word) {
					t.Errorf("%s is open:\n%s", word, open)
				}
			}
			if !strings.HasPrefix(open, "0 /dev/null\n1 /dev/null\n") || !strings.Contains(open, "\n2 pipe:") {
				t.Errorf("open are\n%s", open)
			}
			// Nothing that is open came through exec: all but the first four close on exec.
			for line := range strings.Lines(open) {
				if n, _, _ := strings.Cut(line, " "); os.Geteuid() == 0 && (len(n) > 1 || n > "2") { // others read no flags of what can not be dumped
					if flags := field(t, a.PID(), "fdinfo/"+n, "flags:"); !closesOnExec(t, flags) {
						t.Errorf("open on exec: %s", line)
					}
				}
			}
			want, raw := `["TZ=UTC"] "`, `TZ=UTC\x00`
			if strings.HasSuffix(name, "environment") {
				want, raw = `[] "`, ""
			}
			if got := a.wants("", "environment"); got != want+raw+`"` && (me.UID == 0 || got != want+`"`) {
				t.Errorf("environment %s, want %s%s", got, want, raw)
			}
			if got := a.wants("", "arguments"); got != a.cmd.Path+" one two" {
				t.Errorf("arguments %q", got)
			}
		})
	}
}

func closesOnExec(t *testing.T, octal string) bool {
	flags := must.Get(strconv.ParseUint(octal, 8, 64))(t)
	return flags&unix.O_CLOEXEC != 0
}

// unsealed starts a process as Start does, but lets files through exec, as a kernel
// without close_range would.
func unsealed(t *testing.T, o Options, fds ...int) *actor {
	t.Helper()
	p := altered(t, o, func(cmd *exec.Cmd) {
		for _, fd := range fds {
			fd := must.Get(unix.Dup(fd))(t)
			cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), "leaked"))
		}
	})
	must.Do(t, p.admit(t.Context(), terms{o.Account, o.Roots}, nil))
	return &actor{p, t, json.NewEncoder(p.Conn), json.NewDecoder(p.Conn)}
}

// altered starts a process as Start does, in another way than the terms say.
func altered(t *testing.T, o Options, change func(*exec.Cmd)) *Process {
	t.Helper()
	ours, theirs, err := connect()
	must.Do(t, err)
	cmd := o.command(os.Geteuid() == 0, theirs, nil)
	change(cmd)
	must.Do(t, cmd.Start())
	for _, f := range cmd.ExtraFiles {
		must.Do(t, f.Close())
	}
	p := &Process{Conn: ours, cmd: cmd, done: make(chan struct{})}
	go p.reap()
	t.Cleanup(func() { must.Do(t, p.Stop(0)) })
	must.Do(t, p.identify(o.Account))
	return p
}

// A program that does not call Enter gets no files either.
func TestFilesCloseOnExec(t *testing.T) {
	me := must.Get(self())(t)
	leaked := filepath.Join(folder(t, os.Getuid()), "leaked")
	fd := must.Get(unix.Open(leaked, unix.O_RDWR|unix.O_CREAT, 0o600))(t)
	defer unix.Close(fd)
	script := filepath.Join(filepath.Dir(leaked), "script")
	put(t, script, "#!/bin/sh\nls -l /proc/$$/fd >&2\n", os.Getuid(), os.Getgid(), 0o755)
	out := &said{t: t}
	if _, err := Start(t.Context(), Options{Path: script, Account: me, Root: me.UID == 0, Stderr: out}); err == nil {
		t.Fatal("it started")
	}
	if text := out.text.String(); strings.Contains(text, leaked) || !strings.Contains(text, "3 -> socket:") {
		t.Errorf("open are\n%s", text)
	}
}

// A process that is not what its terms say, or more than that, goes no further.
//
//safety:7 with TestActsAsTheUser
func TestEnterVerifies(t *testing.T) {
	needRoot(t)
	o := options(t, Options{Account: asAlice(team), Roots: everything})
	for _, row := range []struct {
		name   string
		change func(*syscall.SysProcAttr)
		want   string // "" is taken
	}{
		{"what they say", func(*syscall.SysProcAttr) {}, ""},
		{"fewer groups", func(a *syscall.SysProcAttr) { a.Credential.Groups = nil }, ""},
		{"root, who becomes it", func(a *syscall.SysProcAttr) { a.Credential = nil }, ""},
		{"another user", func(a *syscall.SysProcAttr) { a.Credential.Uid = bob }, "has the ids [54321 54321 54321]"},
		{"another gid", func(a *syscall.SysProcAttr) { a.Credential.Gid = team }, "has the ids [23456 23456 23456]"},
		{"one more group", func(a *syscall.SysProcAttr) { a.Credential.Groups = append(a.Credential.Groups, 0) }, "in group 0"},
		{"a capability", func(a *syscall.SysProcAttr) { a.AmbientCaps = []uintptr{unix.CAP_DAC_OVERRIDE} }, "has capabilities"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := altered(t, o, func(cmd *exec.Cmd) {
				if c := cmd.SysProcAttr.Credential; c != nil {
					copied := *c
					copied.Groups = slices.Clone(c.Groups)
					cmd.SysProcAttr.Credential = &copied
				}
				row.change(cmd.SysProcAttr)
			})
			err := p.admit(t.Context(), terms{o.Account, o.Roots}, nil)
			if row.want == "" {
				must.Do(t, err)
			} else if !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestWhoCanBeActedAs(t *testing.T) {
	root := Account{}
	user := Account{UID: alice, GID: alice, Groups: []uint32{alice, team}}
	many := user
	many.Groups = make([]uint32, maxGroups+1)
	for _, row := range []struct {
		name string
		me   Account
		who  Account
		root bool
		kind error // nil: yes
		want string
	}{
		{"root as a user", root, user, false, nil, ""},
		{"root as root", root, root, true, nil, ""},
		{"root as root by mistake", root, root, false, mover.ErrPermission, "not asked for"},
		{"a user as itself", user, user, false, nil, ""},
		{"a user that is in more groups now", user, Account{UID: alice, GID: alice, Groups: []uint32{team, 7}}, false, nil, ""},
		{"a user as itself, without a group that it has", user, Account{UID: alice, GID: alice}, false, mover.ErrPermission, "group 23456"},
		{"a user as itself, with another gid", user, Account{UID: alice, GID: team, Groups: []uint32{alice, team}}, false, mover.ErrPermission, "gid 12345"},
		{"a user as another", user, Account{UID: bob, GID: bob}, false, mover.ErrPermission, "no other account"},
		{"a user as root", user, root, true, mover.ErrPermission, "no other account"},
		{"root as a user, apart", root, Account{UID: alice, GID: alice, Apart: true}, false, nil, ""},
		{"root as root, apart", root, Account{Apart: true}, true, mover.ErrUsage, "apart"},
		{"a user as itself, apart", user, Account{UID: alice, GID: alice, Groups: []uint32{team}, Apart: true}, false, mover.ErrUsage, "apart"},
		{"no uid", root, Account{UID: nobody, GID: 1}, false, mover.ErrUsage, "no account"},
		{"no gid", root, Account{UID: 1, GID: nobody}, false, mover.ErrUsage, "no account"},
		{"no group", root, Account{UID: 1, GID: 1, Groups: []uint32{nobody}}, false, mover.ErrUsage, "no account"},
		{"too many groups", root, many, false, mover.ErrUsage, "no account"},
	} {
		err := row.who.check(row.root, row.me)
		if !errors.Is(err, row.kind) || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %v: %s", row.name, err, row.kind, row.want)
		}
	}
}

// A service that is not root acts as its own user, and as nobody else.
func TestServiceThatIsNotRoot(t *testing.T) {
	needRoot(t)
	for _, row := range []struct {
		name string
		who  Account
		want string
	}{
		{"itself", Account{UID: alice, GID: alice, Groups: []uint32{team}}, "child "},
		{"another", Account{UID: bob, GID: bob}, "act as uid 54321: permission denied: the service runs as uid 12345 and can act as no other account; as root it could true"},
		{"root", Account{}, "act as uid 0: permission denied: it is root, which was not asked for true"},
	} {
		t.Run(row.name, func(t *testing.T) {
			parent := serviceWith(t, Options{Account: row.who, Roots: everything}, &syscall.Credential{Uid: alice, Gid: alice, Groups: []uint32{team}})
			if line := parent.begin(); !strings.Contains(line, row.want) {
				t.Errorf("it says %q, want %q", line, row.want)
			}
			_ = parent.Process.Kill()
			_ = parent.Wait()
		})
	}
}

// service is a program that starts itself once more.
type service struct {
	*exec.Cmd
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func serviceWith(t *testing.T, o Options, who *syscall.Credential) *service {
	t.Helper()
	text := must.Get(os.ReadFile(built(t, "actor", "0")))(t)
	program := filepath.Join(folder(t, 0), "actor")
	put(t, program, string(text), 0, 0, 0o755)
	words := must.Get(json.Marshal(o))(t)
	cmd := exec.Command(program, "parent", string(words))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	return &service{cmd, t, in, bufio.NewReader(out)}
}

// begin makes the service start its process, and returns what it says.
func (s *service) begin() string {
	s.t.Helper()
	_, err := io.WriteString(s.in, "\n")
	must.Do(s.t, err)
	line, err := s.out.ReadString('\n')
	must.Do(s.t, err)
	return line
}

// child is the id of the process that it says it started.
func (s *service) child(line string) int {
	s.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "child ")))
	if err != nil {
		s.t.Fatalf("it says %q", line)
	}
	return pid
}

// However the service ends, what it started ends, too.
//
//safety:7 a real process of the service ends when the service is killed
func TestParentIsKilled(t *testing.T) {
	needRoot(t)
	for _, args := range [][]string{nil, {"deaf"}} {
		s := serviceWith(t, Options{Args: args, Account: asAlice(), Roots: everything}, nil)
		pid := s.child(s.begin())
		must.Do(t, unix.Kill(pid, 0))
		must.Do(t, s.Process.Kill())
		if err := s.Wait(); err == nil {
			t.Error("the parent ended by itself")
		}
		gone(t, pid)
	}
}

// A service whose program was replaced, as in an upgrade, starts what it is itself;
// also where the account could not find it.
func TestItself(t *testing.T) {
	needRoot(t)
	s := serviceWith(t, Options{Account: asAlice(), Roots: everything}, nil)
	was := must.Get(os.Stat(s.Path))(t)
	must.Do(t, os.Chmod(filepath.Dir(s.Path), 0o700))
	must.Do(t, os.Rename(s.Path, s.Path+".old"))
	put(t, s.Path, "#!/bin/false\n", 0, 0, 0o755)
	now := must.Get(os.Stat(fmt.Sprintf("/proc/%d/exe", s.child(s.begin()))))(t)
	if !os.SameFile(was, now) {
		t.Error("another program was started")
	}
	must.Do(t, s.Process.Kill())
	_ = s.Wait()
}

// A closed connection ends the process, whatever it is doing.
func TestClosedConnectionEndsIt(t *testing.T) {
	me := must.Get(self())(t)
	a := begin(t, Options{Account: me, Root: me.UID == 0, Args: []string{"deaf"}, Roots: everything})
	a.wants("", "arguments")
	must.Do(t, a.Conn.Close())
	var exit *exec.ExitError
	if err := a.Wait(t.Context()); !errors.As(err, &exit) || exit.ExitCode() != orphaned {
		t.Errorf("it ended with %v", err)
	}
}

func TestStop(t *testing.T) {
	me := must.Get(self())(t)
	for _, row := range []struct {
		name  string
		args  []string
		grace time.Duration
		want  string
	}{
		{"by default", nil, time.Minute, "signal: terminated"},
		{"in good order", []string{"polite"}, time.Minute, "exit status 7"},
		{"who is deaf is killed", []string{"deaf"}, time.Millisecond, "signal: killed"},
		{"at once", []string{"polite"}, 0, "signal: killed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := begin(t, Options{Account: me, Root: me.UID == 0, Args: row.args, Roots: everything})
			a.wants("", "arguments")
			if !a.Alive() {
				t.Error("it is not alive")
			}
			must.Do(t, a.Stop(row.grace))
			if a.Alive() {
				t.Error("it is alive")
			}
			if err := a.Wait(t.Context()); err == nil || err.Error() != row.want {
				t.Errorf("it ended with %v, want %s", err, row.want)
			}
			must.Do(t, a.Stop(row.grace))
			if err := unix.Kill(a.PID(), 0); !errors.Is(err, unix.ESRCH) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

// A process that was stopped with SIGSTOP is killed all the same.
func TestStopOfAStoppedOne(t *testing.T) {
	me := must.Get(self())(t)
	a := begin(t, Options{Account: me, Root: me.UID == 0, Roots: everything})
	must.Do(t, unix.Kill(a.PID(), unix.SIGSTOP))
	must.Do(t, a.Stop(time.Millisecond))
}

// A process that even a kill does not end, as one that waits for a dead file server,
// does not hold up who stops it; it is reaped when it ends.
func TestStopOfOneThatDoesNotEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for reapTimeout")
	}
	needRoot(t)
	group := fmt.Sprintf("/sys/fs/cgroup/freezer/acting-%d", os.Getpid())
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no freezer of cgroup v1: %v", err)
	}
	defer func() { must.Do(t, os.Remove(group)) }()
	a := begin(t, Options{Account: asAlice()})
	freeze := func(state string) { must.Do(t, os.WriteFile(group+"/freezer.state", []byte(state), 0)) }
	must.Do(t, os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(a.PID())), 0))
	freeze("FROZEN")
	err := a.Stop(0)
	if !errors.Is(err, mover.ErrTimeout) || !a.Alive() {
		t.Errorf("got %v, alive: %v", err, a.Alive())
	}
	freeze("THAWED")
	if err := a.Wait(t.Context()); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
}

func TestWaitIsBounded(t *testing.T) {
	me := must.Get(self())(t)
	a := begin(t, Options{Account: me, Root: me.UID == 0, Roots: everything})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestStartThatFails(t *testing.T) {
	me := must.Get(self())(t)
	dir := folder(t, 0)
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		put(t, path, "#!/bin/sh\n"+text, 0, 0, 0o755)
		return path
	}
	plain := filepath.Join(dir, "plain")
	put(t, plain, "", 0, 0, 0o644)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	soon, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	files := openFiles(t)
	for _, row := range []struct {
		name string
		ctx  context.Context
		o    Options
		kind error
		want string
	}{
		{"no program", t.Context(), Options{Path: filepath.Join(dir, "none")}, mover.ErrNotExist, "none"},
		{"not to be run", t.Context(), Options{Path: plain}, mover.ErrPermission, "plain"},
		{"no directory", t.Context(), Options{Dir: filepath.Join(dir, "none")}, mover.ErrNotExist, "none"},
		{"it ends", t.Context(), Options{Path: script("ends", "exit 3")}, nil, "exit status 3"},
		{"it says something else", t.Context(), Options{Path: script("noise", "echo 'hello, world' >&3; exec sleep 60")}, mover.ErrCorrupt, "message of"},
		{"it says nonsense", t.Context(), Options{Path: script("nonsense", "printf '\\0\\0\\0\\002{]' >&3; exec sleep 60")}, mover.ErrCorrupt, "can not be read"},
		{"it says too little", t.Context(), Options{Path: script("little", "printf '\\0\\0\\0\\020{}' >&3")}, nil, "ready"},
		{"it says nothing", soon, Options{Path: script("mute", "exec sleep 60")}, context.DeadlineExceeded, ""},
		{"cancelled", cancelled, Options{}, context.Canceled, ""},
		{"a relative root", t.Context(), Options{Roots: Confinement{Read: []string{"a/b"}}}, mover.ErrUsage, "confine to a/b"},
		{"too many roots", t.Context(), Options{Roots: Confinement{Read: slices.Repeat([]string{strings.Repeat("/x", 2000)}, 1100)}}, mover.ErrUsage, "at most"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := options(t, row.o)
			o.Account, o.Root = me, me.UID == 0
			p, err := Start(row.ctx, o)
			if err == nil {
				must.Do(t, p.Stop(0))
				t.Fatal("it started")
			}
			if row.kind != nil && !errors.Is(err, row.kind) || !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), "act as uid ") {
				t.Errorf("%v, want %v: %s", err, row.kind, row.want)
			}
		})
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d files are open, %d were", now, files)
	}
}

// A program that an account may run and not read is out of its reach from the
// first instruction on.
func TestUnreadableProgram(t *testing.T) {
	needRoot(t)
	program := filepath.Join(folder(t, 0), "actor")
	text, err := os.ReadFile(built(t, "actor", "0"))
	must.Do(t, err)
	put(t, program, string(text), 0, 0, 0o711)
	ours, theirs, err := connect()
	must.Do(t, err)
	o := options(t, Options{Path: program, Account: asAlice()})
	cmd := o.command(true, theirs, nil)
	must.Do(t, cmd.Start()) // it waits for its terms: Enter did nothing yet
	must.Do(t, theirs.Close())
	var st unix.Stat_t
	must.Do(t, unix.Stat(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid), &st))
	if st.Uid != 0 {
		t.Errorf("uid %d may trace it", st.Uid)
	}
	must.Do(t, ours.Close())
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well, without its service")
	}
}

func TestEnterByHand(t *testing.T) {
	out, err := exec.Command(built(t, "actor", "0")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "started by the service, not by hand") {
		t.Errorf("%s (%v)", out, err)
	}
}

// Two hundred at once leave no zombie and no open file.
func TestManyAtOnce(t *testing.T) {
	needRoot(t)
	count := 200
	if testing.Short() {
		count = 50
	}
	begin(t, Options{Account: asAlice()}).wants("", "arguments") // builds it
	files := openFiles(t)
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			p, err := Start(t.Context(), options(t, Options{Account: Account{UID: uint32(alice + i), GID: alice}}))
			if err != nil {
				t.Error(err)
				return
			}
			a := &actor{p, t, json.NewEncoder(p.Conn), json.NewDecoder(p.Conn)}
			if _, wrong := a.ask("arguments"); wrong != "" {
				t.Error(wrong)
			}
			must.Tell(t, p.Stop(time.Minute))
		})
	}
	wg.Wait()
	if now := openFiles(t); now != files {
		t.Errorf("%d files are open, %d were", now, files)
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); pid > 0 {
		t.Errorf("process %d is a zombie (%v)", pid, err)
	}
}

func FuzzReceive(f *testing.F) {
	for _, text := range []string{"", "\x00\x00\x00\x02{}", "\x00\x00\x00\x20{\"Error\":\"x\",\"Kind\":99}    ", "\xff\xff\xff\xff", "\x00\x00\x00\x05{\"Kin"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r reply
		if receive(strings.NewReader(text), &r, 1<<16) == nil && r.err() != nil {
			_ = r.err().Error()
		}
	})
}

// BenchmarkStart is one process, until it is confined, and its end.
func BenchmarkStart(b *testing.B) {
	needRoot(b)
	dir := folder(b, alice)
	o := options(b, Options{Account: asAlice(team), Roots: Confinement{Read: []string{"/usr"}, Write: []string{dir}}})
	for b.Loop() {
		p := must.Get(Start(b.Context(), o))(b)
		must.Do(b, p.Stop(0))
	}
}
