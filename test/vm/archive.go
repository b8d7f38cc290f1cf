package vm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// archive writes a file system for a kernel to unpack: cpio in its "newc" form, as
// Documentation/driver-api/early-userspace/buffer-format.rst has it. It is not
// compressed, because unpacking would be emulated. The first error stays, and
// close returns it.
type archive struct {
	f    *os.File
	w    *bufio.Writer
	size int64
	ino  int
	have map[string]bool
	err  error
}

// Types of entries, as in stat(2).
const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeLink = 0o120000
)

func newArchive(name string) (*archive, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &archive{f: f, w: bufio.NewWriterSize(f, 1<<20), have: map[string]bool{".": true}}, nil
}

// links makes the directories that Debian has merged below /usr.
func (a *archive) links() {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		a.dir("usr/" + name)
		if !a.have[name] {
			a.add(name, typeLink|0o777, int64(len("usr/"+name)), strings.NewReader("usr/"+name))
		}
	}
}

// copy adds a file of the host.
func (a *archive) copy(in, from string, mode fs.FileMode) {
	if a.err != nil || a.have[clean(in)] {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		a.err = err
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.err = err
		return
	}
	a.add(in, typeFile|uint32(mode.Perm()), info.Size(), f)
}

func (a *archive) file(f File) {
	switch {
	case f.From != "" && f.Mode == 0:
		a.copy(f.Path, f.From, 0o755)
	case f.From != "":
		a.copy(f.Path, f.From, f.Mode)
	case f.Mode == 0:
		a.text(f.Path, f.Content, 0o644)
	default:
		a.text(f.Path, f.Content, f.Mode)
	}
}

func (a *archive) text(in, content string, mode fs.FileMode) {
	a.add(in, typeFile|uint32(mode.Perm()), int64(len(content)), strings.NewReader(content))
}

func (a *archive) json(in string, v any) {
	text, err := json.Marshal(v)
	a.err = errors.Join(a.err, err)
	a.text(in, string(text), 0o644)
}

// dir adds a directory and those above it.
func (a *archive) dir(in string) {
	if in = clean(in); !a.have[in] {
		a.add(in, typeDir|0o755, 0, strings.NewReader(""))
	}
}

func clean(name string) string { return filepath.Clean(strings.TrimPrefix(name, "/")) }

// mostBytes is what a length of eight hexadecimal digits can say.
const mostBytes = 1<<32 - 1

func (a *archive) add(in string, mode uint32, size int64, content io.Reader) {
	in = clean(in)
	if a.err != nil || a.have[in] {
		return
	}
	a.have[in] = true
	a.dir(filepath.Dir(in))
	if size > mostBytes {
		a.err = fmt.Errorf("%s has %d bytes, and an archive takes %d at most", in, size, int64(mostBytes))
		return
	}
	a.ino++
	a.header(in, mode, size)
	n, err := io.Copy(a.w, io.LimitReader(content, size))
	if err == nil && n != size {
		err = fmt.Errorf("%s: %w: %d of %d bytes", in, io.ErrUnexpectedEOF, n, size)
	}
	a.err = errors.Join(a.err, err)
	a.size += n
	a.pad()
}

func (a *archive) header(name string, mode uint32, size int64) {
	// magic; inode, mode, uid, gid, links, mtime, size, four device numbers, length of the name, checksum
	n, err := fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.ino, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	a.size += int64(n)
	a.err = errors.Join(a.err, err)
	a.pad()
}

// pad fills up to a multiple of four.
func (a *archive) pad() {
	n, err := a.w.Write(make([]byte, -a.size&3))
	a.size += int64(n)
	a.err = errors.Join(a.err, err)
}

func (a *archive) close() error {
	a.header("TRAILER!!!", 0, 0)
	return errors.Join(a.err, a.w.Flush(), a.f.Close())
}
