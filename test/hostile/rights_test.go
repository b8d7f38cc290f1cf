package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

const nobody = 65534

// asNobody is the program under an account that owns nothing, in folders that it
// can reach.
func asNobody(t *testing.T, dirs ...string) *rig.Program {
	t.Helper()
	rig.Root(t)
	p := rig.New(t)
	p.State = rig.Memory(t)
	p.Cred = &syscall.Credential{Uid: nobody, Gid: nobody}
	for _, dir := range append(dirs, p.State) {
		must.Do(t, os.Chmod(dir, 0o777))
	}
	return p
}

// Somebody who is not root copies the files of others: what may be read comes, and
// belongs to who copied it; what may not is named, and the rest is not held up.
func TestFilesOfOthers(t *testing.T) {
	source, base := rig.Memory(t), rig.Memory(t)
	p := asNobody(t, source, base)
	write(t, source, "open/file", "for all")
	must.Do(t, os.Chmod(write(t, source, "open/program", "for all"), 0o755))
	target := filepath.Join(base, "target")
	p.Do(t, 0, "copy", "-q", source, target)
	got, _ := rig.Look(t, target)
	for _, name := range []string{"open/file", "open/program"} {
		if n := got[name]; n.UID != nobody || n.Size != 7 {
			t.Errorf("%s is %v", name, n)
		}
	}
	if again := p.Do(t, 0, "copy", "-o", "jsonl", source, target); strings.Contains(again.Stdout(), "datamove.item") {
		t.Errorf("a second run finds something to do: %s", again.Stdout())
	}
	must.Do(t, os.Chmod(write(t, source, "secret", "not for all"), 0o600))
	must.Do(t, os.Chmod(filepath.Dir(write(t, source, "locked/file", "not for all")), 0o700))
	must.Do(t, unix.Chmod(write(t, source, "open/setuid", "root's"), 0o4755))
	r := p.Do(t, 4, "sync", "--delete", "-q", source, target)
	for _, name := range []string{"secret", "locked"} {
		if !strings.Contains(r.Stderr(), name) {
			t.Errorf("%s is not named in: %s", name, r.Stderr())
		}
	}
	got, _ = rig.Look(t, target)
	if n, there := got["open/setuid"]; there && n.Mode&0o4000 != 0 {
		t.Errorf("a program of root became a setuid program of nobody: %v", n)
	}
	if _, there := got["secret"]; there {
		t.Error("there is a secret that could not be read")
	}
	if n := got["open/file"]; n.Size != 7 {
		t.Error("the rest was held up")
	}
}

// HOME left from another account (sudo -u, setpriv) is no reason to do nothing. A
// configuration that is seen and may not be read is one.
func TestHomeOfAnother(t *testing.T) {
	home, source, base := rig.Memory(t), rig.Memory(t), rig.Memory(t)
	p := asNobody(t, source, base)
	p.Env = []string{"XDG_CONFIG_HOME=", "HOME=" + home}
	write(t, source, "file", "for all")
	conf := write(t, home, ".config/datamove/config.yaml", "tiers: {}")
	must.Do(t, os.Chmod(home, 0o700))
	p.Do(t, 0, "copy", "-q", source, filepath.Join(base, "target"))
	must.Do(t, os.Chmod(home, 0o755))
	must.Do(t, os.Chmod(filepath.Join(home, ".config"), 0o755))
	must.Do(t, os.Chmod(filepath.Dir(conf), 0o755))
	must.Do(t, os.Chmod(conf, 0o600))
	if r := p.Do(t, 2, "copy", "-q", source, filepath.Join(base, "again")); !strings.Contains(r.Stderr(), conf) {
		t.Errorf("%s is not named in: %s", conf, r.Stderr())
	}
}

// Files that say that nobody may write them are copied, and replaced, and their
// directories too, also by somebody who is bound by that.
func TestReadOnly(t *testing.T) {
	source, base := rig.Memory(t), rig.Memory(t)
	p := asNobody(t, source, base)
	file := write(t, source, "dir/sub/file", "one")
	for _, name := range []string{"dir/sub/file", "dir/sub", "dir", "."} {
		path := filepath.Join(source, name)
		must.Do(t, os.Chown(path, nobody, nobody))
		must.Do(t, os.Chmod(path, map[bool]os.FileMode{true: 0o400, false: 0o500}[path == file]))
	}
	target := filepath.Join(base, "target")
	p.Do(t, 0, "copy", "-q", source, target)
	rig.SameTrees(t, source, target, true)
	must.Do(t, os.Chmod(file, 0o600))
	must.Do(t, os.WriteFile(file, []byte("another one"), 0))
	must.Do(t, os.Chmod(file, 0o400))
	p.Do(t, 0, "sync", "--delete", "-q", source, target)
	rig.SameTrees(t, source, target, false)
}

// What is immutable at the target is named, stays as it is, and holds nothing up.
func TestImmutable(t *testing.T) {
	rig.Root(t)
	source, target := rig.Memory(t), rig.Disk(t, "ext4", 64<<20)
	write(t, source, "fixed", "new")
	write(t, source, "free", "new")
	fixed := write(t, target, "fixed", "the old one")
	extra := write(t, target, "extra", "not in the source")
	for _, path := range []string{fixed, extra} {
		if out, err := exec.Command("chattr", "+i", path).CombinedOutput(); err != nil {
			t.Skipf("chattr: %v %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("chattr", "-i", path).Run() }) // its file system goes, too
	}
	p := rig.New(t)
	r := p.Do(t, 4, "copy", "-q", source, target)
	if !strings.Contains(r.Stderr(), "fixed") || !strings.Contains(r.Stderr(), "immutable") {
		t.Errorf("it does not say what is immutable: %s", r.Stderr())
	}
	must.Do(t, exec.Command("chattr", "-i", fixed).Run())
	p.Do(t, 4, "sync", "--delete", "-q", "--exclude", "lost+found", source, target)
	got, temps := rig.Look(t, target)
	if got["free"].Size != 3 || got["fixed"].Size != 3 || got["extra"].Size == 0 || len(temps) > 0 {
		t.Errorf("there is %v, and %q", got, temps)
	}
}

// Special files come without being opened: a FIFO without a writer would hold us
// for ever. At the target they make way.
func TestSpecialFiles(t *testing.T) {
	rig.Root(t)
	source, target := rig.Memory(t), rig.Memory(t)
	rig.Make(t, source, rig.Shape{Seed: 1, Special: true})
	write(t, source, "file", "x")
	write(t, target, "special/fifo", "in the way")
	must.Do(t, unix.Mkfifo(filepath.Join(target, "file"), 0o600))
	rig.New(t).Do(t, 0, "sync", "--delete", "-q", source, target)
	rig.SameTrees(t, source, target, true)
}

// Attributes that change alone, with neither size nor time, come with the next run.
func TestAttributesAlone(t *testing.T) {
	base := rig.Memory(t)
	source, target := filepath.Join(base, "source"), filepath.Join(base, "target")
	rig.Make(t, source, rig.Shape{Seed: 1, Small: 10, Odd: true})
	p := rig.New(t)
	store := rig.NewStore(t, p)
	both := func() {
		t.Helper()
		p.Do(t, 0, "copy", "-q", source, target)
		rig.SameTrees(t, source, target, true)
		p.Do(t, 0, "copy", "-q", source, store.At("attributes"))
		back := rig.Memory(t)
		p.Do(t, 0, "copy", "-q", "--preserve=privileges", store.At("attributes"), back)
		rig.SameTrees(t, source, back, true)
	}
	both()
	file := filepath.Join(source, "odd", "twin-1")
	must.Do(t, unix.Setxattr(file, "user.project", []byte("another"), 0))
	must.Do(t, unix.Setxattr(filepath.Join(source, "small", "000"), "user.of.directory", []byte("x"), 0))
	both()
	must.Do(t, unix.Removexattr(file, "user.project"))
	must.Do(t, unix.Chmod(file, 0o4711))
	both()
}
