package hostile

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// A source that is not what it was when it was synchronised last never empties the
// target.
//
//safety:4 missing, empty and unmounted sources, and one with an I/O error
func TestDoubtfulSourceDeletesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(t *testing.T, source string)
		exit  int // -1 is any: a file, or a link, may be what is meant
	}{
		"missing": {func(t *testing.T, source string) { must.Do(t, os.RemoveAll(source)) }, 3},
		"empty": {func(t *testing.T, source string) {
			must.Do(t, os.RemoveAll(source))
			must.Do(t, os.Mkdir(source, 0o755))
		}, 7},
		"a file": {func(t *testing.T, source string) {
			must.Do(t, os.RemoveAll(source))
			must.Do(t, os.WriteFile(source, nil, 0o644))
		}, -1},
		"a link to nowhere": {func(t *testing.T, source string) {
			must.Do(t, os.RemoveAll(source))
			must.Do(t, os.Symlink("/nowhere", source))
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			base := rig.Memory(t)
			source, target := filepath.Join(base, "source"), filepath.Join(base, "target")
			rig.Make(t, source, rig.Shape{Seed: 1, Small: 50})
			p := rig.New(t)
			p.Do(t, 0, "sync", "--delete", "-q", source, target)
			was, _ := rig.Look(t, target)
			row.spoil(t, source)
			r := p.Start(t, "sync", "--delete", "-q", source, target).Wait()
			if row.exit >= 0 && r.Exit != row.exit {
				t.Errorf("exit code %d, want %d: %s", r.Exit, row.exit, r.Stderr())
			}
			if lost := lost(t, was, target); len(lost) > 0 {
				t.Errorf("deleted: %q", lost)
			}
		})
	}
}

// lost returns what is not in dir any more.
func lost(t *testing.T, was rig.Tree, dir string) (names []string) {
	now, _ := rig.Look(t, dir)
	for name := range was {
		if _, there := now[name]; !there {
			names = append(names, name)
		}
	}
	return names
}

// A file system that is not mounted leaves a directory that is empty, or has what
// somebody wrote into it by mistake.
//
//safety:4 with TestDoubtfulSourceDeletesNothing
func TestUnmountedSourceDeletesNothing(t *testing.T) {
	for name, below := range map[string]bool{"empty below": false, "something below": true} {
		t.Run(name, func(t *testing.T) {
			source := rig.Tmpfs(t, "size=16m")
			target := filepath.Join(rig.Memory(t), "target")
			rig.Make(t, source, rig.Shape{Seed: 1, Small: 50})
			p := rig.New(t)
			p.Do(t, 0, "sync", "--delete", "-q", source, target)
			was, _ := rig.Look(t, target)
			must.Do(t, unix.Unmount(source, 0))
			if below {
				write(t, source, "somebody's file", "x")
			}
			r := p.Do(t, 7, "sync", "--delete", "-q", source, target)
			if !strings.Contains(r.Stderr(), "mounted") {
				t.Errorf("it does not ask whether the source is mounted: %s", r.Stderr())
			}
			if lost := lost(t, was, target); len(lost) > 0 {
				t.Errorf("deleted: %q", lost)
			}
		})
	}
}

// folder is a directory whose listing or files fail.
type folder struct {
	*fs.LoopbackNode
	broken string // name of the directory, or file, that fails with EIO
}

// WrapChild makes every node below one of ours.
func (f *folder) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &folder{ops.(*fs.LoopbackNode), f.broken}
}

func (f *folder) isBroken() bool { return filepath.Base(f.Path(f.Root())) == f.broken }

// OpendirHandle implements fs.NodeOpendirHandler.
func (f *folder) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if f.isBroken() {
		return nil, 0, syscall.EIO
	}
	return f.LoopbackNode.OpendirHandle(ctx, flags)
}

// Open implements fs.NodeOpener.
func (f *folder) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if f.isBroken() {
		return nil, 0, syscall.EIO
	}
	return f.LoopbackNode.Open(ctx, flags)
}

// failing mounts dir again, with one name that fails.
func failing(t *testing.T, dir, broken string) string {
	t.Helper()
	rig.Root(t)
	at := t.TempDir()
	root, err := fs.NewLoopbackRoot(dir)
	must.Do(t, err)
	node := &folder{root.(*fs.LoopbackNode), broken}
	node.RootData.RootNode = node
	server, err := fs.Mount(at, node, &fs.Options{MountOptions: fuse.MountOptions{FsName: "failing", DirectMount: true}})
	if err != nil {
		t.Skip("no FUSE: ", err)
	}
	t.Cleanup(func() {
		must.Tell(t, server.Unmount())
	})
	return at
}

// A directory that can not be listed, or a file that can not be read, makes the
// result partial. What is behind it is not known to be gone, and nothing is deleted.
//
//safety:4 with TestDoubtfulSourceDeletesNothing
func TestFailingSourceDeletesNothing(t *testing.T) {
	for _, broken := range []string{"001", "file-00007.bin"} {
		t.Run(broken, func(t *testing.T) {
			source, target := rig.Memory(t), filepath.Join(rig.Memory(t), "target")
			rig.Make(t, source, rig.Shape{Seed: 1, Small: 120})
			p := rig.New(t)
			view := failing(t, source, "nothing")
			p.Do(t, 0, "sync", "--delete", "-q", view, target)
			was, _ := rig.Look(t, target)
			must.Do(t, os.RemoveAll(filepath.Join(source, "small", "002")))
			write(t, source, "small/000/file-00007.bin", "changed")
			fails := failing(t, source, broken)
			r := p.Do(t, 6, "sync", "--delete", "-q", fails, target)
			if !strings.Contains(r.Stderr(), broken) {
				t.Errorf("it does not name %s: %s", broken, r.Stderr())
			}
			if lost := lost(t, was, target); len(lost) > 0 {
				t.Errorf("deleted: %q", lost)
			}
		})
	}
}
