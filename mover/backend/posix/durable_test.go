package posix

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/test/must"
)

// stable is what of a tree in memory is on stable storage, for a place whose syncs come here: what a file or
// directory was when it, or the whole file system, was synced last. Nothing else survives a power cut.
type stable struct {
	t       *testing.T
	root    string
	foreign string // a directory that a sync of the whole system does not reach; "" is none

	mu    sync.Mutex
	nodes map[uint64]inodeSynced // by inode
}

// inodeSynced is a file or directory as it was synced.
type inodeSynced struct {
	facts, text string            // text is the content of a file, or the target of a link
	names       map[string]uint64 // of a directory: the inodes
}

// watch has the syncs of p come to a new stable tree, which begins as p is.
func watch(t *testing.T, p *Backend, foreign string) *stable {
	s := &stable{t: t, root: p.address, foreign: foreign, nodes: map[uint64]inodeSynced{}}
	s.all("")
	p.flush = flush{file: s.one, data: s.one, system: func(int) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.early()
		s.all(s.foreign)
		return nil
	}}
	return s
}

// one is fsync(2).
func (s *stable) one(fd int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.early()
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err == nil {
		s.note(path)
	}
	return err
}

// all notes every file and directory but those below except. mu is held.
func (s *stable) all(except string) {
	must.Do(s.t, filepath.WalkDir(s.root, func(path string, _ fs.DirEntry, err error) error {
		if except != "" && path == filepath.Join(s.root, except) {
			return fs.SkipDir
		}
		if err == nil {
			s.note(path)
		}
		return err
	}))
}

// note notes what is at a path. mu is held.
func (s *stable) note(path string) {
	n, inode, err := look(path)
	must.Do(s.t, err)
	s.nodes[inode] = n
	for name, below := range n.names {
		if st, err := os.Lstat(filepath.Join(path, name)); err == nil && !st.Mode().IsRegular() {
			if _, known := s.nodes[below]; !known { // it came with its name, and nothing in it
				n, _, err := look(filepath.Join(path, name))
				must.Do(s.t, err)
				clear(n.names)
				s.nodes[below] = n
			}
		}
	}
}

func look(path string) (n inodeSynced, inode uint64, err error) {
	st, err := os.Lstat(path)
	if err != nil {
		return n, 0, err
	}
	n.facts = fmt.Sprintf("%v %d", st.Mode(), st.ModTime().UnixNano())
	switch {
	case st.IsDir():
		n.names = map[string]uint64{}
		entries, err := os.ReadDir(path)
		if err != nil {
			return n, 0, err
		}
		for _, e := range entries {
			below, err := os.Lstat(filepath.Join(path, e.Name()))
			if err != nil {
				return n, 0, err
			}
			n.names[e.Name()] = below.Sys().(*syscall.Stat_t).Ino
		}
	case st.Mode().IsRegular():
		text, err := os.ReadFile(path)
		if err != nil {
			return n, 0, err
		}
		n.text = string(text)
	default:
		if n.text, err = os.Readlink(path); err != nil {
			return n, 0, err
		}
	}
	return n, st.Sys().(*syscall.Stat_t).Ino, nil
}

// early reports files whose final name can be seen before what is in them is stable: a file system may write the name
// first. mu is held.
func (s *stable) early() {
	must.Do(s.t, filepath.WalkDir(s.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(e.Name(), mover.TempPrefix) && e.IsDir() {
			return skip(err)
		}
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), mover.TempPrefix) {
			return nil
		}
		n, inode, err := look(path)
		if err == nil && s.nodes[inode].text != n.text {
			s.t.Errorf("%s has its name, and %q in it is not stable (%q is)", path, n.text, s.nodes[inode].text)
		}
		return err
	}))
}

func skip(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

// survives fails unless a power cut now leaves all that can be seen.
func (s *stable) survives(what string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]string{}
	must.Do(s.t, filepath.WalkDir(s.root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		n, _, err := look(path)
		seen[strings.TrimPrefix(path, s.root)] = n.facts + " " + n.text
		return err
	}))
	root := must.Get(os.Lstat(s.root))(s.t)
	left := map[string]string{}
	s.walk("", root.Sys().(*syscall.Stat_t).Ino, left)
	for _, path := range slices.Sorted(maps.Keys(seen)) {
		if got, is := left[path]; !is {
			s.t.Errorf("%s: a power cut takes %s", what, path)
		} else if got != seen[path] {
			s.t.Errorf("%s: a power cut leaves %s as %q, and it is %q", what, path, got, seen[path])
		}
		delete(left, path)
	}
	for path := range left {
		s.t.Errorf("%s: a power cut brings %s back", what, path)
	}
}

func (s *stable) walk(path string, inode uint64, into map[string]string) {
	n := s.nodes[inode]
	into[path] = n.facts + " " + n.text
	for name, below := range n.names {
		s.walk(path+"/"+name, below, into)
	}
}

// TestNothingDoneIsLost: what is in a file is stable before it has its name, and all that was published, or was made,
// updated or removed before a Sync, survives a power cut that takes whatever was not synced: where the whole file system is
// synced at once, where every file and directory is, and in a mount below.
func TestNothingDoneIsLost(t *testing.T) {
	for _, mode := range []struct {
		name    string
		durable fstype.Durability
		foreign string
	}{{"whole system", fstype.WholeSystem, ""}, {"each file", fstype.EachFile, ""}, {"a mount below", fstype.WholeSystem, "d"}} {
		t.Run(mode.name, func(t *testing.T) {
			dir := memoryDir(t)
			for _, d := range []string{"d", "d/e", "d/f", "old"} {
				must.Do(t, os.Mkdir(filepath.Join(dir, d), 0o755))
			}
			must.Do(t, os.WriteFile(dir+"/d/was", []byte("old"), 0o644))
			o := Options{Backup: dir + "/old"}
			if mode.foreign != "" {
				o.Backup = ""
			}
			p := opened(t, dir, o)
			p.system.Durable = mode.durable
			if mode.foreign != "" {
				p.plain, p.device = true, 0 // all below the root is of another device
			}
			done(t, p, watch(t, p, mode.foreign))
		})
	}
}

// done does everything that is reported as done.
func done(t *testing.T, p *Backend, s *stable) {
	ctx := t.Context()
	published := func(what string, batch ...mover.Draft) {
		t.Helper()
		for _, out := range p.Publish(ctx, batch) {
			must.Do(t, out.Err)
		}
		s.survives(what)
	}
	published("files", ready(t, p, "d/e/one", "1", nil), ready(t, p, "d/f/two", "2", nil), ready(t, p, "d/was", "new", nil))
	published("a directory", readyDir(t, p, "d/new", nil, func(d mover.Draft) []mover.Draft {
		in := readyDir(t, p, "d/new/sub", d, func(d mover.Draft) []mover.Draft {
			return []mover.Draft{ready(t, p, "d/new/sub/file", "3", d)}
		})
		return append(in, ready(t, p, "d/new/file", "4", d))
	})...)
	meanwhile := readyDir(t, p, "d/meanwhile", nil, func(d mover.Draft) []mover.Draft {
		return []mover.Draft{ready(t, p, "d/meanwhile/file", "5", d)}
	})
	must.Do(t, os.Mkdir(p.address+"/d/meanwhile", 0o700))
	published("a directory that is there meanwhile", meanwhile...)

	link := mover.Entry{Name: "d/e/link", Kind: mover.Symlink, Target: "one"}
	must.Do(t, publish(t, p, link, mover.Hints{}))
	s.survives("a symbolic link")
	must.Do(t, publish(t, p, fileEntry("d/f/same", "1"), mover.Hints{Link: "d/e/one"}))
	s.survives("a hard link")

	synced := func(what string, err error) {
		t.Helper()
		must.Do(t, err)
		must.Do(t, p.Sync(ctx))
		s.survives(what)
	}
	synced("mkdir", p.Mkdir(ctx, mover.Entry{Name: "d/made", Kind: mover.Dir}))
	synced("update of a file", p.Update(ctx, mover.Entry{Name: "d/f/two", Kind: mover.File, Known: mover.FactMode, Mode: 0o600}))
	synced("update of a directory", p.Update(ctx, mover.Entry{Name: "d/f", Kind: mover.Dir, Known: mover.FactMtime, Mtime: mover.Time{Sec: 7}}))
	synced("remove", p.Remove(ctx, statOf(t, p, "d/f/two"), testOwner))

	large, err := p.Draft(ctx, fileEntry("d/large", "12345678"), mover.Hints{By: testOwner})
	must.Do(t, err)
	_, err = large.WritePart(ctx, mover.Part{Length: 4}, backendtest.NewFeed([]byte("1234")))
	must.Do(t, err)
	f, _ := mover.As[*fileDraft](large)
	must.Do(t, f.Sync(ctx))
	n, inode, err := look(filepath.Join(p.address, f.seat, f.temp))
	must.Do(t, err)
	if s.nodes[inode].text != n.text {
		t.Errorf("a part of a draft that was synced: a power cut leaves %q of %q", s.nodes[inode].text, n.text)
	}
	must.Do(t, large.Close())
}
