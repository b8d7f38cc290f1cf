package harness

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// draft is a file that is going to be there when it is whole: what is measured for an hour has where to go before that begins,
// and a file of the last time stays until then. nil is none.
type draft struct {
	file *os.File
	path string
}

// newDraft opens a draft of the file with that path; "" is none.
func newDraft(path string) (*draft, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".datamove-bench-*")
	if err != nil {
		return nil, err
	}
	return &draft{file, path}, nil
}

// publish writes the file, and gives it its name.
func (d *draft) publish(write func(io.Writer) error) error {
	if d == nil {
		return nil
	}
	if err := errors.Join(write(d.file), d.file.Chmod(0o644), d.file.Close()); err != nil {
		return err
	}
	return os.Rename(d.file.Name(), d.path)
}

// drop removes what was not published.
func (d *draft) drop() {
	if d != nil {
		_ = d.file.Close()
		_ = os.Remove(d.file.Name())
	}
}

// intoFile writes a file that is there when it is whole.
func intoFile(path string, write func(io.Writer) error) error {
	d, err := newDraft(path)
	if err != nil {
		return err
	}
	defer d.drop()
	return d.publish(write)
}
