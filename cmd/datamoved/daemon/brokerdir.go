package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// brokerDir is where versions with a message broker had its folder, in the directory of state.
const brokerDir = "queue"

// removeBroker removes the folder that a message broker of earlier versions has left when it was killed. The broker kept its messages in memory: its folder has
// directories alone. What else is there is not the broker's, and keeps the folder.
func (h *host) removeBroker() {
	at := filepath.Join(h.at.data, brokerDir)
	switch err := removeEmpty(unix.AT_FDCWD, at); {
	case err == nil:
		h.log.Info("removed the folder of the message broker of an earlier version", "directory", at)
	case !errors.Is(err, fs.ErrNotExist):
		h.log.Warn("the folder of the message broker of an earlier version is left: it has what the broker did not make; nothing reads it, remove it by hand", "directory", at, "err", err)
	}
}

// removeEmpty removes a directory in which there are directories alone, and those. It follows no link, and removes nothing but by rmdir(2).
func removeEmpty(at int, name string) error {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	below, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, child := range below {
		if err := removeEmpty(fd, child); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}
