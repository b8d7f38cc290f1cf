package osaccount

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connected returns our end of a socket to which dial connected.
func connected(t *testing.T, dial func(addr string) (net.Conn, error)) *net.UnixConn {
	t.Helper()
	l := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	defer l.Close()
	for at := filepath.Dir(l.Addr().String()); strings.HasPrefix(at, os.TempDir()+"/"); at = filepath.Dir(at) {
		must.Do(t, os.Chmod(at, 0o755))
	}
	must.Do(t, os.Chmod(l.Addr().String(), 0o777))
	other := must.Get(dial(l.Addr().String()))(t)
	t.Cleanup(func() { other.Close() })
	conn := must.Get(l.Accept())(t)
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.UnixConn)
}

func dial(addr string) (net.Conn, error) { return net.Dial("unix", addr) }

// dialAs connects from a thread that has become somebody else, and ends with it.
func dialAs(uid, gid uint32, groups []uint32) func(string) (net.Conn, error) {
	return func(addr string) (conn net.Conn, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and never unlocked: the thread ends here
			list := append([]uint32{0}, groups...)[1:]
			var first unsafe.Pointer
			if len(list) > 0 {
				first = unsafe.Pointer(&list[0])
			}
			_, _, gerr := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(list)), uintptr(first), 0)
			_, _, rerr := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid))
			_, _, uerr := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
			if gerr != 0 || rerr != 0 || uerr != 0 {
				err = fmt.Errorf("becoming uid %d: %w, %w, %w", uid, gerr, rerr, uerr)
				return
			}
			conn, err = dial(addr)
		}()
		<-done
		return conn, err
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
}

// namesOf is what Go reads of groups that have names.
func namesOf(t *testing.T, gids []uint32) (names []string) {
	t.Helper()
	for _, gid := range gids {
		g := must.Get(osuser.LookupGroupId(fmt.Sprint(gid)))(t)
		names = append(names, g.Name)
	}
	slices.Sort(names)
	return names
}

func TestPeerIsMe(t *testing.T) {
	a, err := New().Peer(t.Context(), connected(t, dial))
	must.Do(t, err)
	var groups []uint32
	mine, err := os.Getgroups()
	must.Do(t, err)
	for _, gid := range mine {
		groups = append(groups, uint32(gid))
	}
	slices.Sort(groups)
	me, err := osuser.LookupId(fmt.Sprint(os.Getuid()))
	if err != nil {
		me = &osuser.User{Gid: fmt.Sprint(os.Getgid())} // a uid without a name
	}
	if a.UID != uint32(os.Getuid()) || a.GID != uint32(os.Getgid()) || !slices.Equal(a.Groups, slices.Compact(groups)) || a.Name != me.Username {
		t.Errorf("%+v; I am %+v in %v", a, me, groups)
	}
	if g, err := osuser.LookupGroupId(me.Gid); err == nil && !slices.Contains(a.GroupNames, g.Name) {
		t.Errorf("%v has no %s", a.GroupNames, g.Name)
	}
}

//safety:7 the identity of a caller by the kernel; name services that lie
func TestPeerOfAnother(t *testing.T) {
	asRoot(t)
	d := New()
	many := make([]uint32, 500) // more than fit at first
	for i := range many {
		many[i] = uint32(700_000 + i)
	}
	for _, row := range []struct {
		name     string
		uid, gid uint32
		groups   []uint32
		account  string
		named    []uint32 // groups that have names
	}{
		{"somebody of this node", 1, 1, []uint32{0, 2}, "daemon", []uint32{0, 1, 2}},
		{"groups of the process, not of NSS", 1, 2, nil, "daemon", []uint32{2}},
		{"a uid without a name", 54321, 54322, []uint32{0, 54323}, "", []uint32{0}},
		{"many groups", 54324, 54322, many, "", nil},
	} {
		a, err := d.Peer(t.Context(), connected(t, dialAs(row.uid, row.gid, row.groups)))
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if a.UID != row.uid || a.GID != row.gid || !slices.Equal(a.Groups, row.groups) || a.Name != row.account || !slices.Equal(a.GroupNames, namesOf(t, row.named)) {
			t.Errorf("%s: %+v", row.name, a)
		}
		if row.account != "" {
			continue
		}
		back, err := d.Lookup(t.Context(), "", row.uid)
		if err != nil || back.GID != row.gid || !slices.Equal(back.Groups, row.groups) {
			t.Errorf("%s, looked up: %+v, %v", row.name, back, err)
		}
	}
	for name, uid := range map[string]uint32{"who never called": 54399, "who has a name": 1, "root": 0} {
		if a, err := d.Lookup(t.Context(), "", uid); !errors.Is(err, mover.ErrPermission) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	a, err := New().Lookup(t.Context(), "", 54321)
	if unseen := Unseen(0); !errors.Is(err, mover.ErrPermission) || !errors.As(err, &unseen) || unseen != 54321 {
		t.Errorf("on another node: %+v, %v", a, err)
	}
}

// TestPeerAfterwards has the caller become somebody else after it connected, and go.
func TestPeerAfterwards(t *testing.T) {
	asRoot(t)
	conn := connected(t, func(addr string) (net.Conn, error) {
		c, err := dialAs(54321, 54322, nil)(addr)
		if err == nil {
			err = c.Close()
		}
		return c, err
	})
	if a, err := New().Peer(t.Context(), conn); err != nil || a.UID != 54321 || a.GID != 54322 || len(a.Groups) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestPeerOfNobody(t *testing.T) {
	conn := connected(t, dial)
	conn.Close()
	if a, err := New().Peer(t.Context(), conn); err == nil {
		t.Errorf("a closed socket is %+v", a)
	}
	l := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixgram"}))(t)
	defer l.Close()
	if a, err := New().Peer(t.Context(), l); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("a socket without a peer: %+v, %v", a, err)
	}
}

// TestEveryAccountOfThisNode compares what the tools say with what Go reads.
func TestEveryAccountOfThisNode(t *testing.T) {
	d := New()
	if d.nss.getent == "" || d.nss.id == "" {
		t.Skip("there is no getent or no id")
	}
	passwd := must.Get(os.ReadFile("/etc/passwd"))(t)
	bare := New()
	bare.nss.getent, bare.nss.id = "", ""
	seen := 0
	for line := range strings.Lines(string(passwd)) {
		fields := strings.Split(line, ":")
		uid, err := strconv.ParseUint(fields[2], 10, 32)
		must.Do(t, err)
		a, err := d.Lookup(t.Context(), fields[0], uint32(uid))
		if err != nil || a.Name != fields[0] || fmt.Sprint(a.GID) != fields[3] || !slices.Contains(a.Groups, a.GID) {
			t.Errorf("%s: %+v, %v", fields[0], a, err)
		}
		b, err := bare.Lookup(t.Context(), fields[0], uint32(uid))
		if err != nil || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%s with tools: %+v\nwithout: %+v, %v", fields[0], a, b, err)
		}
		if b, err := d.Lookup(t.Context(), fields[0], uint32(uid)+1); !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), "files would go to another account") {
			t.Errorf("%s as uid %d: %+v, %v", fields[0], uid+1, b, err)
		}
		seen++
	}
	if seen == 0 {
		t.Error("there was no account")
	}
}

// Everybody that the name service knows is found by name alone, and nobody else.
func TestNamed(t *testing.T) {
	me, err := osuser.Current()
	must.Do(t, err)
	a := New()
	got, err := a.Named(t.Context(), me.Username)
	if err != nil || got.Name != me.Username || strconv.Itoa(int(got.UID)) != me.Uid {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range []string{"no-such-person", "-s", "", "0", "root:x:0:0"} {
		if got, err := a.Named(t.Context(), name); !errors.Is(err, mover.ErrPermission) {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
}

// TestFiles: who changes passwd or group puts another file in its place, and that counts. What is no account is nobody's.
//
//safety:7 passwd and group that are replaced while an agent in a container has them, and lines in them that are no accounts
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		must.Do(t, errors.Join(os.WriteFile(file+"+", []byte(text), 0o644), os.Rename(file+"+", file)))
	}
	if a, err := In(dir).Lookup(t.Context(), "alice", 1001); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("no files: %+v, %v", a, err)
	}
	put("passwd", "# accounts\n\nroot:x:0:0:root:/root:/bin/sh\n+@nis:x:1001:0::\nbroken:x\nalice:x:1001:1002:Alice:/home/alice:/bin/sh\nworse:x:-1:1002::/:\n")
	put("group", "root:x:0:\nusers:x:1002:\nproject:x:1003:bob,alice\nalices:x:1004:alicea,malice\nmany:x:1005:"+strings.Repeat("somebody,", 20_000)+"alice\n+\n")
	for _, row := range []struct {
		name   string
		uid    uint32
		groups []uint32
		named  string
		want   error
	}{
		{"alice", 1001, []uint32{1002, 1003, 1005}, "many project users", nil},
		{"root", 0, []uint32{0}, "root", nil},
		{"root", 1001, nil, "", mover.ErrPermission},
		{"bob", 1003, nil, "", mover.ErrPermission},
		{"+@nis", 1001, nil, "", mover.ErrPermission},
		{"broken", 0, nil, "", mover.ErrPermission},
		{"worse", 0, nil, "", mover.ErrTransient},
	} {
		a, err := In(dir).Lookup(t.Context(), row.name, row.uid)
		if !errors.Is(err, row.want) || !slices.Equal(a.Groups, row.groups) || strings.Join(a.GroupNames, " ") != row.named {
			t.Errorf("%s: %+v, %v", row.name, a, err)
		}
	}
	if u, err := In(dir).user(t.Context(), "1001"); err != nil || u.name != "alice" {
		t.Errorf("by the uid: %+v, %v", u, err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := In(dir)
		if a, err := d.Lookup(t.Context(), "alice", 1001); err != nil || len(a.Groups) != 3 {
			t.Fatalf("%+v, %v", a, err)
		}
		put("group", "users:x:1002:\nproject:x:1003:bob\n")
		time.Sleep(fresh)
		if a, err := d.Lookup(t.Context(), "alice", 1001); err != nil || !slices.Equal(a.Groups, []uint32{1002}) {
			t.Errorf("she was taken out of a group: %+v, %v", a, err)
		}
	})
	put("group", "long:x:1002:"+strings.Repeat("somebody,", maxAnswer/8)+"\n")
	if a, err := In(dir).Lookup(t.Context(), "alice", 1001); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("a line without an end: %+v, %v", a, err)
	}
}

func TestHostileNames(t *testing.T) {
	with, without := New(), New()
	without.nss.getent, without.nss.id = "", ""
	for _, d := range []*Directory{with, without} {
		for _, name := range []string{"-rf", "--help", "--", "root\n", "\nroot", "root:x", ":", "root:", "0", "00", " root", "root ", "root,daemon", "/root", "../root",
			"root\x00", "\xff", "\x1b[31mroot", "+", "+root", strings.Repeat("r", 257), "$(id)", "`id`", "root;id", "*", "ROOT", "nobody-of-that-name"} {
			if a, err := d.Lookup(t.Context(), name, 0); !errors.Is(err, mover.ErrPermission) || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q: %+v, %v", name, a, err)
			}
		}
	}
}

// program writes a tool that answers what a test wants.
func program(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tool")
	must.Do(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	return file
}

//safety:7 with TestPeerOfAnother
func TestBadAnswers(t *testing.T) {
	alice := `echo alice:x:1001:1002::/home/alice:/bin/sh`
	for _, row := range []struct {
		name, getent, id string
		want             error
	}{
		{"what is right", `case $1 in passwd) ` + alice + `;; group) echo users:x:1002:; exit 2;; esac`, `echo 1002 1003`, nil},
		{"not there", `exit 2`, ``, mover.ErrPermission},
		{"nothing", ``, ``, mover.ErrPermission},
		{"another name", `echo bob:x:1001:1002:`, ``, mover.ErrPermission},
		{"another uid", `echo alice:x:0:0:`, ``, mover.ErrPermission},
		{"half a line", `echo alice:x`, ``, mover.ErrPermission},
		{"a uid that is no number", `echo alice:x:-1:1002:`, ``, mover.ErrTransient},
		{"a uid that is too great", `echo alice:x:4294968297:1002:`, ``, mover.ErrTransient},
		{"a database that is not there", `echo 'Unknown database' >&2; exit 1`, ``, mover.ErrTransient},
		{"a tool that is killed", `kill -9 $$`, ``, mover.ErrTransient},
		{"too much", `exec yes alice`, ``, mover.ErrTransient},
		{"too much, in one line", `exec tr '\0' a < /dev/zero`, ``, mover.ErrTransient},
		{"groups that fail", `[ $1 != passwd ] || ` + alice, `exit 1`, mover.ErrTransient},
		{"groups that are words", `[ $1 != passwd ] || ` + alice, `echo users`, mover.ErrTransient},
		{"groups that are too great", `[ $1 != passwd ] || ` + alice, `echo 4294967296`, mover.ErrTransient},
		{"too many groups", `[ $1 != passwd ] || ` + alice, `seq 65537`, mover.ErrUnsupported},
		{"names of groups that fail", alice + `; [ $1 = passwd ]`, `echo 1002`, mover.ErrTransient},
	} {
		d := New()
		d.nss.getent, d.nss.id = program(t, row.getent), program(t, row.id)
		a, err := d.Lookup(t.Context(), "alice", 1001)
		if !errors.Is(err, row.want) || row.want == nil && (a.GID != 1002 || !slices.Equal(a.Groups, []uint32{1002, 1003}) || !slices.Equal(a.GroupNames, []string{"users"})) {
			t.Errorf("%s: %+v, %v", row.name, a, err)
		}
	}
}

// The members of a group may be many; they are read over.
func TestGroupsWithManyMembers(t *testing.T) {
	d := New()
	d.nss.getent = program(t, `printf big:x:7:; head -c 3000000 /dev/zero | tr '\0' m; printf '\nsmall:x:8:a,b\nother:x:9:\n'; printf 'bad name\t:x:10:\n'`)
	found, err := d.nss.groupNames(t.Context(), []uint32{7, 8, 10})
	if err != nil || len(found) != 2 || found[7] != "big" || found[8] != "small" {
		t.Errorf("%v, %v", found, err)
	}
}

func TestToolsSeeNoEnvironment(t *testing.T) {
	t.Setenv("LD_PRELOAD_OF_A_TEST", "1")
	out, err := run(t.Context(), 1<<30, program(t, `env | sort; pwd; cat`), "x")
	if want := "LC_ALL=C\nPATH=/usr/bin:/bin\nPWD=/\n/\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v", out, err)
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	d := New()
	fifo := filepath.Join(t.TempDir(), "fifo")
	must.Do(t, unix.Mkfifo(fifo, 0o600))
	d.nss.getent = program(t, `echo started > `+fifo+`; exec cat `+fifo)
	ctx, stop := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		_, err := d.Lookup(ctx, "alice", 1001)
		asked <- err
	}()
	if _, err := os.ReadFile(fifo); err != nil { // returns when the tool has started
		t.Fatal(err)
	}
	stop()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("a tool that hangs: %v", err)
	}
	for range tools {
		d.nss.slots <- struct{}{}
	}
	if _, err := d.Lookup(ctx, "alice", 1001); !errors.Is(err, context.Canceled) {
		t.Errorf("no turn: %v", err)
	}
}

// TestAskedOnce counts how often a tool is started for what is known already.
func TestAskedOnce(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	d := New()
	d.nss.getent = program(t, `echo $1 >> `+count+`; case "$3" in alice|1001) echo alice:x:1001:1002:;; *) exit 2;; esac`)
	d.nss.id = program(t, `echo id >> `+count+`; echo 1002`)
	for range 3 {
		if _, err := d.Lookup(t.Context(), "alice", 1001); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Lookup(t.Context(), "bob", 1003); !errors.Is(err, mover.ErrPermission) {
			t.Fatal(err)
		}
	}
	calls, err := os.ReadFile(count)
	if err != nil || string(calls) != "passwd\nid\ngroup\npasswd\n" {
		t.Errorf("%q, %v", calls, err)
	}
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cache[int, string]
		c.put(1, "one", time.Minute)
		time.Sleep(time.Minute - 1)
		if v, ok := c.get(1); v != "one" || !ok {
			t.Errorf("within the minute: %q, %v", v, ok)
		}
		time.Sleep(time.Nanosecond)
		if v, ok := c.get(1); ok {
			t.Errorf("after it: %q", v)
		}
		for i := range 3 * capacity {
			c.put(i, "x", time.Duration(i+1)*time.Second)
			if len(c.kept) > capacity {
				t.Fatalf("%d are kept", len(c.kept))
			}
		}
		if v, ok := c.get(3*capacity - 1); v != "x" || !ok {
			t.Errorf("the last is %q, %v", v, ok)
		}
		time.Sleep(time.Duration(3*capacity) * time.Second)
		for i := range capacity {
			c.put(-i, "y", time.Second)
		}
		for i := range capacity {
			if v, ok := c.get(-i); v != "y" || !ok {
				t.Fatalf("%d had to go for one that is over", -i)
			}
		}
	})
}

func TestFixedPaths(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "getent"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", dir)
	if n := findTools(); strings.HasPrefix(n.getent, dir) {
		t.Errorf("getent of PATH: %s", n.getent)
	}
	if _, err := exec.LookPath("getent"); err != nil {
		t.Fatal(err)
	}
	if got := first(filepath.Join(dir, "gone"), dir, filepath.Join(dir, "getent")); got != filepath.Join(dir, "getent") {
		t.Errorf("first is %q", got)
	}
}
