package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// isMachine is the variable that says that this process is the first one of a machine, and which.
const isMachine = "DATAMOVE_SLURM_MACHINE"

// ready is what it says when the machine is.
const ready = "ready\n"

// self is where machines find the program that this is.
const self = "/rig/self"

// plan is what the first process of a machine is told.
type plan struct {
	Number, Nodes int
	Binds         map[string]string
	NVMeBytes     int64
}

// Become is what a TestMain calls first. It returns, unless this process was started to be the first one of a machine.
func Become() {
	text := os.Getenv(isMachine)
	if text == "" {
		return
	}
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.machine()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// machine makes what the machine has, and then waits for all that end, also those whose parents did, for ever.
func (p *plan) machine() error {
	steps := []func() error{p.privately, p.root, p.site, p.enterRoot}
	if p.Number != Controller {
		steps = []func() error{p.disks}
	}
	for _, step := range append(steps, p.called) {
		if err := step(); err != nil {
			return err
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	fmt.Print(ready)
	for range ended { // orphans are ours: what comes by nsenter has its parent outside
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil) // no child is no error here
		}
	}
	return nil
}

func (p *plan) called() error {
	return os.NewSyscallError("sethostname", unix.Sethostname([]byte(MachineName(p.Number))))
}

func (p *plan) privately() error {
	return os.NewSyscallError("make mounts private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

// built is where the root of the cluster is put together, over what this machine has there.
const built = "/mnt"

// root makes a root in memory, with the programs of this machine to read, and nothing else of it.
func (p *plan) root() error {
	if err := mount("rig", built, "tmpfs", 0, "mode=755,size=80%"); err != nil {
		return err
	}
	for _, name := range []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "dev", "sys"} {
		if err := borrow("/"+name, built+"/"+name); err != nil {
			return err
		}
	}
	if err := mount("", built+"/usr", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	if _, err := os.Stat(built + "/dev/shm"); err == nil { // where jobs may write
		if err := mount("shm", built+"/dev/shm", "tmpfs", 0, "mode=1777"); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name string
		mode os.FileMode
	}{{"proc", 0o555}, {"run", 0o755}, {"tmp", 0o777 | os.ModeSticky}, {"root", 0o700}, {"home", 0o755}, {"project", 0o777 | os.ModeSticky}, {"local_nvme", 0o755}, {"etc", 0o755},
		{"opt", 0o755}, {"var", 0o755}, {"rig/etc", 0o755}, {"rig/work", 0o755}, {"rig/log", 0o755}, {"rig/munge", 0o755}} {
		if err := directory(built+"/"+d.name, d.mode); err != nil {
			return err
		}
	}
	if err := mount("etc", built+"/etc", "overlay", 0, "lowerdir=/etc,upperdir="+built+"/rig/etc,workdir="+built+"/rig/work"); err != nil {
		return err
	}
	for _, name := range []string{"slurm", "munge", "datamove"} { // of this machine's own site
		if err := os.RemoveAll(built + "/etc/" + name); err != nil {
			return err
		}
	}
	if err := errors.Join(os.WriteFile(built+self, nil, 0o755), mount("proc", built+"/proc", "proc", 0, "")); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return mount(program, built+self, "", unix.MS_BIND, "")
}

// borrow has a directory of this machine be seen in the cluster, or a link be the same there.
func borrow(from, to string) error {
	info, err := os.Lstat(from)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	return mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}

// site makes what the machines have of their own, and what a test brings.
func (p *plan) site() error {
	for n := range p.Nodes + 1 {
		disk := built + disk(n)
		if n == Controller {
			disk = built
		}
		for _, d := range []struct {
			name string
			mode os.FileMode
		}{{"var/log/slurm", 0o755}, {"var/lib/slurm", 0o755}, {"var/spool/slurmd", 0o755}, {"var/tmp", 0o777 | os.ModeSticky}, {"tmp", 0o777 | os.ModeSticky}, {"local_nvme", 0o755}} {
			if err := directory(filepath.Join(disk, d.name), d.mode); err != nil {
				return err
			}
		}
		if err := os.Symlink("/run", disk+"/var/run"); err != nil {
			return err
		}
		if err := mount("nvme", disk+"/local_nvme", "tmpfs", 0, "mode=755,size="+strconv.FormatInt(p.NVMeBytes, 10)); err != nil {
			return err
		}
	}
	for _, at := range slices.Sorted(maps.Keys(p.Binds)) {
		if err := bind(p.Binds[at], built+at); err != nil {
			return err
		}
	}
	return nil
}

// disk is what a node keeps when it is off.
func disk(n int) string { return "/rig/disk/" + MachineName(n) }

// bind has a file or a directory be seen at a place that may have to be made.
func bind(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(to); errors.Is(err, os.ErrNotExist) {
		err = os.Mkdir(to, 0o755)
		if !info.IsDir() {
			err = os.WriteFile(to, nil, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}

// enterRoot goes into the root that was made, and leaves the other.
func (p *plan) enterRoot() error {
	if err := os.Chdir(built); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount of the root", err)
	}
	return errors.Join(os.Chdir("/"), os.Symlink("/rig/munge", "/run/munge"))
}

// disks gives a node what is its own.
func (p *plan) disks() error {
	err := mount("proc", "/proc", "proc", 0, "")
	for _, name := range []string{"var", "tmp", "local_nvme"} {
		if err == nil {
			err = mount(filepath.Join(disk(p.Number), name), "/"+name, "", unix.MS_BIND|unix.MS_REC, "")
		}
	}
	if err == nil {
		err = mount("run", "/run", "tmpfs", 0, "mode=755,size=64m")
	}
	if err == nil {
		err = os.Symlink("/rig/munge", "/run/munge")
	}
	return err
}

func mount(what, at, kind string, flags uintptr, options string) error {
	if err := unix.Mount(what, at, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s: %w", at, err)
	}
	return nil
}

// directory makes one with exactly this mode.
func directory(dir string, mode os.FileMode) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}
