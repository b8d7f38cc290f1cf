package mover

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Draft is an entry that is being written and that no reader can see.
//
// A file's life: WritePart for every part of the plan, Finish, Publish. Other
// kinds have no parts, and an empty file needs none; a directory is finished after
// the drafts that are built in it. A draft that is neither published nor suspended is
// dropped by Close.
type Draft interface {
	// Token names the draft for other processes, and after a crash.
	Token() Token
	// WritePart stores one part. It may be called for different parts at the same
	// time, and again for a part that failed or that is to be replaced.
	WritePart(ctx context.Context, p Part, feed Feed) (Receipt, error)
	// Finish says that every part is there: receipts has one of each, in order. It
	// gives the draft the facts of e, lets go of open files, and readies it for
	// Publish. e.CRC is the CRC of the whole content when it is Known; a store that
	// can compare it does. A draft that was finished when it was adopted may be finished
	// again without receipts, to get other facts.
	Finish(ctx context.Context, e Entry, receipts []Receipt) error
	// Suspend lets go of the draft but leaves it for Adopt.
	Suspend() error
	// Close drops the draft, unless it was published or suspended.
	Close() error
}

// Cloner is a Draft that may take over content without reading it: a reflink, or
// a copy that the store makes by itself.
type Cloner interface {
	Draft
	// Clone fills the draft from c. It reports false, and leaves the draft as it
	// was, when the two places can not do that. Finish follows, with no receipts.
	Clone(ctx context.Context, c Content) (bool, error)
}

// Rereader is a Draft that can be read again before it is published.
type Rereader interface {
	Draft
	// Reread gives what is on the medium, not what a cache remembers. Of a draft that
	// is not finished, the parts that are stored can be read.
	Reread(ctx context.Context) (Content, error)
}

// Peeker is a Draft of a file that can be read while it is being written. It gives what WritePart has stored,
// as a cache may remember it.
type Peeker interface {
	Draft
	// Peek opens the draft for reading. ErrNotExist when it is published or dropped.
	Peek() (Peeked, error)
}

// Peeked is a draft that is open for reading.
type Peeked interface {
	io.ReaderAt
	io.Closer
}

// Hints is what the writer of a draft knows beforehand. The zero value is valid
// but for By.
type Hints struct {
	By        WriterID // the writer: part of the temporary name
	In        Draft    // the unpublished directory in which this entry is built; nil is its own directory
	Link      string   // make a hard link to this published entry, or a copy by the store; ErrUnsupported where neither can be; "" is none
	PartBytes int64    // the planned size of a part; 0 is the place's own
	Seen      *Entry   // what has the name, as the run saw it, zero for nothing: a store that can replaces only that. nil does not look
}

// Part is one range of one entry. All parts but the last have the same length.
type Part struct {
	Index       int // from 0
	Off, Length int64
}

// Receipt says that a part is stored.
type Receipt struct {
	Part
	CRC  uint64 // CRC-64/NVME of its bytes, as the feed counted them
	ETag string // S3's name for the stored part; "" elsewhere
}

// Feed gives the bytes of one part, in order. They are counted, limited and
// hashed as they pass, so what the target read is what the receipt says.
type Feed interface {
	// Read fills p as far as it can, but not beyond the beginning of a hole once Hole
	// was called. io.EOF comes at the end of the part.
	io.Reader
	// Hole skips a hole that begins at the next byte and returns its length; 0 when
	// there is none. A target that can not keep holes never calls it and reads zeros.
	Hole() int64
	// Sum is the CRC-64/NVME of what has passed, holes as zeros.
	Sum() uint64
	// Rewind begins the part again, for another try.
	Rewind() error
}

// Token is a draft's name in text, valid in any process that opens the same
// place. It says nothing to anyone but the place.
type Token string

// Level says how a content was checked.
type Level uint8

// The levels, weakest first. Cloned is a class of its own: no byte passed through us.
const (
	Unchecked Level = iota
	Cloned          // the file system or the store copied it by itself
	Written         // the source was hashed; writes and sync succeeded
	Server          // the store compared the checksum
	Read            // the target was read again, past the cache, and compared
)

var levelNames = [...]string{"unchecked", "cloned", "written", "server", "read"}

func (l Level) String() string { return levelNames[min(int(l), len(levelNames)-1)] }

// Outcome is what became of one draft.
type Outcome struct {
	Level         Level
	ETag, Version string // S3's identity of the new object
	Err           error
}

// WriterID is the writer of a draft: a task and its epoch. A run of the same task with a higher epoch
// has taken over, and may drop the drafts of the lower one.
type WriterID struct {
	Task  string // 1 to 16 of [a-z0-9]; of the target, so that every run on it finds its strays
	Epoch uint64
}

// TempPrefix begins every temporary name, and nothing else that we copy.
const TempPrefix = ".datamove-"

// TrashName is the directory of a root that holds entries until they are removed, see package trash. No copy includes it.
const TrashName = TempPrefix + "trash"

// KeptName is the directory of a root that holds for a while what policies have taken away, so that it can be given back. No copy includes it.
const KeptName = TempPrefix + "kept"

// TempName returns the n-th temporary name of an owner: .datamove-<task>-<epoch>-<n>.
func (o WriterID) TempName(n uint64) string {
	b := make([]byte, 0, 48)
	b = append(b, TempPrefix...)
	b = append(b, o.Task...)
	b = append(b, '-')
	b = strconv.AppendUint(b, o.Epoch, 36)
	b = append(b, '-')
	b = strconv.AppendUint(b, n, 36)
	return string(b)
}

// ParseTempName is the inverse of TempName.
func ParseTempName(name string) (o WriterID, n uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, TempPrefix)
	if !ok {
		return WriterID{}, 0, false
	}
	f := strings.Split(rest, "-")
	if len(f) != 3 || !validTask(f[0]) {
		return WriterID{}, 0, false
	}
	epoch, err1 := strconv.ParseUint(f[1], 36, 64)
	n, err2 := strconv.ParseUint(f[2], 36, 64)
	o = WriterID{f[0], epoch}
	return o, n, err1 == nil && err2 == nil && o.TempName(n) == name
}

func validTask(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 16
}

func (o WriterID) String() string { return fmt.Sprintf("%s-%d", o.Task, o.Epoch) }

// ParseOwner is the inverse of String.
func ParseOwner(s string) (o WriterID, ok bool) {
	task, epoch, ok := strings.Cut(s, "-")
	n, err := strconv.ParseUint(epoch, 10, 64)
	o = WriterID{task, n}
	return o, ok && err == nil && validTask(task) && o.String() == s
}
