package auditlog

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

const (
	lockName = "lock"
	newName  = "new" // a file that does not have its header yet

	// maxFiles bounds what is remembered of a directory.
	maxFiles = 1 << 20
)

func fileName(first uint64) string { return fmt.Sprintf("audit-%020d.jsonl", first) }

// parseFileName reads what fileName prints.
func parseFileName(name string) (first uint64, ok bool) {
	number, _ := strings.CutPrefix(name, "audit-")
	number, _ = strings.CutSuffix(number, ".jsonl")
	first, err := strconv.ParseUint(number, 10, 64)
	return first, err == nil && fileName(first) == name
}

// list returns the first sequences of the files in dir, in order.
func list(dir string) (files []uint64, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(1024)
		if err == io.EOF {
			slices.Sort(files)
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if first, ok := parseFileName(name); ok {
				files = append(files, first)
			}
		}
		if len(files) > maxFiles {
			return nil, fmt.Errorf("%w: there are more than %d files", mover.ErrRefused, maxFiles)
		}
	}
}

// openFile opens one of the files, which must be a plain one.
func openFile(dir string, first uint64, flag int) (*os.File, error) {
	notPlain := &Break{fileName(first), 1, "it is no plain file"}
	f, err := os.OpenFile(filepath.Join(dir, fileName(first)), flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENXIO) {
		return nil, notPlain
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = notPlain
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// makeDir makes the directory of a log, and refuses one in which others may write.
func makeDir(dir string) error {
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		return atomicfile.SyncDir(filepath.Dir(dir))
	}
	if err == nil && st.Mode()&0o022 != 0 {
		err = fmt.Errorf("%w: others may write there (%v): chmod go-w", mover.ErrPermission, st.Mode())
	}
	return err
}

// acquire takes the lock of a log. The file stays for ever, so that no process locks
// one that is gone.
func acquire(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if err == unix.EAGAIN || err == unix.EACCES {
		err = fmt.Errorf("%w: another process writes there", mover.ErrHeld)
	}
	return nil, err
}

// inUse asks whether a process has the log open.
func inUse(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false // never opened here: a copy
	}
	defer f.Close()
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &whole) == nil && whole.Type != unix.F_UNLCK
}

// begin makes the next file the last one. It has its name when its header is on
// the disk, so no header is ever half written.
func (l *Log) begin() error {
	if l.file != nil && l.o.NoSync { // else it is synced
		if err := l.o.datasync(l.file); err != nil {
			return err
		}
	}
	c := l.chain
	header := Entry{Kind: Header, Time: l.o.now(), Chain: cmp.Or(c.id, l.o.chain, newChain())}
	c.number(&header)
	text := appendEntry(nil, &header)
	c.add(&header)
	f, err := l.create(fileName(header.Sequence), text)
	if err != nil {
		return err
	}
	if l.file != nil {
		_ = l.file.Close() // everything in it is synced
	}
	l.file, l.first, l.size = f, header.Sequence, int64(len(text))
	l.moveTo(c)
	l.o.Logger.Info("audit log begins a file", "dir", l.dir, "file", fileName(l.first))
	return nil
}

// newChain names a log.
func newChain() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	return hex.EncodeToString(id)
}

// create makes a file with some text, whole or not at all.
func (l *Log) create(name string, text []byte) (*os.File, error) {
	path := filepath.Join(l.dir, newName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // what a kill has left
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(path, filepath.Join(l.dir, name))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	// From here on the file is the last one, whatever we may think.
	if err := atomicfile.SyncDir(l.dir); err != nil {
		l.failed = errors.Join(err, f.Close())
		return nil, l.failed
	}
	return f, nil
}
