package localfs

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math"

	"golang.org/x/sys/unix"
)

// within returns the first subvolume, of an ID from one on, that lies in another one; 0 is none.
func within(fd int, outer, from uint64) (uint64, error) {
	_, id, err := search(fd, key{rootTree, outer, rootRefItem, from}, math.MaxUint64)
	return id, err
}

// nested yields the subvolumes that lie in another one, and in those. What is remembered
// on the way is one number for each level.
func nested(fd int, outer uint64) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		type level struct{ outer, next uint64 }
		for way := []level{{outer, 0}}; len(way) > 0; {
			at := &way[len(way)-1]
			id, err := within(fd, at.outer, at.next)
			switch {
			case err != nil:
				yield(0, err)
				return
			case id == 0:
				way = way[:len(way)-1]
				continue
			}
			at.next = id + 1
			if !yield(id, nil) {
				return
			}
			way = append(way, level{id, 0})
		}
	}
}

// uproot removes the subvolumes that lie in another one, those that lie deepest first. Their owners
// may have made them read-only: uproot makes them writable before it removes anything from them.
func uproot(ctx context.Context, fd int, outer uint64) error {
	for way := []uint64{outer}; ; {
		if err := ended(ctx); err != nil {
			return err
		}
		last := len(way) - 1
		id, err := within(fd, way[last], 0)
		switch {
		case err != nil:
			return err
		case id != 0:
			way = append(way, id)
			continue
		case last == 0:
			return nil
		}
		err = destroyID(fd, way[last])
		if err == unix.EROFS {
			if err = thaw(fd, way[last-1]); err == nil {
				err = destroyID(fd, way[last])
			}
		}
		if err != nil && err != unix.ENOENT {
			return err
		}
		way = way[:last]
	}
}

// destroyID removes a subvolume by its ID, wherever it lies.
func destroyID(fd int, id uint64) error {
	const byID = 1 << 4 // BTRFS_SUBVOL_SPEC_BY_ID
	return ioctl(fd, destroy, volumeArgs(byID, "", id))
}

// thaw lets a subvolume be changed, wherever it lies: it is opened by its number, so that no process
// can exchange it on the way. Before Linux 6.2 the kernel wants the generation of the inode, too.
func thaw(fd int, id uint64) error {
	item, _, err := search(fd, key{id, firstInode, inodeItem, 0}, 0)
	if err == nil && len(item) < 8 {
		err = unix.ENOENT
	}
	if err != nil {
		return err
	}
	b := make([]byte, 20) // struct btrfs_fid: inode, subvolume, generation
	binary.NativeEndian.PutUint64(b, firstInode)
	binary.NativeEndian.PutUint64(b[8:], id)
	binary.NativeEndian.PutUint32(b[16:], uint32(binary.LittleEndian.Uint64(item))) // struct btrfs_inode_item begins with it
	const withoutParent = 0x4d                                                      // FILEID_BTRFS_WITHOUT_PARENT
	root, err := unix.OpenByHandleAt(fd, unix.NewFileHandle(withoutParent, b), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	return errors.Join(freeze(root, false), unix.Close(root))
}
