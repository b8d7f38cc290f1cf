package siege

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
)

// Two accounts that every machine has, and that are not root.
var (
	userOne = &syscall.Credential{Uid: 1, Gid: 1}
	nobody  = &syscall.Credential{Uid: 65534, Gid: 65534}
)

// as is the command of another user, at the coordinator's socket.
func (s *site) as(who *syscall.Credential) *rig.Program {
	s.t.Helper()
	p := rig.New(s.t)
	p.Cred = who
	p.Env = []string{"DATAMOVE_SERVICE=" + s.socket(), "HOME=/nonexistent"}
	return p
}

// own makes a folder of a user below the tier "shared".
func (s *site) own(name string, who *syscall.Credential) string {
	s.t.Helper()
	dir := filepath.Join(s.shared, name)
	check(s.t, os.MkdirAll(dir, 0o755))
	check(s.t, os.Chown(dir, int(who.Uid), int(who.Gid)))
	return dir
}

// Who knows the id of somebody else's task knows nothing else: it is as if there were
// no such task, whatever is asked of it, and nothing happens to it.
//
//safety:7 somebody else's task is to everybody as if it were none; root of a node is not root of the site
func TestTaskOfAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1"}})
	source := s.own("secret-plans", userOne)
	check(t, os.WriteFile(filepath.Join(source, "file"), make([]byte, 12<<20), 0o600))
	check(t, os.Chown(filepath.Join(source, "file"), 1, 1))
	s.own("out", userOne)
	mine := s.as(userOne)
	o := &order{site: s, run: mine.Start(t, append([]string{"copy", "shared:secret-plans", "shared:out"}, slowly...)...)}
	o.run.Until("it has a task", func() bool {
		_, after, begun := strings.Cut(o.run.Complained(), ": task ")
		o.id = after[:min(20, len(after))]
		return begun && len(o.id) == 20
	})
	o.moving(1 << 20)
	other := s.as(nobody)
	nothing := "0" + o.id[1:]
	for _, verb := range []string{"show", "watch", "wait", "why", "pause", "resume", "cancel"} {
		theirs, none := other.Start(t, "task", verb, o.id).Wait(), other.Start(t, "task", verb, nothing).Wait()
		if theirs.Exit != none.Exit || theirs.Exit != 3 && theirs.Exit != 4 {
			t.Errorf("task %s: exit %d of another's task, %d of none", verb, theirs.Exit, none.Exit)
		}
		said := theirs.Stdout() + theirs.Stderr()
		if strings.ReplaceAll(said, o.id, "ID") != strings.ReplaceAll(none.Stdout()+none.Stderr(), nothing, "ID") {
			t.Errorf("task %s tells the one from the other: %s, and %s", verb, said, none.Stderr())
		}
		if strings.Contains(said, "secret") || strings.Contains(said, "daemon") {
			t.Errorf("task %s tells of it: %s", verb, said)
		}
	}
	if list := other.Do(t, 0, "task", "list", "-o", "json").Stdout(); strings.Contains(list, o.id) || strings.Contains(list, "secret") {
		t.Errorf("the list of another: %s", list)
	}
	o.done()
	rig.SameTrees(t, source, filepath.Join(s.shared, "out"), false)
}

// projects gives the folder "vision" to nobody, and nothing else.
const projects = "projects:\n  vision: {roots: [\"shared:vision\"], members: [nobody]}\n"

// secret is what must not be seen or changed.
const secret = "the secret of the site"

// outside makes two folders that are in no project: one that only root can read, and
// one that everybody could, and write.
func (s *site) outside() (dirs []string) {
	s.t.Helper()
	for name, mode := range map[string]os.FileMode{"roots-own": 0o700, "everybodys": 0o777} {
		dir := filepath.Join(s.shared, name)
		check(s.t, os.Mkdir(dir, 0o755))
		check(s.t, os.WriteFile(filepath.Join(dir, "file"), []byte(secret), 0o600|mode&0o666))
		check(s.t, os.Chmod(dir, mode))
		dirs = append(dirs, dir)
	}
	return dirs
}

// leaks fails when the secret is somewhere below a directory.
func (s *site) leaks(dir string) {
	s.t.Helper()
	check(s.t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it goes while we look
		}
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), secret) {
			s.t.Errorf("the secret is in %s", path)
		}
		return nil
	}))
}

// What is outside of a project's roots is reached by no text.
//
//safety:6 paths out of a project's roots by their text, by links, and by folders that become links while tasks of users and of root begin and run
func TestPathsOutside(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1"}, more: projects})
	vision := s.own("vision", nobody)
	check(t, os.WriteFile(filepath.Join(vision, "mine"), []byte("mine"), 0o644))
	dirs := s.outside()
	was := marks(t, s.shared)
	user := s.as(nobody)
	for _, at := range []string{"shared:vision/../roots-own", "shared:roots-own", "shared:everybodys", "shared:", dirs[0], dirs[1],
		vision + "/../everybodys", "shared:vision/./../everybodys", "shared:vision2", "shared:vision//../everybodys"} {
		for _, args := range [][]string{{at, "shared:vision/out"}, {"shared:vision", at}} {
			r := user.Start(t, append([]string{"copy", "-q"}, args...)...).Wait()
			if r.Exit != 4 && r.Exit != 2 {
				t.Errorf("copy %q: exit %d, %s", args, r.Exit, r.Stderr())
			}
		}
	}
	now := marks(t, s.shared)
	for name, m := range now {
		if was[name] != m {
			t.Errorf("%s was made or changed", name)
		}
	}
	s.leaks(vision)
}

// A folder of a project that becomes a symbolic link to the outside while tasks begin
// and run: nothing comes from there, and nothing goes there.
//
//safety:6 with TestPathsOutside
func TestRootsAreSwapped(t *testing.T) {
	long(t)
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1"}, more: projects})
	vision := s.own("vision", nobody)
	dirs := s.outside()
	for _, name := range []string{"in", "out"} {
		dir := s.own("vision/"+name, nobody)
		check(t, os.WriteFile(filepath.Join(dir, "file"), []byte("mine"), 0o644))
		check(t, os.Chown(filepath.Join(dir, "file"), 65534, 65534))
	}
	was := marks(t, s.shared)
	user := s.as(nobody)
	for _, dir := range dirs {
		for _, name := range []string{"in", "out"} {
			quiet := swaps(t, filepath.Join(vision, name), dir)
			for range 6 { // each may end in many ways, and must not escape
				user.Start(t, "copy", "-q", "shared:vision/"+name, "shared:vision/copied").Wait()
				user.Start(t, "sync", "-q", "--delete", "shared:vision/in", "shared:vision/"+name).Wait()
				s.tool.Start(t, "copy", "-q", "--project", "vision", "shared:vision/"+name, "shared:vision/by-root").Wait()
				s.tool.Start(t, "copy", "-q", "--project", "vision", "shared:vision/in", "shared:vision/"+name).Wait()
			}
			quiet()
		}
	}
	for name, m := range marks(t, s.shared) {
		if !strings.HasPrefix(name, "vision/") && was[name] != m {
			t.Errorf("%s, which is outside, was made or changed", name)
		}
	}
	for _, copied := range []string{"copied", "by-root"} {
		s.leaks(filepath.Join(vision, copied))
	}
}

// swaps exchanges a folder with a link to another one, again and again, until quiet
// is called. Then the folder is where it was.
func swaps(t *testing.T, dir, to string) (quiet func()) {
	t.Helper()
	link := dir + "-link"
	check(t, os.Symlink(to, link))
	stop, stopped := make(chan struct{}), make(chan struct{})
	exchange := func() { _ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) }
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Microsecond): // both ways are met
				exchange()
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		if st, err := os.Lstat(link); err == nil && st.IsDir() {
			exchange()
		}
		check(t, os.Remove(link))
	}
}

// Root of a node may look, and have nothing done: it would be root everywhere.
//
//safety:7 with TestTaskOfAnother
func TestRootOfANode(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1", "n2"}})
	check(t, os.Mkdir(filepath.Join(s.shared, "source"), 0o755))
	node := rig.New(t)
	node.Env = []string{"DATAMOVE_SERVICE=" + s.nodes["n1"].socket()}
	node.Do(t, 0, "service", "info")
	node.Do(t, 0, "agent", "list")
	for _, args := range [][]string{
		{"copy", "-q", "shared:source", "shared:target"}, {"copy", "-q", "/etc", s.path("stolen")}, {"agent", "drain", "n2"},
		{"agent", "token", "n3"}, {"service", "reload"}, {"service", "backup", s.path("backup")},
	} {
		r := node.Do(t, 4, args...)
		if !strings.Contains(r.Stderr(), "root") {
			t.Errorf("%q does not say why: %s", args, r.Stderr())
		}
	}
	for _, left := range []string{"shared/target", "stolen", "backup"} {
		if _, err := os.Lstat(s.path(left)); err == nil {
			t.Errorf("%s is there", left)
		}
	}
	mine := rig.New(t)
	mine.Cred, mine.Env = nobody, []string{"DATAMOVE_SERVICE=" + s.nodes["n1"].socket(), "HOME=/nonexistent"}
	s.own("out", nobody)
	mine.Do(t, 0, "copy", "-q", "shared:source", "shared:out")
}
