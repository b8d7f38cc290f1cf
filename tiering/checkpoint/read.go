package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/beneath"
)

// Limits bound what is read.
type Limits struct {
	Entries int // 0 is 100,000
	Depth   int // of directories; 0 is 16

	// Exported is when an export to this store began that has ended: all that was written before is there, in whatever order it came. Zero is none.
	Exported time.Time
}

const (
	entriesMost = 100_000
	depthMost   = 16
	textMost    = 4 << 10   // bytes of a tracker, or of where a link leads
	textsMost   = 64        // files that could be trackers
	commitsMost = 128 << 20 // bytes of commits in one look
	chunk       = 1000      // names at a time
)

// Read returns what is in a directory, and in those below. More than the limits allow is mover.ErrRefused. What comes or
// goes meanwhile may be there or not.
func Read(ctx context.Context, dir *os.File, l Limits) (Tree, error) {
	r := newReader(ctx, l)
	err := r.read(dir, "", 1, true)
	return r.tree(), err
}

// reader collects a tree.
type reader struct {
	ctx   context.Context
	left  int // entries that may come still
	depth int
	found Tree
	spent int64 // bytes of commits
}

func newReader(ctx context.Context, l Limits) *reader {
	r := &reader{ctx: ctx, left: l.Entries, depth: l.Depth, found: Tree{Texts: map[string]string{}, Commits: map[string]Commit{}}}
	if r.left == 0 {
		r.left = entriesMost
	}
	if r.depth == 0 {
		r.depth = depthMost
	}
	return r
}

func (r *reader) tree() Tree {
	slices.SortFunc(r.found.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return r.found
}

// read reads a directory, and those in it when deep.
func (r *reader) read(dir *os.File, prefix string, depth int, deep bool) error {
	if depth > r.depth {
		return fmt.Errorf("%w: %s: directories lie more than %d deep", mover.ErrRefused, mover.Printable(prefix), r.depth)
	}
	var dirs []string
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		names, err := dir.Readdirnames(chunk)
		for _, name := range names {
			e, err := r.entry(dir, prefix, name)
			if err != nil {
				return err
			}
			if e.Kind == Dir {
				dirs = append(dirs, name)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) { // it was removed meanwhile
			break
		}
		if err != nil {
			return err
		}
	}
	if !deep {
		return nil
	}
	for _, name := range dirs {
		if err := r.enter(dir, prefix, name, depth); err != nil {
			return err
		}
	}
	return nil
}

// enter reads a directory in another one. One that is gone, or was exchanged, is left out: the next look sees it.
func (r *reader) enter(at *os.File, prefix, name string, depth int) error {
	fd, err := open(at, name, unix.O_DIRECTORY)
	if err != nil {
		return passing(err)
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	return r.read(dir, prefix+name+"/", depth+1, true)
}

// entry looks at a name. A file system that a user has mounted there is not asked: it may not answer.
func (r *reader) entry(dir *os.File, prefix, name string) (e Entry, err error) {
	if strings.HasPrefix(name, mover.TempPrefix) {
		return e, nil // ours
	}
	if r.left--; r.left < 0 {
		return e, fmt.Errorf("%w: there are more files in it than one look may see", mover.ErrRefused)
	}
	var st unix.Statx_t
	err = unix.Statx(int(dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st)
	if err != nil {
		return e, passing(err)
	}
	e = Entry{Name: prefix + name, Kind: kindOf(&st), Size: int64(st.Size), Inode: st.Ino, Modified: nanos(st.Mtime), Changed: nanos(st.Ctime)}
	if prefix == "" && len(r.found.Texts) < textsMost {
		if text, ok := r.text(dir, name, e); ok {
			r.found.Texts[name] = text
		}
	}
	if set, isSet := strings.CutSuffix(prefix, "/"); isSet && name == Committed && e.Kind == File && !strings.Contains(set, "/") {
		r.found.Commits[set] = r.commit(dir, name, e)
	}
	if set, beside := strings.CutSuffix(name, besideIt); beside && prefix == "" && e.Kind == File {
		r.found.Commits[set] = r.commit(dir, name, e)
	}
	r.found.Entries = append(r.found.Entries, e)
	return e, nil
}

// commit reads what says that a set is complete. One that can not be read is damaged.
func (r *reader) commit(dir *os.File, name string, e Entry) Commit {
	if r.spent += e.Size; e.Size >= commitMost || r.spent > commitsMost {
		return Commit{Torn: torn}
	}
	b := make([]byte, e.Size)
	n, err := peek(dir, name, 0, b)
	if err != nil || n < len(b) {
		return Commit{Torn: torn}
	}
	return ParseCommit(b)
}

// peek reads a part of a file in a directory, or below it: no link is followed, and what is no file is not read. It reads less at the end of the file.
func peek(dir *os.File, name string, off int64, p []byte) (n int, err error) {
	fd, err := open(dir, name, unix.O_NONBLOCK)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, unix.EINVAL
	}
	if n, err = f.ReadAt(p, off); errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func kindOf(st *unix.Statx_t) Kind {
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return Other
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFREG:
		return File
	case unix.S_IFLNK:
		return Link
	}
	return Other
}

// text reads what could be a tracker: a link, or a small file of a name that one has.
func (r *reader) text(dir *os.File, name string, e Entry) (text string, ok bool) {
	b := make([]byte, textMost)
	switch {
	case e.Kind == Link:
		n, err := unix.Readlinkat(int(dir.Fd()), name, b)
		return string(b[:max(n, 0)]), err == nil && n < len(b)
	case e.Kind == File && e.Size < textMost && tracks(name):
		n, err := peek(dir, name, 0, b)
		return string(b[:n]), err == nil && n < len(b)
	}
	return "", false
}

// modified is when a file in a directory, or below it, was written.
func modified(at *os.File, name string) (when int64, is bool) {
	fd, err := beneath.SameMount.Open(int(at.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, false
	}
	return st.Mtim.Nano(), true
}

// tracks says whether some profile has a tracker of that name.
func tracks(name string) bool {
	for _, f := range forms {
		if slices.Contains(f.trackers, name) {
			return true
		}
	}
	return false
}

// open opens a name in a directory: no link, no other file system, nothing above. A look is no use: it leaves the time of access as it is, where that
// may be asked for (by the owner, and root).
func open(at *os.File, name string, flags int) (fd int, err error) {
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW
	if fd, err = beneath.SameMount.Open(int(at.Fd()), name, flags|unix.O_NOATIME); err == unix.EPERM {
		fd, err = beneath.SameMount.Open(int(at.Fd()), name, flags)
	}
	return fd, err
}

// passing are errors of what is not there any more, or is something else by now: nil. Others are told.
func passing(err error) error {
	switch err {
	case unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.EXDEV, unix.EAGAIN:
		return nil
	}
	return err
}

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }
