package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"datamove.dev/test/vm/wire"
)

// Guest is a machine and what it runs. The zero value of all but Init and Run works.
type Guest struct {
	Init       string   // the static program test/vm/init; see Build
	Release    string   // of the kernel in /boot and /lib/modules; "" is the newest there
	Modules    []string // names, like ext4; what they depend on comes with them
	Programs   []string // of the host, by name or path; their libraries come with them
	Files      []File
	Disks      []Disk // /dev/vda, /dev/vdb and so on, in this order
	Network    bool   // eth0, to be 10.0.2.15/24 behind 10.0.2.2: qemu connects, on the host, to what the guest does
	Mounts     []wire.Mount
	Env        []string // of every command
	Run        []wire.Command
	MemoryMiB  int // 0 is 1536
	Processors int // 0 is 2
}

// File is something to put into the guest.
type File struct {
	Path    string      // in the guest
	From    string      // a file of the host; "" for Content
	Mode    fs.FileMode // 0 is 0755 for a file of the host, and 0644 for Content
	Content string
}

// Disk is a block device of the guest.
type Disk struct {
	File     string // a raw image
	Socket   string // instead of File: the unix socket of an NBD server, whose default export is used
	ReadOnly bool
}

// DiskName is the device of the i-th disk in the guest.
func DiskName(i int) string { return "/dev/vd" + string(rune('a'+i)) }

// always are the modules without which a guest has no disks and tells nothing.
var always = []string{"virtio_pci", "virtio_console", "virtio_blk"}

// boot is where Debian keeps its kernels.
const boot = "/boot"

// ErrMissing says that the machine lacks what a guest needs.
var ErrMissing = errors.New("is missing (test/setup vm installs it)")

// kernel returns the release and the image of a kernel.
func (g *Guest) kernel() (release, image string, err error) {
	if g.Release != "" {
		return g.Release, filepath.Join(boot, "vmlinuz-"+g.Release), nil
	}
	dirs, err := os.ReadDir("/lib/modules")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	slices.SortFunc(dirs, func(a, b fs.DirEntry) int { return compareReleases(b.Name(), a.Name()) })
	for _, dir := range dirs {
		image := filepath.Join(boot, "vmlinuz-"+dir.Name())
		if _, err := os.Stat(image); err == nil {
			return dir.Name(), image, nil
		}
	}
	return "", "", fmt.Errorf("a kernel with modules below %s %w", boot, ErrMissing)
}

// compareReleases orders releases like 6.1.0-9-amd64 by their numbers, and then as text.
func compareReleases(a, b string) int {
	numbers := func(s string) (all []int) {
		for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(word) // what is too large for a release is any number
			all = append(all, n)
		}
		return all
	}
	return cmp.Or(slices.Compare(numbers(a), numbers(b)), strings.Compare(a, b))
}

// Result is what became of the commands. A command that was not run has none.
type Result struct {
	Outcomes []Outcome
	Failed   string // why the guest did not come to its commands, or to their end
	Console  string // what the kernel and the init program said
}

// Outcome is what a command said and how it ended.
type Outcome struct {
	Stdout, Stderr string
	Ended          bool
	wire.Exit
}

// Err is nil when all commands were run and ended with 0.
func (r *Result) Err() error {
	if r.Failed != "" {
		return errors.New(r.Failed)
	}
	for i, o := range r.Outcomes {
		switch {
		case !o.Ended:
			return fmt.Errorf("command %d did not end", i)
		case o.Code != 0:
			return fmt.Errorf("command %d ended with %d: %s", i, o.Code, o.Reason)
		}
	}
	return nil
}

// Start boots the machine. It ends with ctx.
func (g *Guest) Start(ctx context.Context) (*Machine, error) {
	release, image, err := g.kernel()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "datamove-vm-")
	if err != nil {
		return nil, err
	}
	if err := g.pack(filepath.Join(dir, initramfs), release); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	m, err := start(ctx, dir, image, g)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return m, nil
}

// pack writes the guest's first file system.
func (g *Guest) pack(file, release string) error {
	names := slices.Concat(always, g.Modules)
	if g.Network {
		names = append(names, "virtio_net")
	}
	modules, err := loadOrder(filepath.Join("/lib/modules", release), names)
	if err != nil {
		return err
	}
	a, err := newArchive(file)
	if err != nil {
		return err
	}
	job := wire.Job{Mounts: g.Mounts, Env: g.Env, Commands: g.Run}
	for _, m := range modules {
		in := "/lib/modules/" + filepath.Base(m.file)
		a.copy(in, m.file, 0o644)
		job.Modules = append(job.Modules, wire.Module{Path: in, Soft: m.soft})
	}
	a.copy("/init", g.Init, 0o755)
	a.links()
	for _, p := range g.Programs {
		a.program(p)
	}
	for _, f := range g.Files {
		a.file(f)
	}
	a.json(wire.JobFile, job)
	return a.close()
}
