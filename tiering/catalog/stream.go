package catalog

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"datamove.dev/mover"
	"datamove.dev/tiering/dataset"
)

// A walk is sent to where the catalog is as pages, each of entries that follow each other in one directory:
//
//	what it is, directory, length, page
//
// and at its end how many entries there were: one that was cut is not taken for a small tree. After that comes how reads are recorded there, which
// not all versions say, and read. Lengths are uvarints.
const (
	streamPage   = 'p'
	streamUnread = 'u' // a directory that could not be read, and why
	streamEnd    = 'e'
	streamMost   = 1 << 20 // bytes of one page, or name
)

// Send walks a source and writes what it yields, for [Receive]. An error of the walk that is not one of a directory, and one of w, ends it.
func Send(ctx context.Context, w io.Writer, src Source, o mover.WalkOptions) error {
	s := sender{w: bufio.NewWriterSize(w, 64<<10)}
	for e, err := range src.Walk(ctx, o) {
		if err != nil && e.Kind != mover.Dir {
			return err
		}
		if err != nil {
			err = s.unread(e.Name, err)
		} else {
			err = s.take(dataset.FileOf(&e, 0))
		}
		if err != nil {
			return err
		}
	}
	return s.end(readsOf(src))
}

// sender collects entries of one directory.
type sender struct {
	w     *bufio.Writer
	files []dataset.File
	count uint64
	buf   []byte
}

func (s *sender) take(f dataset.File) error {
	if len(s.files) == pageEntries || len(s.files) > 0 && s.files[0].Dir != f.Dir {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.files = append(s.files, f)
	s.count++
	return nil
}

func (s *sender) flush() error {
	if len(s.files) == 0 {
		return nil
	}
	s.buf = appendPage(s.buf[:0], s.files)
	err := s.put(streamPage, s.files[0].Dir, s.buf)
	s.files = s.files[:0]
	return err
}

func (s *sender) unread(dir string, why error) error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.put(streamUnread, dir, []byte(why.Error()))
}

func (s *sender) end(reads mover.Reads) error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.put(streamEnd, "", append(binary.AppendUvarint(nil, s.count), byte(reads))); err != nil {
		return err
	}
	return s.w.Flush()
}

func (s *sender) put(what byte, dir string, body []byte) error {
	head := binary.AppendUvarint([]byte{what}, uint64(len(dir)))
	head = append(head, dir...)
	head = binary.AppendUvarint(head, uint64(len(body)))
	_, err := s.w.Write(head)
	if err == nil {
		_, err = s.w.Write(body)
	}
	return err
}

// Received is a walk that another process sends: a Source with a Walk that can be asked once, and that knows of nothing else.
type Received struct {
	r     *bufio.Reader
	reads mover.Reads // what its end says
}

// Receive reads what Send writes. It comes from another host, and is believed in nothing: names that lead elsewhere and what is not in the order of
// walks are mover.ErrCorrupt, as is an end that comes too early.
func Receive(r io.Reader) *Received { return &Received{r: bufio.NewReaderSize(r, 64<<10)} }

// Stat implements Source.
func (r *Received) Stat(context.Context, string) (mover.Entry, error) {
	return mover.Entry{}, fmt.Errorf("%w: of a walk that is sent only that is known", mover.ErrUnsupported)
}

// Walk implements Source. The options are those of the sender.
func (r *Received) Walk(ctx context.Context, _ mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		if err := r.walk(ctx, yield); err != nil {
			yield(mover.Entry{}, err)
		}
	}
}

func (r *Received) walk(ctx context.Context, yield func(mover.Entry, error) bool) error {
	var files []dataset.File
	var last mover.Entry
	count := uint64(0)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		what, dir, body, err := r.next()
		if err != nil {
			return err
		}
		switch what {
		case streamPage:
			if files, err = readPage(files[:0], body, dir); err != nil {
				return err
			}
			for i := range files {
				e := entryOf(&files[i])
				if !mover.ValidName(e.Name) || files[i].Base == "" || count > 0 && mover.Compare(&last, &e) >= 0 {
					return fmt.Errorf("%w: %s is no name that can come there", mover.ErrCorrupt, mover.Printable(e.Name))
				}
				last = e
				count++
				if !yield(e, nil) {
					return nil
				}
			}
		case streamUnread:
			if !yield(mover.Entry{Name: dir, Kind: mover.Dir}, errors.New(mover.Printable(string(body)))) {
				return nil
			}
		case streamEnd:
			n, size := binary.Uvarint(body)
			if size <= 0 || n != count {
				return fmt.Errorf("%w: %d entries came of %d", mover.ErrCorrupt, count, n)
			}
			if len(body) > size && body[size] <= byte(mover.ReadsUnseen) {
				r.reads = mover.Reads(body[size])
			}
			return nil
		default:
			return fmt.Errorf("%w: a walk with %q in it", mover.ErrCorrupt, what)
		}
	}
}

// next reads one part.
func (r *Received) next() (what byte, dir string, body []byte, err error) {
	if what, err = r.r.ReadByte(); err == nil {
		var name []byte
		if name, err = r.bytes(); err == nil {
			dir = string(name)
			body, err = r.bytes()
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: the walk ends too early", mover.ErrCorrupt)
	}
	if err == nil && !mover.ValidName(dir) {
		err = fmt.Errorf("%w: %s is no name", mover.ErrCorrupt, mover.Printable(dir))
	}
	return what, dir, body, err
}

func (r *Received) bytes() ([]byte, error) {
	head, err := r.r.Peek(binary.MaxVarintLen64) // fewer at the end
	n, size := binary.Uvarint(head)
	switch {
	case size == 0:
		return nil, err
	case size < 0 || n > streamMost:
		return nil, fmt.Errorf("%w: a part of a walk of more than %d bytes", mover.ErrCorrupt, streamMost)
	}
	if _, err := r.r.Discard(size); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r.r, b)
	return b, err
}

// entryOf is what FileOf has made of an entry.
func entryOf(f *dataset.File) mover.Entry {
	moment := func(ns int64) mover.Time {
		t := mover.Time{Sec: ns / 1e9, Nsec: int32(ns % 1e9)}
		if t.Nsec < 0 {
			t.Sec, t.Nsec = t.Sec-1, t.Nsec+1e9
		}
		return t
	}
	return mover.Entry{Name: f.Name(), Kind: f.Kind, Known: f.Known, Size: f.Size, Stored: f.Stored, Mode: f.Mode, UID: f.UID, GID: f.GID,
		Nlink: f.Links, Ino: f.Ino, Mtime: moment(f.Mtime), Atime: moment(f.Atime), Ctime: moment(f.Ctime), ETag: f.ETag}
}

// AppendEntry appends what a catalog keeps of an entry, for [ReadEntry]. Its name is not among it.
func AppendEntry(b []byte, e *mover.Entry) []byte {
	f := dataset.FileOf(e, 0)
	f.Dir, f.Base = "", "-"
	return appendPage(b, []dataset.File{f})
}

// ReadEntry reads what AppendEntry has written, of the name that was asked for. It comes from another host: what is none is mover.ErrCorrupt.
func ReadEntry(name string, b []byte) (mover.Entry, error) {
	files, err := readPage(nil, b, "")
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("%w: %d entries where one is", mover.ErrCorrupt, len(files))
	}
	if err != nil {
		return mover.Entry{}, err
	}
	e := entryOf(&files[0])
	e.Name = name
	return e, nil
}
