package budget

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// FileName is the file of a ledger in its directory.
const FileName = "budget.jsonl"

// File is a Log in a file of this host, or of a file system whose locks hold on all hosts. Many processes may have it open, and many goroutines may use it.
type File struct {
	path     string
	file     *os.File
	datasync func(*os.File) error

	mu     sync.Mutex // guards what follows
	at     place      // up to where it was read
	failed error      // what was appended and could not be taken back
}

// place is the end of a line.
type place struct {
	n      int64 // lines up to it
	offset int64 // in bytes
	chain  chain
}

// Open opens the log in a directory, and makes both where they are not there. A file that others may write to is mover.ErrPermission.
func Open(dir string) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, FileName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(trusted(f), atomicfile.SyncDir(dir)); err != nil {
		_ = f.Close()
		return nil, &mover.Error{Op: "open", Place: path, Err: err}
	}
	return &File{path: path, file: f, datasync: func(f *os.File) error { return f.Sync() }, at: place{chain: first}}, nil
}

// trusted refuses what is no file, or what others may write to.
func trusted(f *os.File) error {
	st, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%w: is no regular file", mover.ErrUsage)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%w: others may write to it (mode %04o): chmod 600", mover.ErrPermission, st.Mode().Perm())
	}
	return nil
}

// Close closes the file. Nobody may be using it.
func (f *File) Close() error { return f.file.Close() }

// Read implements Log. A line that is damaged is mover.ErrCorrupt, and named by its number from 1.
func (f *File) Read(ctx context.Context, n int64, each func(Entry) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.lock(ctx, unix.F_RDLCK); err != nil {
		return f.failure("read", err)
	}
	defer f.unlock()
	size, err := f.size()
	if err == nil && (n != f.at.n || size != f.at.offset) {
		_, err = f.scan(ctx, n, size, each)
	}
	return f.failure("read", err)
}

// Append implements Log.
func (f *File) Append(ctx context.Context, n int64, e Entry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.lock(ctx, unix.F_WRLCK); err != nil {
		return f.failure("append to", err)
	}
	defer f.unlock()
	return f.failure("append to", f.append(ctx, n, e))
}

func (f *File) append(ctx context.Context, n int64, e Entry) error {
	size, err := f.size()
	if err != nil {
		return err
	}
	if n != f.at.n || size != f.at.offset {
		if size, err = f.end(ctx, n, size); err != nil {
			return err
		}
	}
	line, c, err := appendLine(nil, f.at.chain, e)
	if err != nil {
		return err
	}
	if len(line) > lineMost {
		return fmt.Errorf("%w: an entry of %d bytes, want at most %d", mover.ErrUsage, len(line), lineMost)
	}
	if err := f.put(line, size); err != nil {
		return err
	}
	f.at = place{n + 1, size + int64(len(line)), c}
	return nil
}

// errBehind says that there are entries that the caller does not know.
var errBehind = fmt.Errorf("%w: others have appended", mover.ErrChanged)

// end looks whether the log ends after n entries, and cuts off half a line behind them. The size afterwards is returned.
func (f *File) end(ctx context.Context, n, size int64) (int64, error) {
	torn, err := f.scan(ctx, n, size, func(Entry) error { return errBehind })
	switch {
	case err != nil:
		return 0, err
	case f.at.n != n:
		return 0, fmt.Errorf("%w: the log has %d entries, and not %d", mover.ErrUsage, f.at.n, n)
	case torn:
		return f.at.offset, f.file.Truncate(f.at.offset)
	}
	return size, nil
}

// put writes a line at the end of the file, or takes it back.
func (f *File) put(line []byte, size int64) error {
	_, err := f.file.WriteAt(line, size)
	if err == nil {
		err = f.datasync(f.file)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf("%w: the disk of the ledger is full: %w", mover.ErrTransient, err) // and not that a charge was noted
	}
	if again := f.file.Truncate(size); again != nil {
		f.failed = fmt.Errorf("%w, and what was written can not be taken back: %w", err, again)
		return f.failed
	}
	return err
}

// size is that of the file, which others make longer and never shorter than what was read.
func (f *File) size() (int64, error) {
	if f.failed != nil {
		return 0, f.failed
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.file.Fd()), &st); err != nil {
		return 0, err
	}
	if st.Nlink == 0 || st.Size < f.at.offset {
		return 0, fmt.Errorf("%w: the file was removed, replaced or cut off while it was in use: it has %d bytes, of which %d were read", mover.ErrCorrupt, st.Size, f.at.offset)
	}
	return st.Size, nil
}

// scan reads lines up to size and calls each for those after the first n. It reports whether half a line is left at the end.
func (f *File) scan(ctx context.Context, n, size int64, each func(Entry) error) (torn bool, err error) {
	if n < f.at.n {
		f.at = place{chain: first}
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f.file, f.at.offset, size-f.at.offset), lineMost)
	for f.at.offset < size {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		line, err := in.ReadSlice('\n')
		if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
			return false, err
		}
		e, c, err := parseLine(line, f.at.chain)
		if err != nil && left(line, f.at.offset, size) {
			return true, nil
		}
		if err == nil && f.at.n >= n {
			if err := each(e); err != nil {
				return false, err
			}
		}
		if err != nil {
			return false, fmt.Errorf("%w: line %d %w: take a copy, and find out what was done to it, before anything else", mover.ErrCorrupt, f.at.n+1, err)
		}
		f.at = place{f.at.n + 1, f.at.offset + int64(len(line)), c}
	}
	return false, nil
}

// left reports whether a line that can not be read is what a crash leaves: the last one, without its end, or with blocks that never came to the disk and read as zeros. It
// was never on stable storage, so nobody was told of it.
func left(line []byte, offset, size int64) bool {
	last := offset+int64(len(line)) == size
	return last && (!bytes.HasSuffix(line, []byte("\n")) || bytes.IndexByte(line, 0) >= 0)
}

// lock locks the whole file. Others have it for the time of an append; it is asked for again and again, because a context ends no lock.
func (f *File) lock(ctx context.Context, kind int16) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		whole := unix.Flock_t{Type: kind, Whence: io.SeekStart}
		err := unix.FcntlFlock(f.file.Fd(), unix.F_OFD_SETLK, &whole)
		if err == nil || !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR) {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

func (f *File) unlock() {
	whole := unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart}
	_ = unix.FcntlFlock(f.file.Fd(), unix.F_OFD_SETLK, &whole) // ends with the descriptor at the latest
}

// failure says which file it was. What each said, and that others were faster, passes as it is.
func (f *File) failure(op string, err error) error {
	if err == nil || errors.Is(err, errBehind) {
		return err
	}
	return &mover.Error{Op: op, Place: f.path, Err: err}
}
