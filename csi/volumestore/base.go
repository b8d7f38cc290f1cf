package volumestore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/lustre/claim"
	"datamove.dev/lustre/detect"
	"datamove.dev/lustre/gpfs"
	"datamove.dev/mover"
	"datamove.dev/mover/beneath"
)

// Spec is a file system of the driver's configuration.
type Spec struct {
	Name    string                  `json:"name"`
	Kind    lustre.Kind             `json:"kind"`           // what it has to be
	Root    string                  `json:"root"`           // where it is mounted (of a shared one also a directory of it): Static volumes lie below
	Volumes string                  `json:"volumes"`        // below Root: what the driver makes; "" is nothing
	IDs     Range                   `json:"ids"`            // of project IDs, where they are ours to give
	GPFS    map[string]gpfs.Options `json:"gpfs,omitempty"` // by device, as in detect.Options
	Node    string                  `json:"node,omitempty"` // that has it, and no other one; "" where every node has it
	// Promise gives volumes no more together than there is; nil is for file systems that are
	// shared with others, where a capacity is a limit and no promise.
	Promise *Promise `json:"promise,omitempty"`
	// Unenforced takes a file system without quotas: then nothing holds a volume to its capacity.
	Unenforced bool `json:"unenforced"`
	// Mounted says that Root is where a file system is mounted, and not a directory of one.
	Mounted bool `json:"mounted,omitempty"`
}

// Promise is what volumes may be promised.
type Promise struct {
	KeepFree int // percent of the file system that are never promised
}

// KeyOf is the key of what is wished for, on a file system of this identity.
func (s *Spec) KeyOf(identity string, w Wish) string {
	key := volume.KeyOf(identity, w.ID.Kind, w.Name)
	if s.Node != "" {
		key = volume.OnNode(key, s.Node)
	}
	return key
}

// Range is of project IDs, both ends in it.
type Range = claim.Range

// Base is an open file system of the configuration. It is used by one goroutine, and closed by it.
type Base struct {
	spec     Spec
	handle   *detect.Handle
	top      dir // Spec.Volumes
	Identity string
}

type about struct {
	Schema   string    `json:"schema"`
	Identity string    `json:"identity"`
	Created  time.Time `json:"created"`
}

const (
	aboutSchema = "datamove.csi/base/v1"
	aboutFile   = "base.json"
	recordFile  = "volume.json"
	stoneFile   = "tombstone.json"
	dataDir     = "data"

	volumesDir   = "volumes"
	snapshotsDir = "snapshots"
	makingDir    = "making"
	trashDir     = "trash"
	projectsDir  = "projects"
)

// Open opens the directory of volumes, which is made where it is not there. A file system
// of another kind than it has to be is not the one that is meant, nor is a local one of which Root is a
// mere directory: mover.ErrUnreachable.
func Open(ctx context.Context, s Spec) (*Base, error) {
	fail := func(err error, closed ...error) error {
		return errors.Join(append([]error{fmt.Errorf("file system %s: %w", s.Name, err)}, closed...)...)
	}
	h, err := detect.Open(s.Root, detect.Options{GPFS: s.GPFS})
	if err != nil {
		return nil, fail(err)
	}
	if err := s.meant(h); err != nil {
		return nil, fail(err, h.Close())
	}
	b := &Base{spec: s, handle: h, top: -1}
	if s.Volumes == "" {
		return b, nil
	}
	if b.top, err = way(dir(h.FD()), s.Volumes); err == nil {
		err = b.introduce(ctx)
	}
	if err != nil {
		return nil, fail(err, b.Close())
	}
	return b, nil
}

// meant reports why what is open is not the file system that has to be there. Of a local one the kind says little: the disk of the machine
// may be of the same, so it has to be where one is mounted. A pod sees a mount as a bind mount of
// its root, and a directory where nothing is mounted as one of that directory.
func (s *Spec) meant(h *detect.Handle) error {
	kind, m := h.System.Kind, h.Mount
	if s.Kind != "" && kind != s.Kind {
		return fmt.Errorf("%w: %s is on a file system of kind %s (%s) and has to be on one of kind %s: is it mounted?",
			mover.ErrUnreachable, mover.Printable(s.Root), kind, h.System.Type, s.Kind)
	}
	local := s.Kind == lustre.IsExt4 || s.Kind == lustre.IsXFS || s.Kind == lustre.IsBtrfs
	if !local && !s.Mounted {
		return nil
	}
	var st unix.Statx_t
	if err := unix.Statx(h.FD(), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st); err != nil {
		return &mover.Error{Op: "look at", Location: s.Root, Err: err}
	}
	mounted := st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 || st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 // before Linux 5.8 it is not told
	const ofSubvolume = 256                                                                                        // the inode of the root of each subvolume
	whole := m.Root == "/" || kind == lustre.IsBtrfs && st.Ino == ofSubvolume
	switch {
	case s.Mounted && !mounted:
		return fmt.Errorf("%w: nothing is mounted at %s", mover.ErrUnreachable, mover.Printable(s.Root))
	case local && !(mounted && whole):
		return fmt.Errorf("%w: %s is a directory of a file system of kind %s that is mounted at %s, and has to be where one is mounted: is it mounted?",
			mover.ErrUnreachable, mover.Printable(s.Root), kind, mover.Printable(m.Point))
	}
	return nil
}

// way opens a directory some levels down, which are made where they are not there. They
// are on one file system.
func way(at dir, path string) (dir, error) {
	fd, err := openBeneath(at, ".", asDir, beneath.SameMount)
	for part := range strings.SplitSeq(path, "/") {
		if err != nil {
			return -1, err
		}
		next, makeErr := dir(fd).make(part, 0o711)
		dir(fd).close()
		fd, err = int(next), makeErr
	}
	return dir(fd), err
}

// introduce reads the identity of this base. A new one is given an identity, once: of two processes the second takes that
// of the first.
func (b *Base) introduce(ctx context.Context) error {
	var a about
	err := b.top.read(aboutFile, &a)
	if errors.Is(err, mover.ErrNotExist) {
		for _, name := range []string{volumesDir, snapshotsDir, makingDir, trashDir, projectsDir} {
			d, err := b.top.make(name, 0o711)
			if err != nil {
				return err
			}
			d.close()
		}
		err = b.top.write(aboutFile, about{aboutSchema, random(), time.Now().UTC()}, false)
		if err == nil || errors.Is(err, mover.ErrConflict) {
			err = b.top.read(aboutFile, &a)
		}
	}
	switch {
	case err != nil:
		return err
	case a.Schema != aboutSchema || len(a.Identity) != 32:
		return &mover.Error{Op: "read", Location: b.top.name(), Name: aboutFile, Err: fmt.Errorf("%w: this driver does not know schema %s", mover.ErrUnsupported, mover.Printable(a.Schema))}
	}
	b.Identity = a.Identity
	return ctx.Err()
}

// Close lets go of it.
func (b *Base) Close() error {
	if b.top >= 0 {
		b.top.close()
	}
	return b.handle.Close()
}

// in opens one of the directories of the base.
func (b *Base) in(name string) (dir, error) {
	if b.top < 0 {
		return -1, fmt.Errorf("%w: no volumes are made on file system %s", mover.ErrUnsupported, b.spec.Name)
	}
	return b.top.sub(name)
}

// homeOf is where volumes of a kind are when they are whole.
func homeOf(k volume.Kind) string {
	if k == volume.Snapshot {
		return snapshotsDir
	}
	return volumesDir
}

// random is an identity, or a mark.
func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}
