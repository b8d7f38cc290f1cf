package journal

import (
	"encoding/binary"
	"fmt"
	"math"

	"datamove.dev/mover"
)

// version begins every encoded value. A journal of another version is damaged as
// far as this program knows, and work starts anew.
const version = 1

// receiptMin is the least an encoded receipt takes; it bounds what a decoder
// allocates for a count that it is told.
const receiptMin = 3 + 8 + 1

// The flags of an encoded record.
const (
	flagComplete = 1 << iota
	flagDoubted
)

func appendString[S ~string](b []byte, s S) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendTime(b []byte, t mover.Time) []byte {
	b = binary.AppendVarint(b, t.Sec)
	return binary.AppendVarint(b, int64(t.Nsec))
}

func appendReceipt(b []byte, r mover.Receipt) []byte {
	b = binary.AppendVarint(b, int64(r.Index))
	b = binary.AppendVarint(b, r.Off)
	b = binary.AppendVarint(b, r.Length)
	b = binary.LittleEndian.AppendUint64(b, r.CRC)
	return appendString(b, r.ETag)
}

func appendIdentity(b []byte, id mover.Identity) []byte {
	b = append(b, byte(id.Kind))
	b = binary.AppendUvarint(b, id.Dev)
	b = binary.AppendUvarint(b, id.Ino)
	b = binary.AppendUvarint(b, id.Gen)
	b = binary.AppendVarint(b, id.Size)
	b = appendTime(b, id.Mtime)
	b = appendTime(b, id.Ctime)
	b = appendString(b, id.ETag)
	return appendString(b, id.Version)
}

func appendRecord(b []byte, r *Record) []byte {
	var flags byte
	if r.Complete {
		flags |= flagComplete
	}
	if r.Doubted {
		flags |= flagDoubted
	}
	b = appendString(b, r.Name)
	b = appendIdentity(b, r.Source)
	b = appendString(b, r.Token)
	b = binary.AppendVarint(b, r.PartBytes)
	b = binary.LittleEndian.AppendUint64(b, r.CRC)
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(len(r.Receipts)))
	for _, receipt := range r.Receipts {
		b = appendReceipt(b, receipt)
	}
	return b
}

// decoder takes values off b. After the first thing that can not be it gives
// zeros and remembers why; it never panics and allocates at most what b holds.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s in a journal value", mover.ErrCorrupt, what)
	}
	d.b = nil
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("a bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("a bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail("a length beyond the end")
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if v := d.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

func (d *decoder) string() string { return string(d.take(d.uvarint())) }

func (d *decoder) time() mover.Time {
	t := mover.Time{Sec: d.varint()}
	nsec := d.varint()
	if nsec < 0 || nsec > 999_999_999 {
		d.fail("a bad time")
	}
	t.Nsec = int32(nsec)
	return t
}

func (d *decoder) version() {
	if v := d.byte(); d.err == nil && v != version {
		d.fail(fmt.Sprintf("version %d", v))
	}
}

func (d *decoder) identity() mover.Identity {
	return mover.Identity{
		Kind: mover.Kind(d.byte()), Dev: d.uvarint(), Ino: d.uvarint(), Gen: d.uvarint(), Size: d.varint(),
		Mtime: d.time(), Ctime: d.time(), ETag: d.string(), Version: d.string(),
	}
}

func (d *decoder) receipt() mover.Receipt {
	var r mover.Receipt
	index := d.varint()
	if index < 0 || index > math.MaxInt32 {
		d.fail("a bad part number")
	}
	r.Index = int(index)
	r.Off, r.Length = d.varint(), d.varint()
	r.CRC, r.ETag = d.uint64(), d.string()
	return r
}

func (d *decoder) record() Record {
	r := Record{Name: d.string(), Source: d.identity(), Token: mover.Token(d.string()), PartBytes: d.varint(), CRC: d.uint64()}
	flags := d.byte()
	r.Complete, r.Doubted = flags&flagComplete != 0, flags&flagDoubted != 0
	n := d.uvarint()
	if n > uint64(len(d.b)/receiptMin) {
		d.fail("too many receipts")
		return r
	}
	for range n {
		r.Receipts = append(r.Receipts, d.receipt())
	}
	return r
}
