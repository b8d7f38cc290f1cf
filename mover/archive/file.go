package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// file is a source with one entry: an open file.
type file struct {
	item  *Item
	entry mover.Entry
	seen  unix.Stat_t
}

// kept are the facts that a copy has of its file.
const kept = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime

// noSetID are the permission bits of a copy: a place that others can reach must not be
// able to make a program run as its owner.
const noSetID = 0o1777

func openFile(it *Item) (*file, error) {
	f := &file{item: it}
	if err := stat(it.File, &f.seen); err != nil {
		return nil, err
	}
	if f.seen.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%w: only regular files have a copy", mover.ErrUsage)
	}
	e := mover.Entry{Name: it.Key, Kind: mover.File, Size: f.seen.Size, Ino: f.seen.Ino, Nlink: 1, Stored: f.seen.Blocks * 512}
	e.Take(&it.Facts, it.Facts.Known&kept)
	e.Mode &= noSetID
	e.Known |= mover.FactXattrs
	if it.Origin != "" {
		e.Xattrs = []mover.Xattr{{Name: mover.XattrPath, Value: []byte(it.Origin)}}
	}
	f.entry = e
	return f, nil
}

func stat(f *os.File, st *unix.Stat_t) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = unix.Fstat(int(fd), st) }); err != nil {
		return err
	}
	return failed
}

// errMoved is no mover.ErrChanged, which would have the transfer begin again: the caller
// archives the file again when it is at rest.
var errMoved = errors.New("it is written while it is read")

// changed compares the file with what it was.
func (f *file) changed() error {
	var now unix.Stat_t
	if err := stat(f.item.File, &now); err != nil {
		return err
	}
	if now.Size != f.seen.Size || now.Mtim != f.seen.Mtim {
		return errMoved
	}
	return nil
}

// mine is the last question before the copy becomes visible.
func (f *file) mine(ctx context.Context) error {
	if f.item.Mine != nil {
		if err := f.item.Mine(ctx); err != nil {
			return err
		}
	}
	return f.changed()
}

func (f *file) String() string { return "file://" + f.item.File.Name() }

func (f *file) Capabilities() mover.Capabilities {
	return mover.Capabilities{Keeps: kept | mover.FactXattrs, Level: mover.Written, BatchFiles: 1, PartAlign: 1, Parallel: 1}
}

func (f *file) Walk(context.Context, mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) { yield(f.entry, nil) }
}

func (f *file) Stat(_ context.Context, name string) (mover.Entry, error) {
	if name != f.entry.Name {
		return mover.Entry{}, mover.ErrNotExist
	}
	return f.entry, f.changed()
}

func (f *file) Open(_ context.Context, e mover.Entry) (mover.Content, error) {
	if e.Name != f.entry.Name {
		return nil, mover.ErrNotExist
	}
	return f, f.changed()
}

// Close does nothing: the file is the caller's.
func (f *file) Close() error { return nil }

func (f *file) Entry() mover.Entry { return f.entry }

func (f *file) Check(context.Context) error { return f.changed() }

func (f *file) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return &reader{ctx, f, off, off + n}, nil
}

// reader reads a range with a position of its own.
type reader struct {
	ctx      context.Context
	f        *file
	off, end int64
}

func (r *reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	if r.off >= r.end {
		return 0, io.EOF
	}
	n, err := r.f.item.File.ReadAt(p[:min(int64(len(p)), r.end-r.off)], r.off)
	r.off += int64(n)
	r.f.item.moved(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (*reader) Close() error { return nil }

func (f *file) Segment(off int64) (mover.Segment, error) {
	size := f.entry.Size
	if f.entry.Stored >= size || off >= size {
		return mover.Segment{Start: min(off, size), End: size}, nil
	}
	start, err := f.item.File.Seek(off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, syscall.ENXIO): // only a hole is left
		return mover.Segment{Start: size, End: size}, nil
	case err != nil: // a file system that does not tell
		return mover.Segment{Start: off, End: size}, nil //nolint:nilerr // see above
	}
	end, err := f.item.File.Seek(start, unix.SEEK_HOLE)
	if err != nil {
		return mover.Segment{}, errMoved
	}
	return mover.Segment{Start: min(start, size), End: min(end, size)}, nil
}

// attribute is the value of an attribute of ours.
func attribute(e *mover.Entry, name string) (string, bool) {
	i := slices.IndexFunc(e.Xattrs, func(x mover.Xattr) bool { return x.Name == name })
	if i < 0 {
		return "", false
	}
	return string(e.Xattrs[i].Value), true
}

// withAttribute returns the attributes with one of ours.
func withAttribute(all []mover.Xattr, name, value string) []mover.Xattr {
	all = slices.DeleteFunc(slices.Clone(all), func(x mover.Xattr) bool { return x.Name == name })
	all = append(all, mover.Xattr{Name: name, Value: []byte(value)})
	slices.SortFunc(all, func(a, b mover.Xattr) int { return strings.Compare(a.Name, b.Name) })
	return all
}
