package localfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// levelShift is where the level of a group begins in its ID.
const levelShift = 48

// fenceOf is the group around a subvolume, 1/ID. What is nested in the subvolume is in it,
// too, so that its limit holds for all of that together. Subvolumes never get an ID twice.
func fenceOf(id uint64) uint64 { return 1<<levelShift | id }

// fence makes the group around a subvolume, or finds it made, with everything that lies in the
// subvolume, and returns it. Where a group of that ID has another use, fence returns the
// subvolume's own group.
func (s *Subvolumes) fence(ctx context.Context, fd int, id uint64) (uint64, error) {
	around := fenceOf(id)
	if err := createGroup(fd, around); err != nil && err != unix.EEXIST {
		return 0, err
	}
	_, member, err := search(fd, key{quotaTree, around, relationItem, 0}, around-1)
	if err != nil {
		return 0, err
	}
	if member != 0 {
		if mine, err := related(fd, id, around); err != nil || !mine {
			return id, err
		}
	}
	if err := assignGroup(fd, id, around); err != nil {
		return 0, err
	}
	return around, s.Gather(ctx, fd, lustre.Project{ID: uint32(id)})
}

// fenced reports whether a subvolume has a group around it. Without the right to ask for relations, it looks for the group by its ID.
func (s *Subvolumes) fenced(fd int, id uint64) (bool, error) {
	is, err := related(fd, id, fenceOf(id))
	switch {
	case errors.Is(err, unix.EPERM):
		g, err := s.group(fd, fenceOf(id))
		return g.exists, err
	case errors.Is(err, unix.ENOENT): // no quotas
		return false, nil
	}
	return is, err
}

// Gather puts what lies in a subvolume into the group around it. Simple quotas do that
// themselves when a subvolume is made in another one. Without any privilege, though, its
// maker may name the groups of the new one, and name none.
func (s *Subvolumes) Gather(ctx context.Context, fd int, p lustre.Project) error {
	around := fenceOf(uint64(p.ID))
	is, err := s.fenced(fd, uint64(p.ID))
	if err != nil || !is {
		return err
	}
	for id, err := range nested(fd, uint64(p.ID)) {
		if err != nil {
			return failed("subvolumes in it", fd, err, quotaHints)
		}
		if err := ended(ctx); err != nil {
			return err
		}
		switch is, err := related(fd, id, around); {
		case err != nil:
			return failed("groups of subvolumes", fd, err, quotaHints)
		case is:
			continue
		}
		if err := assignGroup(fd, id, around); err != nil && err != unix.ENOENT { // it went meanwhile
			return failed(fmt.Sprintf("put subvolume %d into group 1/%d", id, p.ID), fd, err, quotaHints)
		}
	}
	return nil
}

// Forget removes the groups of a subvolume that was removed, and reports whether none is left. They stay until
// the kernel has cleaned up, and, with simple quotas, for as long as a snapshot has bytes that
// were written in them.
func (s *Subvolumes) Forget(ctx context.Context, fd int, p lustre.Project) (gone bool, err error) {
	if err := ended(ctx); err != nil {
		return false, err
	}
	id, around := uint64(p.ID), fenceOf(uint64(p.ID))
	for member := uint64(0); ; member++ {
		_, member, err = search(fd, key{quotaTree, around, relationItem, member}, around-1)
		if err == unix.ENOENT { // no quotas
			return true, nil
		}
		if err != nil {
			return false, failed("groups", fd, err, quotaHints)
		}
		if member == 0 {
			break
		}
		if _, err := forgetGroup(fd, member); err != nil {
			return false, failed("remove a group", fd, err, quotaHints)
		}
	}
	for _, group := range []uint64{id, around} {
		switch gone, err := forgetGroup(fd, group); {
		case err != nil:
			return false, failed("remove a group", fd, err, quotaHints)
		case !gone:
			return false, nil
		}
	}
	return true, nil
}

// forgetGroup removes a group, if nothing is in it and its subvolume is gone.
func forgetGroup(fd int, group uint64) (gone bool, err error) {
	item, _, err := search(fd, key{rootTree, group, rootItem, 0}, math.MaxUint64)
	if err != nil || item != nil {
		return false, err
	}
	switch err := removeGroup(fd, group); err {
	case nil, unix.ENOENT, unix.ENOTCONN:
		return true, nil
	case unix.EBUSY:
		return false, nil
	default:
		return false, err
	}
}

// related reports whether a group is in another one.
func related(fd int, group, around uint64) (bool, error) {
	_, offset, err := search(fd, key{quotaTree, group, relationItem, around}, around)
	return offset == around, err
}

// limitGroup sets or takes away the limit of a group.
func limitGroup(fd int, group uint64, bytes int64) error {
	b := make([]byte, 48) // struct btrfs_ioctl_qgroup_limit_args
	put := binary.NativeEndian.PutUint64
	put(b[0:], group)
	put(b[8:], limitReferenced)
	put(b[16:], uint64(bytes))
	if bytes == 0 {
		put(b[16:], ^uint64(0)) // the value that takes it away
	}
	return changeGroups(fd, qgroupLimit, b)
}

// createGroup makes a group; unix.EEXIST where there is one.
func createGroup(fd int, group uint64) error { return askGroup(fd, 1, group) }

// removeGroup removes one; unix.EBUSY while something is in it, or counted.
func removeGroup(fd int, group uint64) error { return askGroup(fd, 0, group) }

func askGroup(fd int, create, group uint64) error {
	b := make([]byte, 16) // struct btrfs_ioctl_qgroup_create_args
	binary.NativeEndian.PutUint64(b, create)
	binary.NativeEndian.PutUint64(b[8:], group)
	return changeGroups(fd, qgroupCreate, b)
}

// assignGroup puts a group into another one. It may be there.
func assignGroup(fd int, group, around uint64) error {
	b := make([]byte, 24) // struct btrfs_ioctl_qgroup_assign_args
	for i, v := range []uint64{1, group, around} {
		binary.NativeEndian.PutUint64(b[8*i:], v)
	}
	if err := changeGroups(fd, qgroupAssign, b); err != unix.EEXIST {
		return err
	}
	return nil
}

// changeGroups is a call that changes groups, by a descriptor in a subvolume that may be full.
func changeGroups(fd int, request uint, arg []byte) error {
	err := ioctl(fd, request, arg)
	if err == unix.EDQUOT {
		err = fromOutside(fd, func(fd int) error { return ioctl(fd, request, arg) })
	}
	return err
}
