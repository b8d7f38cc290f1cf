package rig

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// Node is one entry of a tree. It is comparable: equal nodes are equal entries.
type Node struct {
	Type     fs.FileMode // only the type bits
	Mode     uint32      // 0o7777; 0 of symlinks
	UID, GID uint32
	Mtime    int64  // ns
	Atime    int64  // ns, of files only: looking at others changes it
	Size     int64  // of files
	Sum      uint64 // of the content, comparable within this process
	Sparse   bool   // much of it is not stored
	Target   string // of symlinks
	Rdev     uint64
	Xattrs   string
	Twin     string // the first name of the same file, when it has several
}

// Tree is what lies below a directory, by name; "." is the directory itself.
type Tree map[string]Node

// Temporary reports whether a name is one that an unfinished run leaves.
func Temporary(name string) bool {
	for seg := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(seg, ".datamove-") {
			return true
		}
	}
	return false
}

// Look reads a whole tree. Temporary names are left out, and returned beside it.
func Look(t testing.TB, dir string) (Tree, []string) {
	t.Helper()
	tree, temps := Tree{}, []string(nil)
	first := map[[2]uint64]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if Temporary(name) {
			temps = append(temps, name)
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		node, err := look(path, &st)
		if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			id := [2]uint64{st.Dev, st.Ino}
			if first[id] == "" {
				first[id] = name
			}
			node.Twin = first[id]
		}
		tree[name] = node
		return err
	})
	must.Do(t, err)
	return tree, temps
}

func look(path string, st *unix.Stat_t) (n Node, err error) {
	n = Node{Type: typeOf(st.Mode), Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Mtime: st.Mtim.Nano()}
	switch n.Type {
	case 0:
		n.Size, n.Atime = st.Size, st.Atim.Nano()
		n.Sparse = st.Blocks*512 < st.Size/2
		if n.Sum, err = sum(path); err != nil {
			return n, err
		}
	case fs.ModeSymlink:
		n.Mode = 0
		if n.Target, err = os.Readlink(path); err != nil {
			return n, err
		}
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		n.Rdev = st.Rdev
	}
	n.Xattrs, err = xattrs(path)
	return n, err
}

func typeOf(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR:
		return fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		return fs.ModeDevice
	}
	return 0
}

// seed makes sums of this process. They are as good as any for telling contents apart, and,
// unlike SHA-256, fast also where the processor is emulated.
var seed = maphash.MakeSeed()

// sum reads a file without touching its atime where we may.
func sum(path string) (s uint64, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOATIME|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.EPERM) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return s, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var h maphash.Hash
	h.SetSeed(seed)
	_, err = io.Copy(&h, f)
	return h.Sum64(), err
}

// xattrs is all extended attributes in one text.
func xattrs(path string) (string, error) {
	list := make([]byte, 16<<10)
	n, err := unix.Llistxattr(path, list)
	if errors.Is(err, unix.EOPNOTSUPP) || n == 0 && err == nil {
		return "", nil
	}
	if err != nil {
		return "", &fs.PathError{Op: "listxattr", Path: path, Err: err}
	}
	names := strings.Split(strings.TrimRight(string(list[:n]), "\x00"), "\x00")
	slices.Sort(names)
	var all strings.Builder
	value := make([]byte, 64<<10)
	for _, name := range names {
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return "", &fs.PathError{Op: "getxattr", Path: path, Err: err}
		}
		fmt.Fprintf(&all, "%s=%x\n", name, value[:n])
	}
	return all.String(), nil
}

// Differences names what is not equal, at most 20 lines of it; none is equal.
func Differences(want, got Tree) []string {
	var all []string
	for name, w := range want {
		g, ok := got[name]
		switch {
		case !ok:
			all = append(all, fmt.Sprintf("%q is missing", name))
		case g != w:
			all = append(all, fmt.Sprintf("%q: want %v\n\tgot  %v", name, w, g))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			all = append(all, fmt.Sprintf("%q should not be there", name))
		}
	}
	sort.Strings(all)
	return all[:min(len(all), 20)]
}

// String is a node in one line.
func (n Node) String() string {
	return fmt.Sprintf("%v %04o %d:%d %d bytes (%016x) mtime %d atime %d target %q device %d sparse %v twin %q xattrs %q",
		n.Type, n.Mode, n.UID, n.GID, n.Size, n.Sum, n.Mtime, n.Atime, n.Target, n.Rdev, n.Sparse, n.Twin, n.Xattrs)
}

// Time is the mtime of an entry.
func (tree Tree) Time(name string) time.Time { return time.Unix(0, tree[name].Mtime) }

// Content is what a reader sees of a file, a link or a special file, and what
// has to be there from the first moment; Twin and atime are not.
func (n Node) Content() Node {
	n.Twin, n.Atime, n.Sparse = "", 0, false
	return n
}

func (tree Tree) forgetAtimes() {
	for name, n := range tree {
		n.Atime = 0
		tree[name] = n
	}
}

// SameTrees fails the test when two directories are not equal, by our own eyes and
// by rsync's where there is one. The times of the last access are looked at where
// everything was copied: alone they are no reason to touch a file.
func SameTrees(t testing.TB, source, target string, atimes bool) {
	t.Helper()
	want, _ := Look(t, source)
	got, temps := Look(t, target)
	if !atimes {
		want.forgetAtimes()
		got.forgetAtimes()
	}
	for _, line := range Differences(want, got) {
		t.Error(line)
	}
	if len(temps) > 0 {
		t.Errorf("temporary names are left: %q", temps[:min(len(temps), 10)])
	}
	if _, err := exec.LookPath("rsync"); err != nil || t.Failed() {
		return
	}
	out, err := exec.Command("rsync", "-aHAXni", "--open-noatime", "--checksum", "--delete", "--modify-window=-1", source+"/", target+"/").CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("rsync finds differences (%v):\n%s", err, tail(string(out)))
	}
}
