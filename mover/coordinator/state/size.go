package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Size is what the ledger takes on its disk, and what room is left there.
func (l *Ledger) Size() (bytes, freeBytes int64, err error) {
	err = filepath.WalkDir(l.dir, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if errors.Is(err, os.ErrNotExist) { // it was just removed
			return nil
		}
		bytes += st.Blocks * 512
		return err
	})
	var room unix.Statfs_t
	if err == nil {
		err = unix.Statfs(l.dir, &room)
	}
	return bytes, int64(room.Bavail) * room.Bsize, err
}
