package manifest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"datamove.dev/mover"
)

// Reader reads a manifest. Only when Next has returned io.EOF was it whole.
type Reader struct {
	below  *below
	in     *bufio.Reader
	unpack *zstd.Decoder // nil of plain text
	header Header
	number int64 // of the line
	long   []byte
	sum    hash.Hash
	text   []byte // canonical text of a line
	err    error  // sticky

	record record
	last   mover.Entry // name and kind of the last entry
	total  Summary
	groups map[string]*found
	held   int // bytes of the names in groups
	inodes uint64
}

// found is a group of hard links of which names may still come.
type found struct {
	ino   uint64
	links uint32
	left  uint32
}

// zstdMagic begins a zstd frame (RFC 8878, 3.1.1).
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// NewReader begins to read a manifest, compressed or plain. It wants Close.
func NewReader(r io.Reader) (*Reader, error) {
	m := &Reader{below: &below{Reader: r}, sum: sha256.New(), groups: map[string]*found{}}
	m.in = bufio.NewReaderSize(m.below, 64<<10)
	magic, err := m.in.Peek(len(zstdMagic))
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if bytes.Equal(magic, zstdMagic) {
		m.unpack, err = zstd.NewReader(m.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		m.in = bufio.NewReaderSize(m.unpack, 64<<10)
	}
	if err := m.readHeader(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close ends the reading. It does not close the reader below.
func (m *Reader) Close() {
	if m.unpack != nil {
		m.unpack.Close()
	}
	m.err = errors.New("the manifest was closed")
}

// Header returns what the manifest says of itself.
func (m *Reader) Header() Header { return m.header }

// Summary returns what was read so far; after io.EOF, of the whole.
func (m *Reader) Summary() Summary { return m.total }

func (m *Reader) damaged(why string) error { return &damage{m.number, why} }

func (m *Reader) readHeader() error {
	line, err := m.next()
	if err == io.EOF {
		return m.damaged("it is empty")
	}
	if err != nil {
		return err
	}
	var h struct {
		Format  string
		Version int
		Created time.Time
		Source  string
	}
	if err := json.Unmarshal(line, &h); err != nil || h.Format != formatName {
		return m.damaged("it does not begin as a manifest does")
	}
	if h.Version != version {
		return fmt.Errorf("the manifest has version %d, and this program knows %d: %w", h.Version, version, mover.ErrUnsupported)
	}
	m.header = Header{h.Created, h.Source}
	m.sum.Write(appendHeader(nil, Header{}))
	return nil
}

// next reads a line, without its newline. It is good until the next call.
func (m *Reader) next() ([]byte, error) {
	m.number++
	m.long = m.long[:0]
	for {
		piece, err := m.in.ReadSlice('\n')
		switch {
		case err == nil && len(m.long) == 0:
			return piece[:len(piece)-1], nil
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
			if m.long = append(m.long, piece...); len(m.long) > maxLine {
				return nil, m.damaged("the line is too long")
			}
			if err == nil {
				return m.long[:len(m.long)-1], nil
			}
		case err == io.EOF && len(m.long) == 0 && len(piece) == 0:
			return nil, io.EOF
		case m.below.err == nil && (err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)):
			return nil, m.damaged("it is cut off")
		default:
			return nil, m.broken(err)
		}
	}
}

// broken tells damage of the compressed form from a failure of the reader below.
func (m *Reader) broken(err error) error {
	if m.below.err == nil {
		return m.damaged("it can not be decompressed: " + err.Error())
	}
	return fmt.Errorf("read the manifest, line %d: %w", m.number, m.below.err)
}

// below is the reader that we were given, and its failure.
type below struct {
	io.Reader
	err error
}

func (b *below) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// Next returns the next entry, or io.EOF at the end of a manifest that was whole.
// Names of one content have equal Dev and Ino, which mean nothing beyond this
// manifest.
func (m *Reader) Next() (mover.Entry, error) {
	if m.err != nil {
		return mover.Entry{}, m.err
	}
	line, err := m.next()
	if err == io.EOF {
		err = m.damaged("it is cut off: the last line is missing")
	}
	if err == nil && bytes.HasPrefix(line, []byte(endPrefix)) {
		err = m.finish(line)
	} else if err == nil {
		err = m.entry(line)
	}
	m.err = err
	if err != nil {
		return mover.Entry{}, err
	}
	return m.record.entry, nil
}

func (m *Reader) entry(line []byte) error {
	r := &m.record
	if why := r.decode(line); why != "" {
		return m.damaged(why)
	}
	e := &r.entry
	if m.total.Entries > 0 && mover.Compare(&m.last, e) >= 0 {
		return m.damaged(fmt.Sprintf("%q is out of order, behind %q", e.Name, m.last.Name))
	}
	if e.Size > math.MaxInt64-m.total.Bytes {
		return m.damaged("the sum of all sizes is too large")
	}
	if why := m.join(); why != "" {
		return m.damaged(why)
	}
	m.last.Name, m.last.Kind = e.Name, e.Kind
	m.total.Entries++
	m.total.Bytes += e.Size
	m.text = append(appendEntry(m.text[:0], e, r.link, true), '\n')
	m.sum.Write(m.text)
	return nil
}

// join gives the names of one group the same inode. In a manifest every name that
// is not a directory tells whether it is alone.
func (m *Reader) join() (why string) {
	r, e := &m.record, &m.record.entry
	if e.Kind == mover.Dir {
		return ""
	}
	e.Known |= mover.FactLinks
	e.Nlink = max(1, r.links)
	switch {
	case r.hasLink:
		g := m.groups[r.link]
		if g == nil || g.links != r.links {
			return fmt.Sprintf("it is a hard link to %q, which does not stand before it, or has other names", r.link)
		}
		e.Ino = g.ino
		if g.left--; g.left == 0 {
			delete(m.groups, r.link)
			m.held -= len(r.link)
		}
	case r.links > 1:
		if !room(len(m.groups), m.held, e.Name) {
			return "too many groups of hard links are open"
		}
		m.held += len(e.Name)
		m.inodes++
		e.Ino = m.inodes
		m.groups[strings.Clone(e.Name)] = &found{e.Ino, r.links, r.links - 1}
	}
	return ""
}

// finish compares the last line with what was read, and wants nothing behind it.
func (m *Reader) finish(line []byte) error {
	var end struct {
		End            bool
		Entries, Bytes int64
		Digest         string
	}
	m.total.Digest = hex.EncodeToString(m.sum.Sum(nil))
	if err := json.Unmarshal(line, &end); err != nil || !end.End {
		return m.damaged("the last line can not be read")
	}
	if read := (Summary{end.Entries, end.Bytes, end.Digest}); read != m.total {
		return m.damaged(fmt.Sprintf("there are %d entries with %d bytes, and the last line says %d with %d, or another digest",
			m.total.Entries, m.total.Bytes, end.Entries, end.Bytes))
	}
	if _, err := m.next(); err != io.EOF {
		if err == nil {
			err = m.damaged("there is more behind the end")
		}
		return err
	}
	return io.EOF
}

// Entries yields what a manifest contains. An error ends it; without one the
// manifest was whole.
func Entries(r io.Reader) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		m, err := NewReader(r)
		if err != nil {
			yield(mover.Entry{}, err)
			return
		}
		defer m.Close()
		for {
			e, err := m.Next()
			if err == io.EOF || !yield(e, err) || err != nil {
				return
			}
		}
	}
}
