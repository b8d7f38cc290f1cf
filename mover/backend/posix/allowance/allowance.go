// Package allowance holds the writes of this process to what a file system does not hold them to itself: the quota of a project, and the part of the file system that stays free.
//
// A [Limit] asks at most once in five seconds, or each second where a part stays free, and counts in between what is taken; what other processes
// write is seen when it asks again. All methods may be called from many goroutines. What would be too much is mover.ErrFull. TestAllowance of package posix shows it.
package allowance

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Limit holds this process to the quota of the project that it writes into, where the
// file system does not: Lustre and ext4 let root go beyond it; and to the part of the file
// system that stays free. What other processes write, and what is in caches, is seen when it
// is asked again.
type Limit struct {
	FileSystem mover.FileSystem // nil holds to no quota
	KeepFree   int              // percent of the file system; 0 is nothing

	mu    sync.Mutex
	asked time.Time // guarded by mu, as all below
	free  bool      // nothing to hold to
	room  mover.Room
}

// allowanceAge is how old an answer may be, and freeAge an answer about free space, which all writers on the file system share.
const (
	allowanceAge = 5 * time.Second
	freeAge      = time.Second
)

// Entry is called before something is made that will have so many bytes, which are
// taken as they are written. It is ErrFull when they, or one more entry, would be too much.
func (a *Limit) Entry(dir int, bytes int64) error { return a.take(dir, bytes, 0, 1) }

// Bytes is called before so many are written.
func (a *Limit) Bytes(dir int, n int64) error { return a.take(dir, n, n, 0) }

func (a *Limit) take(dir int, need, bytes, files int64) error {
	if a.FileSystem == nil && a.KeepFree == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	age := allowanceAge
	if a.KeepFree > 0 {
		age = freeAge
	}
	if time.Since(a.asked) > age {
		if err := a.ask(dir); err != nil {
			return err
		}
	}
	switch {
	case a.free:
		return nil
	case a.room.Bytes >= 0 && need > a.room.Bytes, a.room.Files >= 0 && files > a.room.Files:
		a.asked = time.Time{} // there may be more by the next try
		if need > 0 {
			return fmt.Errorf("%w for %s, %s are left: %s", mover.ErrFull, units.Bytes(need), units.Bytes(max(a.room.Bytes, 0)), a.room.Why)
		}
		return fmt.Errorf("%w: %s", mover.ErrFull, a.room.Why)
	}
	if a.room.Bytes >= 0 {
		a.room.Bytes -= bytes
	}
	if a.room.Files >= 0 {
		a.room.Files -= files
	}
	return nil
}

// Left is what the answer is now; limited is false where there is nothing to hold to.
func (a *Limit) Left(dir int) (room mover.Room, limited bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err = a.ask(dir)
	return a.room, !a.free, err
}

func (a *Limit) ask(dir int) error {
	room, limited := mover.Room{Bytes: -1, Files: -1}, false
	if a.FileSystem != nil {
		left, is, err := a.FileSystem.Left(dir)
		if err != nil && !errors.Is(err, mover.ErrUnsupported) {
			return fmt.Errorf("quota of the project: %w", err)
		}
		if limited = is && err == nil; limited {
			room = left
		}
	}
	if a.KeepFree > 0 {
		var st unix.Statfs_t
		if err := unix.Fstatfs(dir, &st); err != nil {
			return fmt.Errorf("free space: %w", err)
		}
		room, limited = above(st.Blocks*uint64(st.Bsize), st.Bavail*uint64(st.Bsize), a.KeepFree, room), true
	}
	a.room, a.free, a.asked = room, !limited, time.Now()
	return nil
}

// above is the room that is left where a part of the file system stays free, too.
func above(total, free uint64, keep int, room mover.Room) mover.Room {
	left := int64(free) - mover.Kept(int64(total), keep)
	if room.Bytes < 0 || left < room.Bytes {
		room.Bytes, room.Why = max(left, 0), fmt.Sprintf("%d%% of the file system stay free (keep_free)", keep)
	}
	return room
}
