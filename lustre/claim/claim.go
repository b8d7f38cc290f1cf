// Package claim gives project IDs of a file system to directories, each ID to one.
//
// Its words: a [Book] is a directory with one entry for each ID that is given: a symbolic link, made and readable in one call.
// Its target is the mark of the owner. An ID is given from its claim until its owner gives it back, when nothing has it any more. Where a project
// is made together with its directory (btrfs), the file system chooses the ID, and a claim says that something of it may be left.
//
// All state is in the book: a process that is killed leaves a claim that its mark finds again. Two owners that claim at once get two
// IDs. Books of one file system do not know each other. [Fresh] keeps them apart: it asks the file system whether an ID has
// files or limits, and gives it one, under a lock that all of them take ([Lock]).
//
// TestTake and TestBooks show it.
package claim

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// Range is of project IDs, both ends in it. The zero Range has none.
type Range struct{ First, Last uint32 }

// valid says whether there are IDs in it, none of which means something else to the kernel.
func (r Range) valid() bool { return r.First > 0 && r.Last >= r.First && r.Last < 1<<32-1 }

// Book is an open directory with claims.
type Book struct {
	Dir int // the caller's to close
	IDs Range
}

// Take claims an ID that no other owner has, or finds the one that a mark has. A mark has 16 hexadecimal digits or more. fresh says of an ID that was just claimed whether
// nothing outside of this book has it; nil asks nothing.
func (b Book) Take(mark string, fresh func(id uint32) (bool, error)) (uint32, error) {
	if !b.IDs.valid() {
		return 0, fmt.Errorf("%w: there is no range of project IDs to give", mover.ErrUsage)
	}
	sum, err := hex.DecodeString(mark)
	if err != nil || len(sum) < 8 {
		return 0, fmt.Errorf("%w: mark %s", mover.ErrUsage, mover.Printable(mark))
	}
	n := uint64(b.IDs.Last) - uint64(b.IDs.First) + 1
	start := binary.BigEndian.Uint64(sum) % n
	for i := range n {
		id := b.IDs.First + uint32((start+i)%n)
		mine, made, err := b.claim(id, mark)
		if err != nil {
			return 0, err
		}
		if made && fresh != nil {
			if mine, err = fresh(id); err != nil || !mine {
				if err := b.Drop(id); err != nil {
					return 0, err
				}
			}
			if err != nil {
				return 0, err
			}
		}
		if mine {
			return id, nil
		}
	}
	return 0, fmt.Errorf("%w: all project IDs from %d to %d are given", mover.ErrFull, b.IDs.First, b.IDs.Last)
}

// Claim claims one ID, and reports whether the mark has it now.
func (b Book) Claim(id uint32, mark string) (mine bool, err error) {
	mine, _, err = b.claim(id, mark)
	return mine, err
}

func (b Book) claim(id uint32, mark string) (mine, made bool, err error) {
	err = unix.Symlinkat(mark, b.Dir, entry(id))
	switch err {
	case nil:
		return true, true, b.sync()
	case unix.EEXIST:
		has, err := b.Mark(id)
		return has == mark, false, err
	}
	return false, false, b.failed("claim", id, err)
}

// Mark is that of the owner of an ID; "" is none.
func (b Book) Mark(id uint32) (string, error) {
	got := make([]byte, 256)
	n, err := unix.Readlinkat(b.Dir, entry(id), got)
	if err == unix.ENOENT {
		return "", nil
	}
	return string(got[:max(n, 0)]), b.failed("read", id, err)
}

// Drop lets others have an ID.
func (b Book) Drop(id uint32) error {
	if err := unix.Unlinkat(b.Dir, entry(id), 0); err != nil && err != unix.ENOENT {
		return b.failed("give back", id, err)
	}
	return b.sync()
}

// GiveBack drops an ID if the mark has it. Without a project it drops all that the mark has.
func (b Book) GiveBack(mark string, p *lustre.Project) error {
	all := []uint32{}
	if p != nil {
		all = append(all, p.ID)
	} else if err := b.Each(func(id uint32) error { all = append(all, id); return nil }); err != nil {
		return err
	}
	for _, id := range all {
		has, err := b.Mark(id)
		if err == nil && has == mark && mark != "" {
			err = b.Drop(id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Each does something for each ID that is claimed, until that fails.
func (b Book) Each(do func(id uint32) error) error {
	fd, err := unix.Openat(b.Dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &mover.Error{Op: "open", Location: b.name(), Err: err}
	}
	d := os.NewFile(uintptr(fd), b.name())
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if id, err := strconv.ParseUint(name, 10, 32); err == nil {
			if err := do(uint32(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Forget drops an ID of a project that was removed, when the file system keeps nothing of it.
func (b Book) Forget(ctx context.Context, t lustre.ProjectTender, fd int, id uint32) error {
	gone, err := t.Forget(ctx, fd, lustre.Project{ID: id, Inherit: true})
	if err != nil || !gone {
		return err
	}
	return b.Drop(id)
}

// Fresh asks a file system that has project IDs of its own (ext4, xfs) whether an ID is of nothing, and gives it a limit then, by which other books
// see that it is given. The caller has the Lock.
func Fresh(ctx context.Context, q lustre.Quotas, fd int, l lustre.Limits) func(id uint32) (bool, error) {
	return func(id uint32) (bool, error) {
		p := lustre.Project{ID: id, Inherit: true}
		has, err := q.Quota(ctx, fd, p)
		if err != nil || has.UsedBytes != 0 || has.UsedFiles != 0 || has.Limits != (lustre.Limits{}) {
			return false, err
		}
		return true, q.SetQuota(ctx, fd, p, l)
	}
}

// Lock waits until no other book of a file system is given an ID. root is an open directory: the root of it.
func Lock(root int) (unlock func(), err error) {
	for {
		switch err := unix.Flock(root, unix.LOCK_EX); err {
		case nil:
			return func() { _ = unix.Flock(root, unix.LOCK_UN) }, nil
		case unix.EINTR:
		default:
			return nil, fmt.Errorf("lock %s: %w", nameOf(root), err)
		}
	}
}

func entry(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

func (b Book) failed(op string, id uint32, err error) error {
	if err == nil {
		return nil
	}
	return &mover.Error{Op: op, Location: b.name(), Name: entry(id), Err: err}
}

// sync puts claims on stable storage.
func (b Book) sync() error {
	if err := unix.Fsync(b.Dir); err != nil && err != unix.EINVAL { // some network file systems have none for directories
		return &mover.Error{Op: "sync", Location: b.name(), Err: err}
	}
	return nil
}

func (b Book) name() string { return nameOf(b.Dir) }

func nameOf(fd int) string {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "descriptor " + strconv.Itoa(fd)
	}
	return name
}
