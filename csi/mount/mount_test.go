package mount

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/mountns"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { mountns.Main(m) }

// ground is a file system in memory with a directory volume, and a path to mount at.
func ground(t *testing.T) (dir int, volume, target string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts")
	}
	top := t.TempDir()
	must.Do(t, unix.Mount("tmpfs", top, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { must.Do(t, unix.Unmount(top, unix.MNT_DETACH)) })
	volume = filepath.Join(top, "volume")
	must.Do(t, os.Mkdir(volume, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(volume, "file"), []byte("here"), 0o644))
	target = filepath.Join(t.TempDir(), "target")
	t.Cleanup(func() {
		table := must.Get(Table(filepath.Dir(target)))(t)
		for _, m := range slices.Backward(table) {
			must.Do(t, unix.Unmount(m.Point, unix.MNT_DETACH))
		}
	})
	return open(t, volume), volume, target
}

func open(t *testing.T, path string) int {
	t.Helper()
	fd := must.Get(unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// gone takes a mount away as the driver does, and looks.
func gone(t *testing.T, target string) {
	t.Helper()
	must.Do(t, Unmount(target, Plain))
	must.Do(t, Unmount(target, Plain)) // twice is once
	must.Do(t, RemoveTarget(target))
	must.Do(t, RemoveTarget(target))
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", target, err)
	}
}

func TestBind(t *testing.T) {
	dir, _, target := ground(t)
	for _, f := range []Flags{{}, {ReadOnly: true}, {NoExec: true, NoAtime: true, NoSymFollow: true}} {
		must.Do(t, Bind(dir, target, f))
		must.Do(t, Bind(dir, target, f))
		table := must.Get(Table(target))(t)
		if len(table) != 1 || table[0].Root != "/volume" || table[0].Type != "tmpfs" {
			t.Fatalf("%+v", table)
		}
		options := strings.Split(table[0].Options, ",")
		for option, want := range map[string]bool{"nosuid": true, "nodev": true, "ro": f.ReadOnly, "noexec": f.NoExec, "noatime": f.NoAtime, "nosymfollow": f.NoSymFollow} {
			if slices.Contains(options, option) != want {
				t.Errorf("%+v: %s", f, table[0].Options)
			}
		}
		if err := os.WriteFile(filepath.Join(target, "new"), nil, 0o644); (err != nil) != f.ReadOnly {
			t.Errorf("%+v: write: %v", f, err)
		}
		gone(t, target)
	}
}

// TestBindOnOlderKernels: the way that kernels before 5.12 know ends with the same mount.
func TestBindOnOlderKernels(t *testing.T) {
	dir, _, target := ground(t)
	at := must.Get(openTarget(target))(t)
	defer unix.Close(at)
	f := Flags{ReadOnly: true, NoExec: true}
	must.Do(t, attachInSteps(dir, at, target, f))
	must.Do(t, Bind(dir, target, f)) // it is what Bind would have made
	gone(t, target)
	if err := attachInSteps(dir, at, target, Flags{NoSymFollow: true}); err == nil {
		t.Error("a flag that is not there was promised")
	}
	if _, mounted, err := At(target); mounted || err != nil {
		t.Errorf("it is mounted all the same: %v", err)
	}
}

// TestBindIsOfWhatIsOpen: what takes the place of a directory after it was checked is not mounted.
//
//safety:6 with csi TestTenants
func TestBindIsOfWhatIsOpen(t *testing.T) {
	dir, volume, target := ground(t)
	must.Do(t, os.Rename(volume, volume+".away"))
	must.Do(t, os.Symlink("/etc", volume))
	must.Do(t, Bind(dir, target, Flags{}))
	if got, err := os.ReadFile(filepath.Join(target, "file")); err != nil || string(got) != "here" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestBindLeavesOutWhatIsMountedBelow: a user who can mount in a volume gives nothing to another pod.
func TestBindLeavesOutWhatIsMountedBelow(t *testing.T) {
	dir, volume, target := ground(t)
	below := filepath.Join(volume, "below")
	must.Do(t, os.Mkdir(below, 0o755))
	must.Do(t, unix.Mount("/etc", below, "", unix.MS_BIND, ""))
	defer func() { must.Do(t, unix.Unmount(below, unix.MNT_DETACH)) }()
	must.Do(t, Bind(dir, target, Flags{}))
	names, err := os.ReadDir(filepath.Join(target, "below"))
	if err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

//safety:6 something else is mounted at the target; options and labels that a tenant has no business with
func TestBindRefuses(t *testing.T) {
	dir, volume, target := ground(t)
	for _, bad := range []string{"", "relative", "/", "/tmp/../etc", "/tmp/x/"} {
		if err := Bind(dir, bad, Flags{}); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", bad, err)
		}
		if err := Unmount(bad, Plain); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("unmount %q: %v", bad, err)
		}
	}
	must.Do(t, os.Symlink("/etc", target))
	if err := Bind(dir, target, Flags{}); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("a link was mounted over: %v", err)
	}
	must.Do(t, os.Remove(target))
	must.Do(t, os.WriteFile(target, nil, 0o644))
	if err := Bind(dir, target, Flags{}); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("a file was mounted over: %v", err)
	}
	must.Do(t, os.Remove(target))

	must.Do(t, Bind(dir, target, Flags{}))
	if err := Bind(dir, target, Flags{ReadOnly: true}); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("a writable mount was taken for a read-only one: %v", err)
	}
	other := filepath.Join(filepath.Dir(volume), "other")
	must.Do(t, os.Mkdir(other, 0o755))
	if err := Bind(open(t, other), target, Flags{}); !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), "/volume") {
		t.Errorf("another directory was taken for it: %v", err)
	}
	gone(t, target)
	must.Do(t, Bind(dir, target, Flags{ReadOnly: true}))
	if err := Bind(dir, target, Flags{}); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("a read-only mount was taken for a writable one: %v", err)
	}
}

func TestUnmountInUse(t *testing.T) {
	dir, _, target := ground(t)
	must.Do(t, Bind(dir, target, Flags{}))
	f := must.Get(os.Open(filepath.Join(target, "file")))(t)
	defer f.Close()
	if err := Unmount(target, Plain); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("plain: %v", err)
	}
	if err := Unmount(target, Force); !errors.Is(err, mover.ErrHeld) || !strings.Contains(err.Error(), "other mounts") {
		t.Errorf("what others of the same file system wait for was ended: %v", err)
	}
	must.Do(t, Unmount(target, Detach))
	must.Do(t, RemoveTarget(target))
	got := make([]byte, 4)
	if _, err := f.Read(got); err != nil || string(got) != "here" {
		t.Errorf("its last user lost it: %q, %v", got, err)
	}
}

// TestUnmountAll: mounts over one another go together; those below another path stay.
func TestUnmountAll(t *testing.T) {
	dir, _, target := ground(t)
	must.Do(t, Bind(dir, target, Flags{}))
	must.Do(t, unix.Mount("tmpfs", target, "tmpfs", 0, "size=1m"))
	beside := target + "-beside"
	must.Do(t, Bind(dir, beside, Flags{}))
	must.Do(t, Unmount(target, Plain))
	if table, err := Table(target); err != nil || len(table) != 0 {
		t.Errorf("%+v, %v", table, err)
	}
	if _, mounted, err := At(beside); !mounted || err != nil {
		t.Errorf("what is beside is gone: %v", err)
	}
}

func TestFileSystem(t *testing.T) {
	_, _, target := ground(t)
	spec := Spec{Type: "tmpfs", Source: "memory", Options: []string{"size=1m", "noexec"}}
	must.Do(t, FileSystem(t.Context(), spec, target))
	must.Do(t, FileSystem(t.Context(), spec, target))
	m, mounted, err := At(target)
	must.Do(t, err)
	for _, option := range []string{"nosuid", "nodev", "noexec"} {
		if !mounted || !slices.Contains(strings.Split(m.Options, ","), option) {
			t.Errorf("%+v is not %s", m, option)
		}
	}
	if err := FileSystem(t.Context(), Spec{Type: "tmpfs", Source: "other"}, target); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("another file system was taken for it: %v", err)
	}
	must.Do(t, Unmount(target, Force)) // nobody else has it
	for _, row := range []struct {
		spec Spec
		kind error
		says string
	}{
		{Spec{Type: "nosuchfs", Source: "x"}, mover.ErrUnsupported, "module"},
		{Spec{Type: "tmpfs", Source: "x", Options: []string{"suid"}}, mover.ErrUsage, "suid"},
		{Spec{Type: "nfs4", Source: "nowhere"}, mover.ErrUsage, "HOST:/EXPORT"},
	} {
		if err := FileSystem(t.Context(), row.spec, target); !errors.Is(err, row.kind) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%+v: %v", row.spec, err)
		}
	}
}

// TestOptions: what the mount programs would add is there.
func TestOptions(t *testing.T) {
	for _, row := range []struct {
		spec Spec
		want string
	}{
		{Spec{"lustre", "10.0.0.1@tcp:/lab", []string{"flock", "noatime"}}, "flock device=10.0.0.1@tcp:/lab"},
		{Spec{"nfs4", "127.0.0.1:/export", []string{"vers=4.2"}}, "vers=4.2 addr=127.0.0.1"},
		{Spec{"nfs", "[::1]:/export", nil}, "addr=::1"},
		{Spec{"ceph", "admin@fsid.lab=/", []string{"mon_addr=10.0.0.1:6789"}}, "mon_addr=10.0.0.1:6789"},
	} {
		_, got, err := row.spec.options(t.Context())
		if err != nil || strings.Join(got, " ") != row.want {
			t.Errorf("%+v: %q, %v", row.spec, got, err)
		}
	}
}

// TestBelow: the directory of a volume alone, as each file system takes it, and with a label that is one.
//
//safety:6 with TestBindRefuses
func TestBelow(t *testing.T) {
	const label = "system_u:object_r:container_file_t:s0:c1,c2"
	for _, row := range []struct {
		of             Spec
		source, option string
	}{
		{Spec{Type: "lustre", Source: "10.0.0.1@tcp:/lab"}, "10.0.0.1@tcp:/lab/k8s/volumes/1/data", ""},
		{Spec{Type: "nfs", Source: "server:/export/"}, "server:/export/k8s/volumes/1/data", ""},
		{Spec{Type: "ceph", Source: "admin@1.fs=/"}, "admin@1.fs=/k8s/volumes/1/data", ""},
		{Spec{Type: "btrfs", Source: "/dev/sdb"}, "/dev/sdb", "subvol=k8s/volumes/1/data"},
		{Spec{Type: "gpfs", Source: "gpfs0"}, "", ""},
	} {
		got, err := row.of.Below("k8s/volumes/1/data", label)
		if row.source == "" {
			if !errors.Is(err, mover.ErrUnsupported) || Separable(row.of.Type) {
				t.Errorf("%s: %v", row.of.Type, err)
			}
			continue
		}
		if err != nil || got.Source != row.source || !slices.Contains(got.Options, `context="`+label+`"`) || row.option != "" && !slices.Contains(got.Options, row.option) {
			t.Errorf("%+v, %v", got, err)
		}
		if len(row.of.Options) > 0 {
			t.Errorf("%s: the whole file system was changed, too", row.of.Type)
		}
		for _, bad := range []string{`u:r:t:s0",suid`, "u:r", "u:r:t:s0 x", "u:r:t\n"} {
			if _, err := row.of.Below("x", bad); !errors.Is(err, mover.ErrUsage) {
				t.Errorf("%q is taken for a label: %v", bad, err)
			}
		}
	}
}

func TestUniqueFSID(t *testing.T) {
	for version, want := range map[string]bool{"2.15.8": true, "2.15.8_DEBUG\n": true, "2.16.0": true, "2.17.57\n": true, "3.0.0": true, "2.15.7": false, "2.14.99": false, "1.99.99": false, "": false, "2.15": false, "unknown": false} {
		if got := hasUniqueFSID(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}
