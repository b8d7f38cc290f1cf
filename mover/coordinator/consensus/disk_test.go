package consensus

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// disk keeps the log and the vote of a member in memory. What is written and not yet synced may be lost in part; a slow one takes its time to sync.
type disk struct {
	mu     sync.Mutex // guards all below
	random *rand.Rand
	slow   time.Duration // no sync takes longer
	frozen bool          // the member is dead: nothing is written any more
	first  uint64
	logs   []raft.Log
	synced int // of logs
	values map[string][]byte
}

func newDisk(seed uint64) *disk {
	return &disk{random: rand.New(rand.NewPCG(seed, 77)), first: 1, values: map[string][]byte{}}
}

var errDead = errors.New("the disk is gone")

// freeze is the death of the member.
func (d *disk) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = true
	if lost := len(d.logs) - d.synced; lost > 0 {
		d.logs = d.logs[:d.synced+d.random.IntN(lost+1)]
	}
	d.synced = len(d.logs)
}

func (d *disk) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = false
}

func (d *disk) FirstIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.logs) == 0 {
		return 0, nil
	}
	return d.first, nil
}

func (d *disk) LastIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.logs) == 0 {
		return 0, nil
	}
	return d.first + uint64(len(d.logs)) - 1, nil
}

func (d *disk) GetLog(index uint64, into *raft.Log) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if index < d.first || index >= d.first+uint64(len(d.logs)) {
		return raft.ErrLogNotFound
	}
	*into = d.logs[index-d.first]
	return nil
}

func (d *disk) StoreLog(entry *raft.Log) error { return d.StoreLogs([]*raft.Log{entry}) }

func (d *disk) StoreLogs(entries []*raft.Log) error {
	late, err := d.write(entries)
	if err != nil {
		return err
	}
	time.Sleep(late)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen {
		return errDead
	}
	d.synced = len(d.logs)
	return nil
}

func (d *disk) write(entries []*raft.Log) (late time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen {
		return 0, errDead
	}
	next := d.first + uint64(len(d.logs))
	switch {
	case len(d.logs) == 0:
		d.first = entries[0].Index
	case entries[0].Index > next:
		d.first, d.logs, d.synced = entries[0].Index, nil, 0
	case entries[0].Index < next:
		return 0, mover.ErrConflict
	}
	for _, e := range entries {
		d.logs = append(d.logs, *e)
	}
	if d.slow > 0 {
		late = time.Duration(d.random.Int64N(int64(d.slow)))
	}
	return late, nil
}

func (d *disk) DeleteRange(from, to uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen {
		return errDead
	}
	last := d.first + uint64(len(d.logs)) - 1
	switch {
	case from <= d.first && to >= last:
		d.logs = nil
	case from <= d.first:
		d.logs, d.first = d.logs[to+1-d.first:], to+1
	default:
		d.logs = d.logs[:from-d.first]
	}
	d.synced = len(d.logs)
	return nil
}

func (d *disk) Set(key, value []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.frozen { // a vote that is not kept is not heard of either: the network is gone with the disk
		d.values[string(key)] = append([]byte(nil), value...)
	}
	return nil
}

func (d *disk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.values[string(key)], nil
}

func (d *disk) SetUint64(key []byte, n uint64) error {
	return d.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

func (d *disk) GetUint64(key []byte) (uint64, error) {
	b, _ := d.Get(key)
	if b == nil {
		return 0, nil
	}
	return binary.BigEndian.Uint64(b), nil
}

// imageOf copies a directory with the holes of its files.
func imageOf(t testing.TB, dir, to string) {
	t.Helper()
	must.Do(t, os.RemoveAll(to))
	must.Do(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		return copyFile(path, filepath.Join(to, rel))
	}))
}

func copyFile(path, to string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	st, err := from.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < st.Size(); {
		data, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(int(from.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, data), io.NewSectionReader(from, data, hole-data)); err != nil {
			return err
		}
		at = hole
	}
	return out.Truncate(st.Size())
}
