package client

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// content is what a layout leads to. It is what changes places, and with it what clients
// have not written yet.
type content struct {
	data    []byte
	version uint64
	cached  []cachedWrite
}

type cachedWrite struct {
	off  int
	data []byte
}

// cache is a write by another client that it keeps to itself.
func (f *fakeFiles) cache(n *inode, off int, data string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.state(n).content
	c.cached = append(c.cached, cachedWrite{off, []byte(data)})
}

// closed is that the other client closes the file: its MDT hears then that it has changed.
func (f *fakeFiles) closed(n *inode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state(n)
	s.content.flush()
	if s.hsm.Archived.Has(lustre.HasCopy) {
		s.hsm.Archived |= lustre.Dirty
	}
}

// flush lets clients write what they have.
func (c *content) flush() {
	for _, w := range c.cached {
		c.write(w.off, w.data)
	}
	c.cached = nil
}

func (c *content) write(off int, data []byte) {
	if grow := off + len(data) - len(c.data); grow > 0 {
		c.data = append(c.data, make([]byte, grow)...)
	}
	copy(c.data[off:], data)
	c.version++
}

// content is what a reader anywhere would see: the caches of clients are coherent.
func (f *fakeFiles) content(n *inode) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.state(n).content
	c.flush()
	return string(c.data)
}

// at finds an open file for input and output: it waits for a group lock of others.
func (f *fakeFiles) at(fd int) (*handle, *fileState, error) {
	h, ok := f.open[fd]
	if !ok || h.pathOnly() {
		return nil, nil, unix.EBADF
	}
	s := f.state(h.inode)
	for len(s.locked) > 0 && !s.locked[h] {
		f.changed.Wait()
	}
	if s.hsm.NeedsRestore() {
		f.hung = errors.New("input or output of a released file")
		return nil, nil, unix.EIO
	}
	return h, s, nil
}

func (f *fakeFiles) fstat(fd int) (st unix.Stat_t, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	if !ok {
		return st, unix.EBADF
	}
	s := f.state(h.inode)
	size := len(s.content.data)
	for _, w := range s.content.cached {
		size = max(size, w.off+len(w.data))
	}
	st.Ino, st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Sec = uint64(h.inode.fid.OID), h.inode.mode, h.inode.uid, h.inode.gid, int64(size), s.mtime
	return st, nil
}

func (f *fakeFiles) encrypted(fd int) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	if !ok {
		return false, unix.EBADF
	}
	return f.state(h.inode).encrypted, nil
}

func (f *fakeFiles) pread(fd int, p []byte, off int64) (int, error) {
	f.happens("pread")
	f.mu.Lock()
	defer f.mu.Unlock()
	h, s, err := f.at(fd)
	if err == nil && h.flags&unix.O_ACCMODE == unix.O_WRONLY {
		err = unix.EBADF
	}
	if err != nil {
		return 0, err
	}
	s.content.flush() // to read takes a lock, for which others write what they have
	if off >= int64(len(s.content.data)) {
		return 0, nil
	}
	return copy(p, s.content.data[off:]), nil
}

func (f *fakeFiles) pwrite(fd int, p []byte, off int64) (int, error) {
	f.happens("pwrite")
	f.mu.Lock()
	defer f.mu.Unlock()
	h, s, err := f.at(fd)
	switch {
	case err != nil:
		return 0, err
	case f.fails["pwrite"] != nil:
		return 0, f.fails["pwrite"]
	case h.inode.layout == nil || h.flags&unix.O_ACCMODE == unix.O_RDONLY:
		return 0, unix.EBADF
	case f.over(h.inode, len(p)):
		return 0, unix.EDQUOT
	}
	if f.most > 0 {
		p = p[:min(len(p), f.most)]
	}
	s.content.write(int(off), p)
	if s.hsm.Archived.Has(lustre.HasCopy) {
		s.hsm.Archived |= lustre.Dirty
	}
	return len(p), nil
}

// seek tells of no holes but one: what is after the last byte that is not zero.
func (f *fakeFiles) seek(fd int, off int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, s, err := f.at(fd)
	if err != nil {
		return 0, err
	}
	end := int64(len(strings.TrimRight(string(s.content.data), "\x00")))
	switch {
	case whence == unix.SEEK_DATA && off >= end:
		return 0, unix.ENXIO
	case whence == unix.SEEK_HOLE:
		return max(off, end), nil
	}
	return off, nil
}

func (f *fakeFiles) truncate(fd int, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, s, err := f.at(fd)
	if err == nil && h.flags&unix.O_ACCMODE == unix.O_RDONLY {
		err = unix.EINVAL
	}
	if err != nil {
		return err
	}
	s.content.data = append(s.content.data, make([]byte, max(0, size-int64(len(s.content.data))))...)[:size]
	return nil
}

func (f *fakeFiles) sync(fd int) error {
	f.happens("sync")
	return f.fails["sync"]
}

// chown lets a user give a file of theirs to another group of theirs, and no more (chown(2)).
func (f *fakeFiles) chown(fd, uid, gid int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	if !ok || h.pathOnly() {
		return unix.EBADF
	}
	n := h.inode
	_, own := f.caller()
	if f.user && (n.uid != fakeUID || uid != fakeUID || uint32(gid) != n.gid && uint32(gid) != own && !slices.Contains(f.groups, uint32(gid))) {
		return unix.EPERM
	}
	n.uid, n.gid = uint32(uid), uint32(gid)
	return nil
}

func (f *fakeFiles) setTimes(fd int, _, mtime unix.Timespec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	switch {
	case !ok || h.pathOnly():
		return unix.EBADF
	case !f.owns(h.inode):
		return unix.EPERM
	}
	f.state(h.inode).mtime = mtime.Sec
	return nil
}
