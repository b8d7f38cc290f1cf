package slurm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Fault is what is wrong with the node itself: no job should come to it before an administrator has looked.
type Fault struct {
	Path string // of the tier
	Err  error
}

// Error says it in the words that an operator finds in the log of slurmd.
func (f *Fault) Error() string {
	return fmt.Sprintf("this node is broken: the scratch of jobs at %s: %v; look at the disk, and resume the node when it is good", f.Path, f.Err)
}

// Unwrap returns the error of the file system.
func (f *Fault) Unwrap() error { return f.Err }

// broken are the errors of a disk, and not of the caller: read-only, in failure, gone.
var broken = []error{unix.EROFS, unix.EIO, unix.ENODEV, unix.ENXIO, unix.EUCLEAN, unix.ESHUTDOWN}

// fault makes an error of the scratch a Fault if it is one.
func (s *Site) fault(err error) error {
	for _, b := range broken {
		if errors.Is(err, b) {
			return &Fault{s.Scratch, err}
		}
	}
	return err
}
