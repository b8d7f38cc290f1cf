package root

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
)

// fakeLustre answers for the files below a directory as a Lustre would: it keeps layouts,
// projects and quotas beside the names. Package lustre/client is what really asks one.
type fakeLustre struct {
	root    string
	cluster lustre.Cluster
	lacks   bool                 // it has no layouts and quotas
	ignores bool                 // it says yes to a layout and does not do it
	as      func(*lustre.System) // makes it another file system; nil leaves it one

	mu       sync.Mutex // guards what is below
	layouts  map[string]lustre.Layout
	projects map[string]lustre.Project
	quotas   map[lustre.Project]lustre.Quota
	targets  []lustre.Target
	dirs     map[string]lustre.Striping
}

// newFakeLustre is a file system of four OSTs, two of them in the pool flash.
func newFakeLustre(root string) *fakeLustre {
	c := lustre.Cluster{Name: "lab", Version: "2.15.8", Pools: map[string][]int{"flash": {0, 1}},
		Can:     lustre.Capabilities{Progressive: true, OnMDT: true, Overstripes: true},
		Default: plainLayout(1, 1<<20, "")}
	for i := range 4 {
		c.OSTs = append(c.OSTs, lustre.Target{Kind: lustre.OST, Index: i, Name: fmt.Sprintf("lab-OST%04x_UUID", i), TotalBytes: 100 << 40, FreeBytes: 60 << 40})
	}
	c.MDTs = []lustre.Target{{Kind: lustre.MDT, Name: "lab-MDT0000_UUID", TotalBytes: 4 << 40, FreeBytes: 3 << 40, TotalFiles: 1e9, FreeFiles: 9e8}}
	return &fakeLustre{root: root, cluster: c, targets: append(append([]lustre.Target(nil), c.OSTs...), c.MDTs...), layouts: map[string]lustre.Layout{}, dirs: map[string]lustre.Striping{},
		projects: map[string]lustre.Project{}, quotas: map[lustre.Project]lustre.Quota{}}
}

func plainLayout(count int, size int64, pool string) lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: size, StripeCount: count, FirstTarget: lustre.AnyTarget, Pool: pool}}}
}

// open is what app.openSystem is set to.
func (f *fakeLustre) open(path string) (*cli.Mounted, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	s := &lustre.System{Kind: lustre.IsLustre, Type: "lustre", Name: "lab", Mount: f.root, Lacks: map[lustre.Question]string{}}
	if !f.lacks {
		s.Layout, s.Quota, s.Usage = f, f, f
	}
	if f.as != nil {
		f.as(s)
	}
	return &cli.Mounted{System: s, Path: path, FD: int(file.Fd()), Dir: info.IsDir(), CloseFunc: file.Close}, nil
}

// name is the path of a descriptor.
func (f *fakeLustre) name(fd int) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		panic(err)
	}
	return path
}

func (f *fakeLustre) Layout(_ context.Context, fd int) (lustre.Layout, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.layouts[f.name(fd)]
	if !ok {
		return l, lustre.ErrInherited
	}
	return l, nil
}

func (f *fakeLustre) SetDefault(_ context.Context, dir int, l lustre.Layout) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ignores:
		return fmt.Errorf("%w: stripe count 1 instead of %d", lustre.ErrNotApplied, l.Components[0].StripeCount)
	case l.IsZero():
		delete(f.layouts, f.name(dir))
	default:
		f.layouts[f.name(dir)] = l
	}
	return nil
}

func (f *fakeLustre) Create(_ context.Context, dir int, base string, flags int, mode uint32, l lustre.Layout) (int, error) {
	fd, err := unix.Openat(dir, base, flags|unix.O_CREAT|unix.O_CLOEXEC, mode)
	if err != nil {
		return -1, err
	}
	if f.ignores {
		return -1, errors.Join(lustre.ErrNotApplied, unix.Unlinkat(dir, base, 0), unix.Close(fd))
	}
	for i := range l.Components {
		c := &l.Components[i]
		c.StripeCount = min(c.StripeCount, len(f.cluster.OSTs))
		if c.Start == 0 && c.Pattern != lustre.OnMDT {
			c.Flags |= lustre.Initialised
			for n := range c.StripeCount {
				c.Objects = append(c.Objects, lustre.Object{Target: n})
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.layouts[filepath.Join(f.name(dir), base)] = l
	return fd, nil
}

// Restripe leaves a file alone whose name begins with open, or that is released; with
// Block it waits for nobody here.
func (f *fakeLustre) Restripe(_ context.Context, dir int, base string, to lustre.Layout, o lustre.RestripeOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := filepath.Join(f.name(dir), base)
	old := f.layouts[path]
	switch {
	case old.Released():
		return lustre.ErrReleased
	case strings.HasPrefix(base, "open") && !o.Block:
		return lustre.ErrInUse
	case f.ignores:
		return lustre.ErrNotApplied
	}
	o.Progress(1, 1)
	f.layouts[path] = to
	return nil
}

func (f *fakeLustre) Striping(_ context.Context, dir int) (lustre.Striping, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dirs[f.name(dir)], nil
}

func (f *fakeLustre) MakeDir(_ context.Context, dir int, base string, mode uint32, s lustre.Striping) error {
	if err := unix.Mkdirat(dir, base, mode); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirs[filepath.Join(f.name(dir), base)] = s
	return nil
}

func (f *fakeLustre) Cluster(context.Context, int) (lustre.Cluster, error) { return f.cluster, nil }

func (f *fakeLustre) Targets(context.Context, int) ([]lustre.Target, error) { return f.targets, nil }

func (f *fakeLustre) Project(_ context.Context, fd int) (lustre.Project, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path := f.name(fd); path != "/"; path = filepath.Dir(path) {
		if p, ok := f.projects[path]; ok {
			return p, nil
		}
	}
	return lustre.Project{}, nil
}

func (f *fakeLustre) SetProject(_ context.Context, dir int, p lustre.Project) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.Inherit = true
	f.projects[f.name(dir)] = p
	return nil
}

func (f *fakeLustre) Quota(_ context.Context, _ int, p lustre.Project) (lustre.Quota, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.quotas[lustre.Project{ID: p.ID}]
	q.Project, q.CountsFiles, q.HasSoft, q.Enforced = p, true, true, true
	return q, nil
}

func (f *fakeLustre) SetQuota(_ context.Context, _ int, p lustre.Project, l lustre.Limits) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.ID == 666 {
		return fmt.Errorf("quota of project %d: %w: only root may set it (CAP_SYS_ADMIN)", p.ID, fs.ErrPermission)
	}
	q := f.quotas[lustre.Project{ID: p.ID}]
	q.Limits = l
	f.quotas[lustre.Project{ID: p.ID}] = q
	return nil
}
