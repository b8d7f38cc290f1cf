package mount

import (
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Phase is one way to take a mount away. They are tried in this order, each for a while
// only: the one before may hang for good.
type Phase int

// The phases.
const (
	Plain  Phase = iota // what is dirty is written; a mount in use stays
	Force               // calls that wait for a server come back with an error (MNT_FORCE)
	Detach              // it can not be seen any more, and goes when its last user does (MNT_DETACH)
)

func (p Phase) String() string { return [...]string{"plain", "force", "detach"}[p] }

// Phases are the phases, in order.
var Phases = []Phase{Plain, Force, Detach}

// stacked is how many mounts over one another a target may have; more are a mistake.
const stacked = 16

// Unmount takes away what is mounted at target; nothing there is no error. A file system of
// which more is mounted is not forced: that would end the calls of the others, too.
func Unmount(target string, p Phase) error {
	for range stacked {
		m, mounted, err := find(target)
		if err != nil {
			return &mover.Error{Op: "unmount", Location: target, Err: err}
		}
		if !mounted {
			return nil
		}
		if err := unmountOne(m, p); err != nil {
			return &mover.Error{Op: "unmount (" + p.String() + ")", Location: target, Err: err}
		}
	}
	return &mover.Error{Op: "unmount", Location: target, Err: fmt.Errorf("%w: more than %d mounts lie over one another", mover.ErrConflict, stacked)}
}

func unmountOne(m Mount, p Phase) error {
	flags := unix.UMOUNT_NOFOLLOW
	switch p {
	case Force:
		if only, err := alone(m); err != nil || !only {
			if err == nil {
				err = fmt.Errorf("%w: other mounts of %s would lose what they wait for", mover.ErrHeld, mover.Printable(m.Source))
			}
			return err
		}
		flags |= unix.MNT_FORCE
	case Detach:
		flags |= unix.MNT_DETACH
	}
	err := unix.Unmount(m.Point, flags)
	switch err {
	case unix.EINVAL, unix.ENOENT: // another process was faster: the table is asked again
		return nil
	case unix.EBUSY:
		return fmt.Errorf("%w: somebody works in it", mover.ErrHeld)
	}
	return err
}
