package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	fuse "github.com/hanwen/go-fuse/v2/fs"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// slow is a directory whose traits are those of a file system that has stable storage.
type slow struct {
	*posix.Backend
	late, syncs bool
}

func (s slow) Capabilities() mover.Capabilities {
	t := s.Backend.Capabilities()
	t.CommitBytes, t.CommitEvery = 1<<30, time.Minute
	t.LateErrors, t.FinishSyncs = s.late, s.syncs
	return t
}

// copying is a copy of a few files, which can be done again.
type copying struct {
	source, target, state string
	names                 []string
	as                    func(*posix.Backend) mover.Backend // the target
}

func newCopying(t *testing.T, target string, as func(*posix.Backend) mover.Backend) *copying {
	t.Helper()
	c := &copying{t.TempDir(), target, t.TempDir(), []string{"dir/a", "dir/in/b", "dir/in/c", "file"}, as}
	for _, name := range c.names {
		file := filepath.Join(c.source, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte("content of "+name), 0o644)
		}
		must.Do(t, err)
	}
	return c
}

// run copies; what publishing comes to is given.
func (c *copying) run(t *testing.T, published faulty.Fault) (Report, error) {
	t.Helper()
	script := func(call faulty.Call) faulty.Fault {
		if call.Op == faulty.Publish {
			return published
		}
		return faulty.None
	}
	task, err := Start(t.Context(), Request{
		Work: Copy, Source: location.Location{Scheme: location.POSIX, Path: c.source}, Target: location.Location{Scheme: location.POSIX, Path: c.target},
		StateDir: c.state, Reflink: ReflinkNever,
	}, func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		p, err := posix.Open(l.Path, posix.Options{Create: o.Write})
		if err != nil || !o.Write {
			return p, err
		}
		return faulty.New(c.as(p), faulty.Options{Script: script}), nil
	})
	must.Do(t, err)
	return task.Wait()
}

// again lets a run end before anything is published, and then another one do its work,
// which moves so many files itself.
func (c *copying) again(t *testing.T, meanwhile func(), moved int64) {
	t.Helper()
	if _, err := c.run(t, faulty.Unreachable); err == nil {
		t.Fatal("the target could not be reached, and the run says nothing")
	}
	meanwhile()
	report, err := c.run(t, faulty.None)
	if err != nil || report.Files != moved || report.Files+report.Kept < int64(len(c.names)) {
		t.Errorf("the second run: %v, %d files moved and %d entries kept; want %d moved", err, report.Files, report.Kept, moved)
	}
	for _, name := range c.names {
		if got, err := os.ReadFile(filepath.Join(c.target, name)); err != nil || string(got) != "content of "+name {
			t.Errorf("%s is %q: %v", name, got, err)
		}
	}
	for _, name := range below(t, c.target) {
		if strings.Contains(name, ".datamove-") {
			t.Errorf("%s is left", name)
		}
	}
}

// TestLostInStagedDirectory: a run ends when it has finished what it was to publish, and
// where a finished draft may lose bytes without a word, the target loses some. Files are read
// before they count. Of what is in a directory that was built under a temporary name no
// checksums are recorded, so all of it is moved again, unless Finish has synced it.
//
//safety:3 a file in a directory that was built under a temporary name is lost after a kill, where only Publish syncs and nothing tells of a lost disk (ext4, xfs and btrfs with kernels before 6.8): all of that directory is moved again
func TestLostInStagedDirectory(t *testing.T) {
	for _, row := range []struct {
		name        string
		late, syncs bool
		loses       []string
		moved       int64 // by the second run
	}{
		{"nothing is lost unseen", false, false, nil, 0},
		{"what is finished is safe", true, true, nil, 0},
		{"nothing was lost", true, false, nil, 3},
		{"a file two directories down", true, false, []string{"dir/in/b"}, 3},
		{"a file by itself, too", true, false, []string{"dir/a", "file"}, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCopying(t, t.TempDir(), func(p *posix.Backend) mover.Backend { return slow{p, row.late, row.syncs} })
			c.again(t, func() { lose(t, c.target, row.loses) }, row.moved)
		})
	}
}

// lose makes zeros of the contents of files under temporary names. Sizes and times stay.
func lose(t *testing.T, target string, names []string) {
	t.Helper()
	lost := 0
	for _, file := range below(t, target) {
		content, err := os.ReadFile(file)
		if errors.Is(err, syscall.EISDIR) {
			continue
		}
		must.Do(t, err)
		name := strings.TrimPrefix(string(content), "content of ")
		if !slices.Contains(names, name) {
			continue
		}
		if file == filepath.Join(target, name) {
			t.Fatalf("%s is published", name)
		}
		lost++
		was, err := os.Stat(file)
		if err == nil {
			err = os.WriteFile(file, make([]byte, len(content)), 0o644)
		}
		if err == nil {
			err = os.Chtimes(file, time.Time{}, was.ModTime())
		}
		must.Do(t, err)
	}
	if lost != len(names) {
		t.Fatalf("of %q, %d were there", names, lost)
	}
}

// below is every path below a directory.
func below(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			all = append(all, path)
		}
		return err
	})
	must.Do(t, err)
	return all
}

// noted is a directory of a file system that notes what was synced.
type noted struct {
	*fuse.LoopbackNode
	synced *sync.Map // by path
}

func (n *noted) WrapChild(_ context.Context, ops fuse.InodeEmbedder) fuse.InodeEmbedder {
	return &noted{ops.(*fuse.LoopbackNode), n.synced}
}

// Fsync implements fs.NodeFsyncer.
func (n *noted) Fsync(context.Context, fuse.FileHandle, uint32) syscall.Errno {
	n.synced.Store(n.Path(nil), true)
	return 0
}

// OpendirHandle implements fs.NodeOpendirHandler: its handles leave syncs to the node.
func (n *noted) OpendirHandle(ctx context.Context, flags uint32) (fuse.FileHandle, uint32, syscall.Errno) {
	h, fuseFlags, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return struct {
		fuse.FileReaddirenter
		fuse.FileSeekdirer
		fuse.FileReleasedirer
	}{h.(fuse.FileReaddirenter), h.(fuse.FileSeekdirer), h.(fuse.FileReleasedirer)}, fuseFlags, 0
}

// TestFinishSyncs: where each file is synced by itself, everything in a directory under a
// temporary name is on stable storage when the journal knows of it, and a killed run's is
// believed.
//
//safety:3 on FUSE, as on NFS and Lustre, each file and directory is synced before the journal knows of it: what a killed run has finished is there
func TestFinishSyncs(t *testing.T) {
	under, mount := t.TempDir(), t.TempDir()
	root := must.Get(fuse.NewLoopbackRoot(under))(t)
	synced := new(sync.Map)
	mountFUSE(t, mount, &noted{root.(*fuse.LoopbackNode), synced})
	c := newCopying(t, mount, func(p *posix.Backend) mover.Backend { return p })
	c.again(t, func() {
		finished := below(t, under)
		if len(finished) != len(c.names)+2 { // with the directories
			t.Errorf("what waits to be published: %q", finished)
		}
		for _, path := range finished {
			if name, err := filepath.Rel(under, path); err != nil || !strings.HasPrefix(name, ".datamove-") {
				t.Errorf("%s is not expected yet: %v", path, err)
			} else if _, ok := synced.Load(name); !ok {
				t.Errorf("%s was not synced", name)
			}
		}
	}, 0)
}
