package spool

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// AnonymousFile opens a new file in a directory for reading and writing. It has no name
// and goes with its last descriptor, so a process that is killed leaves nothing.
// Where the file system can not make one so (open(2), O_TMPFILE), it is made with a
// name that is taken away at once.
func AnonymousFile(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir+"/nameless"), nil
	}
	file, err := os.CreateTemp(dir, "datamove-spool-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
