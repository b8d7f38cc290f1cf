package trash

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/beneath"
)

// openBeneath opens a directory below another one: over no link, into no mount, and nowhere outside.
func openBeneath(at int, path string) (int, error) {
	return beneath.SameMount.Open(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
}

// attempts are how often something is done that others keep from being done.
const attempts = 64

// failed says what failed, where, and what kind of error that is.
func failed(op string, dir int, name string, err error) error {
	switch err {
	case nil:
		return nil
	case unix.EBUSY:
		err = fmt.Errorf("%w: something is mounted there", mover.ErrConflict)
	case unix.EXDEV:
		err = fmt.Errorf("%w: it is on another file system, mount or subvolume", mover.ErrConflict)
	case unix.ENOTEMPTY, unix.EEXIST, unix.EAGAIN:
		err = fmt.Errorf("%w: others still write to it", mover.ErrChanged)
	}
	return &mover.Error{Op: op, Location: pathOf(dir), Name: name, Err: err}
}

func pathOf(fd int) string {
	path, err := os.Readlink(proc(fd))
	if err != nil {
		return "descriptor " + strconv.Itoa(fd)
	}
	return path
}

func proc(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// faults are errors of which the first ones are kept, and all counted.
type faults struct {
	first []error
	n     int
}

const keptFaults = 8

func (f *faults) add(err error) {
	if err == nil {
		return
	}
	if f.n++; len(f.first) < keptFaults {
		f.first = append(f.first, err)
	}
}

func (f *faults) err() error {
	if more := f.n - len(f.first); more > 0 {
		return errors.Join(append(f.first[:len(f.first):len(f.first)], fmt.Errorf("and %d more", more))...)
	}
	return errors.Join(f.first...)
}
