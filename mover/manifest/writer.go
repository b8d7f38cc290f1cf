package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"datamove.dev/mover"
)

// Writer writes a manifest. Until Close has returned without an error there is no
// manifest, only a part of one, which every reader refuses.
type Writer struct {
	out  *zstd.Encoder
	err  error // the first one; nothing is written after it
	line []byte
	sum  hash.Hash

	last   mover.Entry // name and kind of the last entry
	total  Summary
	groups map[inode]group
	held   int // bytes of the leaders in groups
}

// group is a group of hard links of which names may still come.
type group struct {
	leader string
	left   uint32
}

// NewWriter begins a manifest.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	out, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	m := &Writer{out: out, sum: sha256.New(), groups: map[inode]group{}}
	m.sum.Write(appendHeader(nil, Header{}))
	m.put(appendHeader(m.line, h))
	return m, m.err
}

// appendHeader appends the first line. That of the zero Header is canonical.
func appendHeader(b []byte, h Header) []byte {
	b = fmt.Appendf(b, `{"format":%q,"version":%d`, formatName, version)
	if !h.Created.IsZero() {
		b = h.Created.UTC().AppendFormat(append(b, `,"created":"`...), time.RFC3339Nano)
		b = append(b, '"')
	}
	if h.Source != "" {
		b = appendString(append(b, `,"source":`...), strings.ToValidUTF8(h.Source, "\uFFFD"))
	}
	return append(b, "}\n"...)
}

// put writes a line and keeps its memory for the next one.
func (m *Writer) put(line []byte) {
	m.line = line[:0]
	if m.err == nil {
		_, m.err = m.out.Write(line)
	}
}

// Write adds the next entry, which sorts behind all before it. What it can not say
// is not written: attributes of an entry that are not Known.
func (m *Writer) Write(e *mover.Entry) error {
	if m.err == nil {
		m.err = m.write(e)
	}
	return m.err
}

func (m *Writer) write(e *mover.Entry) error {
	if why := m.refuse(e); why != "" {
		return &mover.Error{Op: "write to the manifest", Name: e.Name, Err: fmt.Errorf("%s: %w", why, mover.ErrUsage)}
	}
	m.last.Name, m.last.Kind = e.Name, e.Kind
	leader, e := m.lead(e)
	if len(e.Data) > maxSegments {
		e = coarser(e)
	}
	m.line = append(appendEntry(m.line, e, leader, true), '\n')
	m.sum.Write(m.line)
	line := append(appendEntry(m.line[:0], e, leader, false), '\n')
	if len(line) > maxLine {
		return &mover.Error{Op: "write to the manifest", Name: e.Name,
			Err: fmt.Errorf("its facts take %d bytes, and %d is the most: %w", len(line), maxLine, mover.ErrUnsupported)}
	}
	m.total.Entries++
	m.total.Bytes += e.Size
	m.put(line)
	return m.err
}

// refuse says why e can not be the next entry; "" when it can.
func (m *Writer) refuse(e *mover.Entry) string {
	if m.total.Entries > 0 && mover.Compare(&m.last, e) >= 0 {
		return fmt.Sprintf("it is out of order, behind %s", mover.Printable(m.last.Name))
	}
	if why := problem(e); why != "" {
		return why
	}
	if e.Size > math.MaxInt64-m.total.Bytes {
		return "the sum of all sizes is too large"
	}
	return ""
}

// lead returns the first name of e's group of hard links if there was one before.
// When more groups are open than are remembered, e becomes a file of its own.
func (m *Writer) lead(e *mover.Entry) (string, *mover.Entry) {
	if !linked(e) {
		return "", e
	}
	key := inode{e.Dev, e.Ino}
	if g, ok := m.groups[key]; ok {
		if g.left--; g.left == 0 {
			delete(m.groups, key)
			m.held -= len(g.leader)
		} else {
			m.groups[key] = g
		}
		return g.leader, e
	}
	if !room(len(m.groups), m.held, e.Name) {
		alone := *e
		alone.Nlink = 1
		return "", &alone
	}
	m.groups[key] = group{strings.Clone(e.Name), e.Nlink - 1}
	m.held += len(e.Name)
	return "", e
}

// room reports whether one more group of hard links can be remembered beside so
// many with names of so many bytes. A short compressed manifest could name
// groups that take gigabytes.
func room(groups, held int, leader string) bool {
	return groups < maxGroups && held+len(leader) <= maxLeaders
}

// coarser takes holes as data until there are few enough of them.
func coarser(e *mover.Entry) *mover.Entry {
	less := *e
	for len(less.Data) > maxSegments {
		var merged []mover.Segment
		for i := 0; i < len(less.Data); i += 2 {
			last := min(i+1, len(less.Data)-1)
			merged = append(merged, mover.Segment{Start: less.Data[i].Start, End: less.Data[last].End})
		}
		less.Data = merged
	}
	return &less
}

// Close writes the end, and tells what was written. It does not close the writer
// below.
func (m *Writer) Close() (Summary, error) {
	m.total.Digest = hex.EncodeToString(m.sum.Sum(nil))
	m.put(appendEnd(m.line, m.total))
	err := m.out.Close()
	if m.err != nil {
		return Summary{}, m.err
	}
	return m.total, err
}

// endPrefix is how the last line begins, and no other one.
const endPrefix = `{"end":`

func appendEnd(b []byte, s Summary) []byte {
	b = append(b, endPrefix+`true,"entries":`...)
	b = strconv.AppendInt(b, s.Entries, 10)
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, s.Bytes, 10)
	b = append(b, `,"digest":"`...)
	b = append(b, s.Digest...)
	return append(b, "\"}\n"...)
}
