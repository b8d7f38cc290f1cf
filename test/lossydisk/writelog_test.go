package lossydisk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"reflect"
	"testing"

	"datamove.dev/test/must"
)

// logged is an entry as the kernel writes it, with sectors of 1 KiB: of another size than
// those of a Disk.
type logged struct {
	sector, sectors, flags uint64
	data                   []byte // of a mark: its text
}

const logSector = 2 * sectorBytes

func encode(entries ...logged) []byte {
	words := func(b []byte, words ...uint64) {
		for i, w := range words {
			binary.LittleEndian.PutUint64(b[8*i:], w)
		}
	}
	log := make([]byte, logSector)
	words(log, logMagic, logVersion, uint64(len(entries)), logSector)
	for _, e := range entries {
		head := make([]byte, logSector)
		words(head, e.sector, e.sectors, e.flags, 0)
		if e.flags == logMark {
			words(head[24:], uint64(len(e.data)))
			copy(head[logEntryBytes:], e.data)
			e.data = nil
		}
		log = append(append(log, head...), e.data...)
	}
	return append(log, fill(8, 'x')...) // the device is larger than the log
}

// readAll reads a log to its end.
func readAll(log []byte) (all []Entry, err error) {
	l, err := ReadLog(bytes.NewReader(log), int64(len(log)))
	for err == nil {
		var e Entry
		if e, err = l.Next(); err == nil {
			all = append(all, e)
		}
	}
	return all, err
}

func TestLog(t *testing.T) {
	got, err := readAll(encode(
		logged{3, 2, 0, fill(4, 'a')},
		logged{0, 0, logFlush, nil},
		logged{9, 1, logFlush | logFUA | 1<<4, fill(2, 'b')},
		logged{0, 0, logMark, []byte("said")},
		logged{1, 1 << 40, logDiscard, nil},
		logged{5, 1, logFUA, fill(2, 'c')}))
	want := []Entry{
		{Off: 3 * logSector, Data: fill(4, 'a')}, {Data: []byte{}, Flush: true},
		{Off: 9 * logSector, Data: fill(2, 'b'), Flush: true, FUA: true}, {Mark: "said"}, {},
		{Off: 5 * logSector, Data: fill(2, 'c'), FUA: true},
	}
	if err != io.EOF || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\n%.200v, want\n%.200v", err, got, want)
	}
}

// TestApply: a cut has what was flushed or forced, and of the rest anything.
func TestApply(t *testing.T) {
	lost := 0
	for seed := range uint64(32) {
		d, cut := disk(t, seed)
		for _, e := range []Entry{
			{Off: 0, Data: fill(1, 'a')}, {Flush: true},
			{Off: 1 * sectorBytes, Data: fill(1, 'p')}, // the next one is on the medium, so it is not what the sector has
			{Off: 1 * sectorBytes, Data: fill(1, 'b'), FUA: true},
			{Off: 2 * sectorBytes, Data: fill(1, 'c')},
			{Off: 3 * sectorBytes, Data: fill(1, 'd'), Flush: true, FUA: true}, // of what is before, not of itself
			{Mark: "here"}, {Off: 4 * sectorBytes, Data: fill(1, 'e'), Flush: true},
		} {
			must.Do(t, d.Apply(e))
		}
		must.Do(t, d.Cut(cut))
		got := must.Get(os.ReadFile(cut))(t)
		seen := ""
		for i := range 5 {
			seen += string(got[i*sectorBytes])
		}
		switch seen {
		case "abcdo":
			lost++
		case "abcde":
		default:
			t.Errorf("seed %d: the disk has %q", seed, seen)
		}
	}
	if lost == 0 || lost == 32 {
		t.Errorf("what was not flushed was lost %d times of 32", lost)
	}
	d, _ := disk(t, 1)
	for _, off := range []int64{-1, bytesOf - 1, bytesOf + 1, math.MaxInt64} {
		if err := d.Apply(Entry{Off: off, Data: fill(1, 'x')}); !errors.Is(err, errLog) {
			t.Errorf("a write at byte %d of %d: %v", off, bytesOf, err)
		}
	}
}

// damaged are logs of which nobody may believe everything.
func damaged() (all [][]byte) {
	good := encode(logged{3, 2, logFUA, fill(4, 'a')}, logged{0, 0, logMark, []byte("said")})
	for at, value := range map[int]uint64{
		0: 1, 8: 2, 16: math.MaxUint64, 24: 511, // the head of the log: magic, version, entries, sector
		logSector: math.MaxUint64, logSector + 8: math.MaxUint64 / 512, // where, and how much
		4*logSector + 24: logSector, // a mark
	} {
		bad := bytes.Clone(good)
		binary.LittleEndian.PutUint64(bad[at:], value)
		all = append(all, bad)
	}
	return append(all, good[:20], good[:logSector+7], good[:3*logSector])
}

func TestDamagedLog(t *testing.T) {
	for _, log := range damaged() {
		if _, err := readAll(log); !errors.Is(err, errLog) {
			t.Errorf("%x... is read to its end: %v", log[:20], err)
		}
	}
}

// FuzzLog: whatever is on a device, reading it ends, with no more than there is.
func FuzzLog(f *testing.F) {
	for _, log := range damaged() {
		f.Add(log)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		all, err := readAll(log)
		if err != io.EOF && !errors.Is(err, errLog) {
			t.Errorf("it ended with %v", err)
		}
		sum := 0
		for _, e := range all {
			sum += len(e.Data) + len(e.Mark)
		}
		if sum > len(log) {
			t.Errorf("%d bytes out of a log of %d", sum, len(log))
		}
	})
}
