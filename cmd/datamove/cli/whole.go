package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// WriteWhole makes a file visible when it is whole and on stable storage. One that
// is there stays.
func WriteWhole(file string, mode fs.FileMode, fill func(io.Writer) (int64, error)) (n int64, err error) {
	there := fmt.Errorf("%w: %s is there already: remove it, or give another name", mover.ErrConflict, mover.Printable(file))
	if _, err := os.Lstat(file); err == nil {
		return 0, there // before the work
	}
	draft, err := atomicfile.Create(file, atomicfile.Options{Mode: mode, Exclusive: true, Draft: filepath.Base(file) + ".*.part"})
	if err != nil {
		return 0, err
	}
	defer draft.Close()
	if n, err = fill(draft); err != nil {
		return 0, err
	}
	if err := draft.Publish(); errors.Is(err, fs.ErrExist) {
		return 0, there
	} else if err != nil {
		return 0, err
	}
	return n, nil
}
