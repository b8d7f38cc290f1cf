package kvstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Ballast is a file of blocks that nothing uses, on the disk of stores. A full disk gets them back, so that stores open, and what ends and
// removes things has room. From then until they can be taken again nothing new should be taken in: see [Ballast.Admits].
//
// The zero value and nil have no blocks, and admit everything.
type Ballast struct {
	path  string
	bytes int64
	room  int64 // that has to be free beside it
	log   *slog.Logger

	mu  sync.Mutex
	low bool // its blocks were given back; guarded by mu
}

// spareBytes of the disk, or a tenth of a smaller one, are kept from what is not of the stores.
const spareBytes = 1 << 30

// BallastName is the name of the file.
const BallastName = "ballast"

// OpenBallast finds the ballast in a directory, or makes it where the disk has much more room than that: on a small disk, and in memory, there is none.
// Where less than room is free, the blocks are given back at once.
func OpenBallast(dir string, bytes, room int64, log *slog.Logger) (*Ballast, error) {
	b := &Ballast{path: filepath.Join(dir, BallastName), bytes: bytes, room: room, log: log}
	held, there, err := b.held()
	if err != nil {
		return nil, err
	}
	disk, err := b.disk()
	if err != nil {
		return nil, err
	}
	free := int64(disk.Bavail) * disk.Bsize
	b.low = there && !held
	switch {
	case held && free < room:
		b.Release()
	case b.low:
		if b.Admits() != nil {
			b.warn(free)
		}
	case !there && free >= b.enough() && disk.Type != unix.TMPFS_MAGIC:
		err = b.take()
	}
	return b, err
}

// enough has to be free before the blocks are taken.
func (b *Ballast) enough() int64 { return b.bytes + 2*b.room }

// held says whether the file has its blocks, and whether it is there: it is left without blocks when they are given back.
func (b *Ballast) held() (held, there bool, err error) {
	var st unix.Stat_t
	switch err := unix.Lstat(b.path, &st); {
	case errors.Is(err, fs.ErrNotExist):
		return false, false, nil
	case err != nil:
		return false, false, err
	}
	return st.Blocks*512 >= b.bytes, true, nil
}

func (b *Ballast) free() (int64, error) {
	st, err := b.disk()
	return int64(st.Bavail) * st.Bsize, err
}

func (b *Ballast) disk() (st unix.Statfs_t, err error) {
	err = unix.Statfs(filepath.Dir(b.path), &st)
	return st, err
}

// take allocates the blocks. Not every file system can; one that can not has no ballast.
func (b *Ballast) take() error {
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, b.bytes)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		b.low = false
		return nil
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return os.Remove(b.path)
	}
	return errors.Join(Kind(err), os.Truncate(b.path, 0))
}

// Release gives the blocks back to the disk, and reports whether there were any.
func (b *Ballast) Release() bool {
	if b == nil || b.path == "" {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	held, _, err := b.held()
	if err != nil || !held {
		return false
	}
	free, _ := b.free()                                                           // for people
	if err := errors.Join(os.Truncate(b.path, 0), SyncFile(b.path)); err != nil { // blocks are free when that is on stable storage
		b.log.Error("the ballast can not be given back to a full disk", "ballast", b.path, "err", err)
		return false
	}
	b.low = true
	b.warn(free)
	return true
}

func (b *Ballast) warn(free int64) {
	if b.low {
		b.log.Error("the disk is full: nothing new is taken until there is room", "directory", filepath.Dir(b.path), "free", units.Bytes(free), "needed", units.Bytes(b.enough()))
	}
}

// Admits says why nothing new should be taken: mover.ErrFull, from when the blocks were given back until they could be taken again.
func (b *Ballast) Admits() error {
	if b == nil || b.path == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.low {
		return nil
	}
	free, err := b.free()
	if err == nil && free >= b.enough() {
		err = b.take()
	}
	if !b.low {
		b.log.Info("the disk has room again: new work is taken", "directory", filepath.Dir(b.path), "free", units.Bytes(free))
		return nil
	}
	if err != nil {
		return &mover.Error{Op: "make room in", Location: filepath.Dir(b.path), Err: err}
	}
	return &mover.Error{Op: "take new work", Location: filepath.Dir(b.path), Err: fmt.Errorf("%w: %s free on the disk of the service, which needs %s; make room there: what ends, is cancelled or forgotten goes on",
		mover.ErrFull, units.Bytes(free), units.Bytes(b.enough()))}
}

// Room says why the stores can not be opened: mover.ErrFull where less is free than that needs, also with the blocks of the ballast. A disk that is smaller than that
// never has it, which is mover.ErrRefused.
func (b *Ballast) Room() error {
	if b == nil || b.path == "" {
		return nil
	}
	st, err := b.disk()
	if err != nil {
		return &mover.Error{Op: "make room in", Location: filepath.Dir(b.path), Err: err}
	}
	size, free := int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	switch {
	case free >= b.room:
		return nil
	case size < b.room:
		err = fmt.Errorf("%w: the disk has %s, and the service needs %s to begin; have its directory on a larger one (data in the configuration)", mover.ErrRefused, units.Bytes(size), units.Bytes(b.room))
	default:
		err = fmt.Errorf("%w: %s free on the disk of the service, which needs %s to begin, and %s to take new work; remove there what is not of the service", mover.ErrFull, units.Bytes(free), units.Bytes(b.room), units.Bytes(b.enough()))
	}
	return &mover.Error{Op: "make room in", Location: filepath.Dir(b.path), Err: err}
}

// Spares says why what is not of the stores should not be written to a directory: mover.ErrFull where it is on this disk, and that has little room.
func (b *Ballast) Spares(dir string) error {
	if b == nil || b.path == "" {
		return nil
	}
	var own, other unix.Stat_t
	if unix.Stat(filepath.Dir(b.path), &own) != nil || unix.Stat(dir, &other) != nil || own.Dev != other.Dev {
		return nil
	}
	if err := b.Admits(); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &mover.Error{Op: "look at the disk of", Location: dir, Err: err}
	}
	if free, keep := int64(st.Bavail)*st.Bsize, min(spareBytes, int64(st.Blocks)*st.Bsize/10); free < keep {
		return &mover.Error{Op: "write journals to", Location: dir, Err: fmt.Errorf("%w: %s free on the disk of the ledger, for which %s are kept; make room there, or have journals on another disk (agent.journals in the configuration)",
			mover.ErrFull, units.Bytes(free), units.Bytes(keep))}
	}
	return nil
}
