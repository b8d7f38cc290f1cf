package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// fakeLog is the change log of an MDT and its device on a client, as the sources of Lustre
// 2.17 have them: what it clears and refuses, and a device that comes to its end once.
type fakeLog struct {
	mu      sync.Mutex
	log     []lustre.Change   // in the order in which they were written
	counted uint64            // mc_index
	readers map[uint32]uint64 // up to where each has cleared
	heard   map[uint32]int    // how often a reader was heard
	denied  error             // what opening answers
	opened  int               // devices that are open
	perRead int               // records in one read; 0 is as many as fit
	onRead  func()            // what happens on the server before a read
	onClose error             // what closing a device answers
	version string            // of Lustre; "" is not known, and refuses as 2.17.0 does
}

// refusal is what clearing before where a reader stands answers (LU-20351).
func (l *fakeLog) refusal() error {
	if l.version == "2.17.57" {
		return unix.ENOENT
	}
	return unix.EINVAL
}

func newFakeLog(records ...lustre.Change) *fakeLog {
	l := &fakeLog{version: "2.17.0", readers: map[uint32]uint64{1: 0}, heard: make(map[uint32]int)}
	l.write(records...)
	return l
}

// change is a record, long settled.
func change(index uint64) lustre.Change {
	return lustre.Change{
		Index: index, Type: lustre.ChangeCreate, Name: fmt.Sprint("f", index), File: lustre.FID{Seq: 1, OID: uint32(index)},
		Time: time.Unix(1795184235+int64(index), 0).UTC(), Client: "0@lo", Known: lustre.KnowsClient,
	}
}

func span(first, last uint64) (records []lustre.Change) {
	for i := first; i <= last; i++ {
		records = append(records, change(i))
	}
	return records
}

func (l *fakeLog) write(records ...lustre.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.log = append(l.log, r)
		l.counted = max(l.counted, r.Index)
	}
}

// clear is mdd_changelog_clear: 0 is everything, a place beyond the log or before where a
// reader stands is refused, and what all readers have cleared is gone.
func (l *fakeLog) clear(reader uint32, upTo uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if upTo > l.counted {
		return unix.EINVAL
	}
	at, registered := l.readers[reader]
	if !registered {
		return unix.ENOENT
	}
	upTo = cmp.Or(upTo, l.counted)
	if at > upTo {
		if l.version == "2.17.54" { // it forgets who asked
			delete(l.readers, reader)
		}
		return l.refusal()
	}
	l.readers[reader] = upTo
	l.heard[reader]++
	for _, other := range l.readers {
		upTo = min(upTo, other)
	}
	l.log = slices.DeleteFunc(l.log, func(c lustre.Change) bool { return c.Index <= upTo })
	return nil
}

func (l *fakeLog) names() ([]string, error) {
	return []string{
		"/dev/changelog-lab-MDT0001", "/dev/changelog-lab-MDT0000", "/dev/changelog-other-MDT0000", "/dev/changelog-lab-MDTxyz", "/dev/changelog-lab-MDT00001",
	}, l.denied
}

func (l *fakeLog) open(name string, mode int) (device, error) {
	if l.denied != nil {
		return nil, l.denied
	}
	if name != "changelog-lab-MDT0000" {
		return nil, unix.ENOENT
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	return &fakeDevice{l: l, writes: mode == unix.O_WRONLY}, nil
}

type fakeDevice struct {
	l      *fakeLog
	writes bool
	began  bool
	first  uint64
	queue  []lustre.Change // what is left of the log as it was at the first read
}

func (d *fakeDevice) setFlags(flags uintptr) error {
	if d.began || flags != uapi.ChangeBigNID {
		return unix.EINVAL
	}
	return nil
}

func (d *fakeDevice) seek(index uint64) error {
	if d.began || index < d.first {
		return unix.EINVAL // it does not go backward
	}
	d.first = index
	return nil
}

func (d *fakeDevice) read(ctx context.Context, p []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if d.l.onRead != nil {
		d.l.onRead()
	}
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	if !d.began {
		d.began = true
		for _, c := range d.l.log {
			if c.Index >= d.first {
				d.queue = append(d.queue, c)
			}
		}
	}
	read := p[:0]
	for n := 0; len(d.queue) > 0 && (d.l.perRead == 0 || n < d.l.perRead); n++ {
		record := uapi.AppendChange(nil, d.queue[0], true)
		if len(read)+len(record) > len(p) {
			break // with no room for one, this is an end
		}
		read, d.queue = append(read, record...), d.queue[1:]
	}
	return len(read), nil
}

func (d *fakeDevice) write(p []byte) error {
	var reader uint32
	var upTo uint64
	if !d.writes || len(p) > 64 {
		return unix.EINVAL
	}
	if n, _ := fmt.Sscanf(string(p), "clear:cl%d:%d", &reader, &upTo); n != 2 {
		return unix.EINVAL
	}
	return d.l.clear(reader, upTo)
}

func (d *fakeDevice) close() error {
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	d.l.opened--
	return d.l.onClose
}
