package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// world is what the tests of the confinement have: two targets, a source, and
// what is outside.
type world struct{ top, in, other, source, out string }

func newWorld(t *testing.T, owner int) world {
	t.Helper()
	top := folder(t, owner)
	w := world{top, filepath.Join(top, "in"), filepath.Join(top, "other"), filepath.Join(top, "source"), filepath.Join(top, "out")}
	for _, dir := range []string{w.in, w.other, w.source, w.out} {
		for _, dir := range []string{dir, filepath.Join(dir, "deep")} {
			must.Do(t, os.Mkdir(dir, 0o755))
			for _, name := range []string{"a", "b", "c"} {
				put(t, filepath.Join(dir, name), "text", owner, owner, 0o600)
			}
			if os.Geteuid() == 0 {
				must.Do(t, os.Chown(dir, owner, owner))
			}
		}
	}
	program, err := os.ReadFile(built(t, "actor", "0")) // static: it needs no other file
	must.Do(t, err)
	for _, dir := range []string{w.in, w.source} {
		put(t, filepath.Join(dir, "program"), string(program), owner, owner, 0o755)
	}
	must.Do(t, os.Symlink(filepath.Join(w.out, "a"), filepath.Join(w.in, "link")))
	must.Do(t, os.Symlink(w.out, filepath.Join(w.in, "linked")))
	must.Do(t, os.Symlink("../in/c", filepath.Join(w.out, "home")))
	return w
}

func (w world) roots() Confinement {
	return Confinement{Read: []string{w.source}, Write: []string{w.in, w.other}}
}

// The table of what a process reaches, and what it does not: everything here belongs
// to its account.
//
//safety:7 a real process of the service leaves its roots by no path: `..`, links, /proc, renames, open directories
func TestConfined(t *testing.T) {
	needLandlock(t)
	for _, who := range []struct {
		name  string
		uid   int
		build string
	}{{"a user", alice, "0"}, {"root", 0, "0"}, {"a program with cgo", alice, "1"}} {
		t.Run(who.name, func(t *testing.T) {
			needRoot(t)
			if _, err := exec.LookPath("gcc"); err != nil && who.build == "1" {
				t.Skip("needs gcc")
			}
			w := newWorld(t, who.uid)
			a := begin(t, Options{Path: built(t, "actor", who.build), Roots: w.roots(), Root: true,
				Account: Account{UID: uint32(who.uid), GID: uint32(who.uid)}})
			w.inside(a, who.uid == 0)
			w.outside(a)
			w.across(a)
			w.around(a)
		})
	}
}

func (w world) inside(a *actor, root bool) {
	in := func(name string) string { return filepath.Join(w.in, name) }
	a.wants("", "read", in("a"))
	a.wants("", "write", in("new"), "text")
	a.wants("", "append", in("new"), "text")
	a.wants("", "list", w.in)
	a.wants("", "mkdir", in("x/y/z"))
	a.wants("", "truncate", in("a"))
	a.wants("", "rename", in("a"), in("a2"))
	a.wants("", "rename", in("a2"), in("deep/a2"))
	a.wants("", "rename", in("x"), filepath.Join(w.other, "x")) // a directory, from root to root
	a.wants("", "exchange", in("b"), filepath.Join(w.other, "b"))
	a.wants("", "link", in("b"), in("deep/b2"))
	a.wants("", "link", in("b"), filepath.Join(w.other, "b2"))
	a.wants("", "symlink", in("s"), "/etc/shadow")
	a.wants("", "fifo", in("fifo"))
	a.wants("", "socket", in("socket"))
	a.wants("", "remove", in("fifo"))
	a.wants("", "remove", in("deep/b2"))
	a.wants("", "setuid", in("c"))
	a.wants("", "openat2", w.in, "deep/b")
	a.wants("EXDEV", "openat2", w.in, "../out/a")
	a.wants("ELOOP", "openat2", w.in, "linked/a")
	a.wants("", "statfs", in("b"))
	a.wants("|ENOTSUP", "handle", in("b"))
	a.wants("|ENOTSUP", "reflink", in("clone"), in("b"))
	if _, wrong := a.ask("xattr", in("b")); wrong != "ENOTSUP" && wrong != "" {
		a.t.Errorf("xattr: %s", wrong)
	}
	if want := "EPERM"; root {
		a.wants("", "device", in("device"))
	} else {
		a.wants(want, "device", in("device"))
	}

	a.wants("", "read", filepath.Join(w.source, "deep/a"))
	a.wants("", "list", w.source)
	a.wants("", "openat2", w.source, "deep/a")
}

func (w world) outside(a *actor) {
	for _, dir := range []string{w.source, w.out, filepath.Join(w.in, "../out"), filepath.Join(w.in, "linked"), filepath.Join("/proc/self/root", w.out)} {
		file := filepath.Join(dir, "a")
		if !strings.HasPrefix(dir, w.source) {
			a.wants("EACCES", "read", file)
			a.wants("EACCES", "list", dir)
		}
		a.wants("EACCES", "write", file, "text")
		a.wants("EACCES", "append", file, "text")
		a.wants("EACCES", "truncate", file)
		a.wants("EACCES", "write", filepath.Join(dir, "new"), "text")
		a.wants("EACCES", "mkdir", filepath.Join(dir, "new"))
		a.wants("EACCES", "symlink", filepath.Join(dir, "new"), "x")
		a.wants("EACCES", "fifo", filepath.Join(dir, "new"))
		a.wants("EACCES", "socket", filepath.Join(dir, "new"))
		a.wants("EACCES", "remove", file)
		a.wants("EACCES", "rename", file, filepath.Join(dir, "a2"))
	}
	a.wants("EACCES", "read", filepath.Join(w.in, "link"))
	a.wants("EACCES", "read", w.in+"/../out/a") // as it stands, not made shorter
	a.wants("EACCES", "write", w.in+"/deep/../../out/a", "x")
	a.wants("EACCES", "by descriptor", w.out, "a")
	a.wants("EACCES", "by descriptor", w.in, "linked/a")
	a.wants("EACCES", "by descriptor", w.in, "../out/a")
	a.wants("EACCES", "openat2", w.out, "a")
	a.wants("EACCES", "chdir", w.out, "a")
	a.wants("", "chdir", w.in, "b")
	a.wants("", "read", filepath.Join(w.out, "home")) // a link from outside leads in: what counts is where it leads
}

// What is moved or linked takes no rights with it that it had not.
func (w world) across(a *actor) {
	const no = "EACCES|EXDEV"
	in, out, source := filepath.Join(w.in, "b"), filepath.Join(w.out, "b"), filepath.Join(w.source, "b")
	for _, op := range []string{"rename", "link"} {
		a.wants(no, op, in, filepath.Join(w.out, "n"))
		a.wants(no, op, out, filepath.Join(w.in, "n"))
		a.wants(no, op, source, filepath.Join(w.in, "n"))
		a.wants(no, op, in, filepath.Join(w.source, "n"))
		a.wants(no, op, out, filepath.Join(w.source, "n"))
	}
	a.wants(no, "rename", w.out, filepath.Join(w.in, "dir"))
	a.wants(no, "rename", filepath.Join(w.out, "deep"), filepath.Join(w.in, "dir"))
	a.wants(no, "rename", w.in, filepath.Join(w.out, "in"))
	a.wants(no, "exchange", in, out)
	a.wants(no, "exchange", filepath.Join(w.in, "deep"), filepath.Join(w.out, "deep"))
}

// What every program needs, and what is near it.
func (w world) around(a *actor) {
	for _, file := range []string{"/proc/self/mountinfo", "/proc/self/status", "/proc/thread-self/status", "/proc/sys/kernel/random/boot_id", "/dev/null", "/etc/passwd"} {
		a.wants("", "read", file)
	}
	for _, file := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl/certs/ca-certificates.crt"} {
		a.wants("|ENOENT", "read", file)
	}
	a.wants("", "write", "/dev/null", "x")
	for _, file := range []string{"/etc/fstab", "/etc/shadow", "/etc/machine-id", "/bin/sh", "/proc/self/root/etc/shadow"} {
		a.wants("EACCES|ENOENT", "read", file)
	}
	a.wants("EACCES|ENOENT|EPERM", "read", fmt.Sprintf("/proc/%d/environ", os.Getpid()))
	a.wants("EACCES|ENOENT|EPERM", "read", fmt.Sprintf("/proc/%d/root/etc/hosts", os.Getpid()))
	a.wants("EACCES", "write", "/etc/hosts", "x")
	a.wants("EACCES|EROFS", "write", "/proc/self/comm", "x")
	for _, program := range []string{"/bin/true", filepath.Join(w.in, "program"), filepath.Join(w.source, "program")} {
		a.wants("EACCES", "run", program)
	}
	a.wants("EACCES", "list", "/")
	a.wants("EACCES", "list", w.top)
}

// Threads that ran before the confinement, and those that came after, are in it.
//
//safety:7 with TestConfined
func TestAllThreads(t *testing.T) {
	needLandlock(t)
	needRoot(t)
	for _, cgo := range []string{"0", "1"} {
		if _, err := exec.LookPath("gcc"); err != nil && cgo == "1" {
			continue // TestConfined says so
		}
		w := newWorld(t, alice)
		a := begin(t, Options{Path: built(t, "actor", cgo), Account: asAlice(), Roots: w.roots()})
		for _, when := range []string{"before", "after"} {
			if got := a.wants("", "threads "+when, filepath.Join(w.out, "a")); got != "EACCES" {
				t.Errorf("cgo %s: threads from %s reach out: %q", cgo, when, got)
			}
			if got := a.wants("", "threads "+when, filepath.Join(w.in, "a")); got != "" {
				t.Errorf("cgo %s: threads from %s do not reach in: %q", cgo, when, got)
			}
		}
		for _, thread := range threads(t, a.PID()) {
			if got := field(t, a.PID(), thread+"/status", "NoNewPrivs:"); got != "1" {
				t.Errorf("cgo %s: %s: NoNewPrivs %s", cgo, thread, got)
			}
		}
	}
}

// The rules hold on when the kernel forgets what nobody uses.
func TestConfinedWithoutCaches(t *testing.T) {
	if testing.Short() {
		t.Skip("drops the caches of the machine")
	}
	needRoot(t)
	needLandlock(t)
	w := newWorld(t, alice)
	a := begin(t, Options{Account: asAlice(), Roots: w.roots()})
	for range 2 {
		for _, file := range []string{"/proc/self/mountinfo", "/proc/sys/kernel/random/boot_id", "/etc/passwd", filepath.Join(w.in, "a"), filepath.Join(w.source, "deep/a")} {
			a.wants("", "read", file)
		}
		a.wants("EACCES", "read", filepath.Join(w.out, "a"))
		must.Do(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0))
	}
}

// Without roots nothing is reached, and a service that is not root confines, too.
func TestNoRoots(t *testing.T) {
	needLandlock(t)
	me := must.Get(self())(t)
	dir := folder(t, os.Getuid())
	put(t, filepath.Join(dir, "a"), "text", os.Getuid(), os.Getgid(), 0o600)
	a := begin(t, Options{Account: me, Root: me.UID == 0})
	a.wants("EACCES", "read", filepath.Join(dir, "a"))
	a.wants("EACCES", "write", filepath.Join(dir, "b"), "x")
	a.wants("", "read", "/proc/self/mountinfo")
	if a.Enforced.Landlock < leastABI || len(a.Enforced.Wider) != 0 {
		t.Errorf("enforced: %+v", a.Enforced)
	}
}

// What a feed of changes gets beside its tree: names of directories, and devices by name. Of a directory whose names are
// seen no content is, and of the devices beside one none is opened.
//
//safety:7 with TestConfined
func TestListsAndDevices(t *testing.T) {
	needLandlock(t)
	me := must.Get(self())(t)
	dir := folder(t, os.Getuid())
	must.Do(t, os.Mkdir(filepath.Join(dir, "below"), 0o755))
	put(t, filepath.Join(dir, "below/a"), "text", os.Getuid(), os.Getgid(), 0o600)
	none := Confinement{List: []string{filepath.Join(dir, "none")}, Devices: []string{filepath.Join(dir, "none")}}
	closed := begin(t, Options{Account: me, Root: me.UID == 0, Roots: none})
	closed.wants("EACCES", "list", dir)
	for _, op := range []string{"append", "ioctl"} {
		closed.wants("EACCES", op, "/dev/full")
	}
	a := begin(t, Options{Account: me, Root: me.UID == 0, Roots: Confinement{List: []string{dir, "/dev"}, Devices: []string{"/dev/full"}}})
	a.wants("", "list", dir)
	a.wants("", "list", filepath.Join(dir, "below"))
	a.wants("", "list", "/dev")
	a.wants("EACCES", "read", filepath.Join(dir, "below/a"))
	a.wants("EACCES", "write", filepath.Join(dir, "below/b"), "text")
	a.wants("EACCES", "append", filepath.Join(dir, "below/a"), "text")
	a.wants("ENOSPC", "append", "/dev/full", "text") // the device has said so
	a.wants("ENOTTY", "ioctl", "/dev/full")
	a.wants("EACCES|ENOENT|ENXIO", "append", "/dev/tty", "text")
	a.wants("EACCES", "append", "/dev/zero", "text")
}

// TestNoDevice: what is no device is not opened up as one.
func TestNoDevice(t *testing.T) {
	for _, path := range []string{"dev/full", "/dev/full\x00", "/etc/passwd", t.TempDir()} {
		if _, _, err := (Confinement{Devices: []string{path}}).grants(&step{}); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// Which directories are opened up for which roots.
func TestRoots(t *testing.T) {
	dir := folder(t, os.Getuid())
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, os.MkdirAll(at("d/e"), 0o755))
	put(t, at("d/f"), "", os.Getuid(), os.Getgid(), 0o644)
	must.Do(t, os.Symlink("e", at("d/to e")))
	must.Do(t, os.Symlink("f", at("d/to f")))
	must.Do(t, os.Symlink("nowhere", at("d/to nothing")))
	put(t, at("g"), "", os.Getuid(), os.Getgid(), 0o644)
	must.Do(t, os.Symlink("../g", at("d/to g")))
	for _, row := range []struct {
		name        string
		path        string
		read, write string // directory; "" is none
	}{
		{"a directory", at("d/e"), at("d/e"), at("d/e")},
		{"not quite clean", at("d") + "/./e//", at("d/e"), at("d/e")},
		{"a file", at("d/f"), at("d"), at("d")},
		{"a link to a directory", at("d/to e"), at("d/to e"), at("d/to e")},
		{"a link to a file", at("d/to f"), at("d"), at("d")},
		{"a link to a file elsewhere", at("d/to g"), dir, at("d")},
		{"a link to nothing", at("d/to nothing"), at("d"), at("d")},
		{"nothing", at("d/e/x"), "", at("d/e")},
		{"nothing in nothing", at("d/e/x/y/z"), "", at("d/e")},
		{"below a file", at("d/f/x"), "", at("d")},
		{"nothing at the top", "/no such directory", "", "/"},
		{"everything", "/", "/", "/"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, side := range []struct {
				c    Confinement
				want string
			}{{Confinement{Read: []string{row.path}}, row.read}, {Confinement{Write: []string{row.path}}, row.write}} {
				grants, wider, err := side.c.grants(&step{})
				must.Do(t, err)
				if side.want == "" {
					if len(grants) != 0 {
						t.Errorf("got %v", grants)
					}
					continue
				}
				if len(grants) != 1 || grants[0].path != side.want {
					t.Errorf("got %v, want %s", grants, side.want)
				}
				var told []Wider
				if side.want != filepath.Clean(row.path) {
					told = []Wider{{row.path, side.want}}
				}
				if !reflect.DeepEqual(wider, told) {
					t.Errorf("told %v, want %v", wider, told)
				}
			}
		})
	}
}

// A root that the account can not even look at is an error that names it; one that
// is to be made is opened up above, and told.
func TestRootsAsTheAccountSeesThem(t *testing.T) {
	needRoot(t)
	needLandlock(t)
	closed := folder(t, bob)
	must.Do(t, os.Chmod(closed, 0o700))
	must.Do(t, os.Mkdir(filepath.Join(closed, "x"), 0o755))
	_, err := Start(t.Context(), options(t, Options{Account: asAlice(), Roots: Confinement{Read: []string{filepath.Join(closed, "x")}}}))
	if err == nil || !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), closed) {
		t.Errorf("got %v", err)
	}
	dir := folder(t, alice)
	target := filepath.Join(dir, "new/target")
	a := begin(t, Options{Account: asAlice(), Roots: Confinement{Write: []string{target}}})
	a.wants("", "mkdir", target)
	a.wants("", "write", filepath.Join(target, "f"), "text")
	if want := []Wider{{target, dir}}; !reflect.DeepEqual(a.Enforced.Wider, want) {
		t.Errorf("told %v, want %v", a.Enforced.Wider, want)
	}
}

// The mover itself works under its confinement: journal, lock, drafts, links, special
// files, backup.
func TestMoverWorksConfined(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a whole mover")
	}
	needRoot(t)
	needLandlock(t)
	w := newWorld(t, alice)
	a := begin(t, Options{Account: asAlice(), Roots: everything})
	for _, dir := range []string{"deep/fifo", "fifo"} {
		a.wants("", "fifo", filepath.Join(w.source, dir))
	}
	a.wants("", "link", filepath.Join(w.source, "a"), filepath.Join(w.source, "deep/hard"))
	a.wants("", "symlink", filepath.Join(w.source, "soft"), "nowhere")
	a.wants("", "write", filepath.Join(w.source, "large"), strings.Repeat("large", 1<<20))
	state, backup := filepath.Join(w.top, "state"), filepath.Join(w.other, "backup")
	a.wants("", "mkdir", state)
	p, err := Start(t.Context(), options(t, Options{Path: built(t, "copier", "0"), Account: asAlice(),
		Args:  []string{w.source, w.in, state, backup},
		Env:   []string{"TMPDIR=" + state},
		Roots: Confinement{Read: []string{w.source}, Write: []string{w.in, w.other, state}}}))
	must.Do(t, err)
	defer func() { must.Do(t, p.Stop(0)) }()
	said := make([]byte, 4096)
	n, err := p.Conn.Read(said)
	must.Do(t, err)
	if got := string(said[:n]); !strings.HasSuffix(strings.TrimSpace(got), "<nil>") || !strings.Contains(got, "removed 2 notes 0") {
		t.Errorf("it says %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(w.in, "large")); err != nil || len(text) != 5<<20 {
		t.Errorf("large has %d bytes (%v)", len(text), err)
	}
	for _, name := range []string{"deep/hard", "soft", "fifo", "deep/fifo"} {
		if _, err := os.Lstat(filepath.Join(w.in, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(backup, "link")); err != nil {
		t.Error(err)
	}
}

// Blocks are shared below the roots where the file system can.
func TestReflinkConfined(t *testing.T) {
	needRoot(t)
	needLandlock(t)
	dir := folder(t, 0)
	image, mount := filepath.Join(dir, "image"), filepath.Join(dir, "mount")
	must.Do(t, os.WriteFile(image, nil, 0o600))
	must.Do(t, os.Truncate(image, 320<<20))
	must.Do(t, os.Mkdir(mount, 0o755))
	for _, command := range [][]string{{"mkfs.xfs", "-q", "-m", "reflink=1", image}, {"mount", "-o", "loop", image, mount}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v %s", command[0], err, out)
		}
	}
	defer func() { _ = exec.Command("umount", "-l", mount).Run() }()
	must.Do(t, os.Chown(mount, alice, alice))
	a := begin(t, Options{Account: asAlice(), Roots: Confinement{Write: []string{mount}}})
	a.wants("", "write", filepath.Join(mount, "a"), "text")
	a.wants("", "reflink", filepath.Join(mount, "b"), filepath.Join(mount, "a"))
	if got := a.wants("", "read", filepath.Join(mount, "b")); got != "text" {
		t.Errorf("the clone has %q", got)
	}
	a.wants("", "xattr", filepath.Join(mount, "a"))
	a.wants("", "handle", filepath.Join(mount, "a"))
}
