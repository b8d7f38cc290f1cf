package volumestore

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// Space is how full a file system is.
type Space struct {
	TotalBytes, FreeBytes int64
	GivenBytes            int64 // the capacities of all volumes together, also of snapshots and of what is in the trash
	RoomBytes             int64 // what can be promised still
	Volumes               int
	Enforces              bool // it can hold a volume to its capacity
}

// promise gives a volume so many bytes more, if there is room for them. It holds a lock while write records
// them, so that the next call counts them and no other call counts in between. Elsewhere than on the disk of
// a node nothing is promised.
func (b *Base) promise(ctx context.Context, bytes int64, write func() error) error {
	if b.spec.Promise == nil || bytes <= 0 {
		return write()
	}
	// A lock of this descriptor, against other calls and other processes. It ends with them.
	if err := b.top.lock(); err != nil {
		return err
	}
	defer b.top.unlock()
	s, err := b.Space(ctx)
	if err != nil {
		return err
	}
	if bytes > s.RoomBytes {
		return fmt.Errorf("%w: file system %s can promise %d bytes more, and not %d", mover.ErrFull, b.spec.Name, s.RoomBytes, bytes)
	}
	return write()
}

func (d dir) lock() error {
	for {
		err := unix.Flock(int(d), unix.LOCK_EX)
		if err != unix.EINTR {
			return failed("lock", d, "", err)
		}
	}
}

func (d dir) unlock() { _ = unix.Flock(int(d), unix.LOCK_UN) }

// Space says how full the file system is, and how much of it was promised to volumes. What can be promised still is what is
// not promised yet, and no more than what is free beside what was promised and is not written yet. Others
// may have filled the rest.
func (b *Base) Space(ctx context.Context) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(b.handle.FD(), &st); err != nil {
		return Space{}, err
	}
	s := Space{TotalBytes: lustre.Times(st.Blocks, uint64(st.Bsize)), FreeBytes: lustre.Times(st.Bavail, uint64(st.Bsize)), Enforces: b.handle.System.Quota != nil}
	var written int64 // of what was given
	for _, name := range []string{volumesDir, snapshotsDir, makingDir, trashDir} {
		used, err := b.given(ctx, name, &s)
		if err != nil {
			return Space{}, err
		}
		written += used
	}
	p := b.spec.Promise
	if p == nil {
		s.RoomBytes = s.FreeBytes
		return s, nil
	}
	room := s.TotalBytes - mover.Kept(s.TotalBytes, p.KeepFree)
	if s.Enforces { // else it is not known which volumes the rest belongs to
		kept, err := b.kept(ctx)
		if err != nil {
			return Space{}, err
		}
		room = min(room, s.FreeBytes+written+kept)
	}
	s.RoomBytes = max(0, room-s.GivenBytes)
	return s, nil
}

// given adds what the volumes in a directory of the base were promised, and returns how much of that they have written.
// What lies in the trash is held by its bytes still.
func (b *Base) given(ctx context.Context, name string, s *Space) (written int64, err error) {
	err = b.each(name, func(r *Record) {
		s.GivenBytes += r.Bytes
		if name == volumesDir {
			s.Volumes++
		}
		if b.spec.Promise != nil && r.Project != nil && !r.snapshot() { // a snapshot may share all that it has
			written += min(r.Bytes, b.written(ctx, *r.Project))
		}
	})
	return written, errors.Join(err, ctx.Err())
}

// each reads the records in a directory of the base. What has none that can be read is being made, or being removed.
func (b *Base) each(name string, do func(*Record)) error {
	home, err := b.in(name)
	if err != nil {
		return err
	}
	defer home.close()
	keys, err := home.names()
	for _, key := range keys {
		var r Record
		at, err := home.sub(key)
		if err != nil {
			continue
		}
		if at.read(recordFile, &r) == nil {
			do(&r)
		}
		at.close()
	}
	return err
}

// kept is what snapshots have that was written by volumes which are gone: with simple quotas of btrfs it counts for them still.
func (b *Base) kept(ctx context.Context) (bytes int64, err error) {
	if _, ok := b.handle.System.Quota.(lustre.ProjectTender); !ok {
		return 0, nil
	}
	book, done, err := b.book()
	if err != nil {
		return 0, err
	}
	defer done()
	err = book.Each(func(id uint32) error {
		bytes += b.written(ctx, lustre.Project{ID: id, Inherit: true})
		return ctx.Err()
	})
	return bytes, err
}

// written is how much a project has. What can not be asked counts as nothing, so that less is promised.
func (b *Base) written(ctx context.Context, p lustre.Project) int64 {
	if b.handle.System.Quota == nil {
		return 0
	}
	q, err := b.handle.System.Quota.Quota(ctx, b.handle.FD(), p)
	if err != nil {
		return 0
	}
	return q.UsedBytes
}
