package rig

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
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
	for at := int64(0); ; {
		begin, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(from.Fd()), begin, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, begin), io.NewSectionReader(from, begin, end-begin)); err != nil {
			return err
		}
		at = end
	}
}

// restore makes a directory what its image is.
func restore(dir, image string) error {
	return errors.Join(os.RemoveAll(dir), os.Rename(image, dir))
}
