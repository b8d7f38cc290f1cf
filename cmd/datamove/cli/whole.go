package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"datamove.dev/mover"
)

// writeWhole makes a file visible when it is whole and on stable storage. One that
// is there stays.
func writeWhole(file string, mode fs.FileMode, fill func(io.Writer) (int64, error)) (n int64, err error) {
	there := fmt.Errorf("%w: %s is there already: remove it, or give another name", mover.ErrConflict, mover.Printable(file))
	if _, err := os.Lstat(file); err == nil {
		return 0, there // before the work
	}
	draft, err := os.OpenFile(fmt.Sprintf("%s.%d.part", file, os.Getpid()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return 0, err
	}
	defer os.Remove(draft.Name())
	n, err = fill(draft)
	if err == nil {
		err = draft.Sync()
	}
	if err := errors.Join(err, draft.Close()); err != nil {
		return 0, err
	}
	if err := os.Link(draft.Name(), file); errors.Is(err, fs.ErrExist) {
		return 0, there
	} else if err != nil {
		return 0, err
	}
	return n, syncDir(filepath.Dir(file))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
