package lossydisk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// Log reads what the kernel's dm-log-writes has written to its log device: a sector that
// says how many entries follow, and the entries, each one sector and the data it is about.
// The form is that of struct log_write_super and struct log_write_entry in the kernel's
// drivers/md/dm-log-writes.c. The kernel puts a write into the log when a flush that came
// after its end has ended, and one that was forced through to the medium (FUA) when it has
// ended itself.
type Log struct {
	r       io.ReaderAt
	bytes   int64 // of r
	sector  int64 // bytes of one
	at      int64 // where the next entry is
	entries uint64
}

// Entry is a write, a flush, or both: then the flush is of what was written before.
type Entry struct {
	Off   int64
	Data  []byte
	Flush bool
	FUA   bool   // Data is on the medium
	Mark  string // what somebody told the log in between; "" is an entry that is none
}

const (
	logMagic   = 0x6a736677736872
	logVersion = 1

	logFlush   = 1 << 0
	logFUA     = 1 << 1
	logDiscard = 1 << 2
	logMark    = 1 << 3

	// logEntryBytes is struct log_write_entry: four numbers of 64 bits.
	logEntryBytes = 32
	// mostEntryBytes is more than the block layer gives a device at once.
	mostEntryBytes = 64 << 20
)

var errLog = errors.New("not a log of dm-log-writes, or a damaged one")

// ReadLog begins to read a log of so many bytes.
func ReadLog(r io.ReaderAt, bytes int64) (*Log, error) {
	var b [logEntryBytes]byte
	if _, err := r.ReadAt(b[:], 0); err != nil {
		return nil, fmt.Errorf("%w: %w", errLog, err)
	}
	word := binary.LittleEndian.Uint64
	sector := int64(binary.LittleEndian.Uint32(b[24:]))
	if word(b[:]) != logMagic || word(b[8:]) != logVersion {
		return nil, fmt.Errorf("%w: it begins with %x", errLog, b[:16])
	}
	if sector < sectorBytes || sector > 64<<10 || bits.OnesCount64(uint64(sector)) != 1 {
		return nil, fmt.Errorf("%w: sectors of %d bytes", errLog, sector)
	}
	return &Log{r: r, bytes: bytes, sector: sector, at: sector, entries: word(b[16:])}, nil
}

// Next returns the next entry, and io.EOF after the last one.
func (l *Log) Next() (Entry, error) {
	if l.entries == 0 {
		return Entry{}, io.EOF
	}
	head, err := l.take(l.sector)
	if err != nil {
		return Entry{}, err
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(head[8*i:]) }
	off, data, flags, said := word(0), word(1), word(2), word(3)
	if flags&logMark != 0 {
		if said > uint64(len(head)-logEntryBytes) {
			return Entry{}, fmt.Errorf("%w: a mark of %d bytes at byte %d", errLog, said, l.at)
		}
		l.entries--
		return Entry{Mark: string(head[logEntryBytes:][:said])}, nil
	}
	e := Entry{Flush: flags&logFlush != 0, FUA: flags&logFUA != 0}
	if flags&logDiscard != 0 { // a disk may keep what nobody needs any more
		l.entries--
		return e, nil
	}
	if data > mostEntryBytes/uint64(l.sector) || off > 1<<62/uint64(l.sector) {
		return Entry{}, fmt.Errorf("%w: %d sectors for sector %d at byte %d", errLog, data, off, l.at)
	}
	if e.Data, err = l.take(int64(data) * l.sector); err != nil {
		return Entry{}, err
	}
	e.Off = int64(off) * l.sector
	l.entries--
	return e, nil
}

// take reads the next bytes of the log.
func (l *Log) take(bytes int64) ([]byte, error) {
	if bytes > l.bytes-l.at {
		return nil, fmt.Errorf("%w: it ends at byte %d, %d entries too early", errLog, l.bytes, l.entries)
	}
	p := make([]byte, bytes)
	if n, err := l.r.ReadAt(p, l.at); n < len(p) {
		return nil, fmt.Errorf("read byte %d of a log: %w", l.at, err)
	}
	l.at += bytes
	return p, nil
}

// Apply does to the disk what an entry says.
func (d *Disk) Apply(e Entry) error {
	if e.Off < 0 || int64(len(e.Data)) > d.bytes-e.Off {
		return fmt.Errorf("%w: %d bytes for byte %d of a disk of %d", errLog, len(e.Data), e.Off, d.bytes)
	}
	if e.Flush {
		if err := d.Flush(); err != nil {
			return err
		}
	}
	if len(e.Data) == 0 {
		return nil
	}
	return d.write(e.Data, e.Off, e.FUA)
}
