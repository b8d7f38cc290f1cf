package rig

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"datamove.dev/mover/kvstore"
)

// imageOf copies a directory. Files may have holes: stores reserve room.
func imageOf(dir, to string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch at := filepath.Join(to, rel); {
		case e.IsDir():
			return errors.Join(os.MkdirAll(at, 0o700), os.Chmod(at, info.Mode().Perm()))
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		case e.Type().IsRegular():
			return copyFile(path, at, info)
		}
		return nil
	})
}

func copyFile(path, to string, info fs.FileInfo) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	return errors.Join(copyData(from, out), out.Truncate(info.Size()), out.Close())
}

// copyData copies what is no hole.
func copyData(from, to *os.File) error {
	return eachExtent(from, func(begin, end int64) error {
		_, err := io.Copy(io.NewOffsetWriter(to, begin), io.NewSectionReader(from, begin, end-begin))
		return err
	})
}

// eachExtent calls do for all that is no hole.
func eachExtent(f *os.File, do func(begin, end int64) error) error {
	for at := int64(0); ; {
		begin, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(f.Fd()), begin, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if err := do(begin, end); err != nil {
			return err
		}
		at = end
	}
}

// restore makes a directory what its image is.
func restore(dir, image string) error {
	return errors.Join(os.RemoveAll(dir), os.Rename(image, dir))
}

// restoreUnlocked is restore of the journals below a directory that no worker holds: the others are of workers that live.
func restoreUnlocked(dir, image string) error {
	const journals = "tasks"
	found, err := os.ReadDir(filepath.Join(image, journals))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // it had no journal
	}
	for _, e := range found {
		at := filepath.Join(dir, journals, e.Name())
		if held(filepath.Join(at, kvstore.LockName)) {
			continue
		}
		err = errors.Join(err, restore(at, filepath.Join(image, journals, e.Name())))
	}
	return errors.Join(err, os.RemoveAll(image))
}

// held reports whether a lock file is locked.
func held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}
