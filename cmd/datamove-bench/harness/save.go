package harness

import (
	"errors"
	"io"

	"datamove.dev/mover/atomicfile"
)

// draft is a file that is going to be there when it is whole: what is measured for an hour has where to go before that begins,
// and a file of the last time stays until then. nil is none.
type draft struct {
	*atomicfile.File
}

// newDraft opens a draft of the file with that path; "" is none.
func newDraft(path string) (*draft, error) {
	if path == "" {
		return nil, nil
	}
	file, err := atomicfile.Create(path, atomicfile.Options{Unsynced: true, Draft: ".datamove-bench-*"})
	if err != nil {
		return nil, err
	}
	return &draft{file}, nil
}

// publish writes the file, and gives it its name.
func (d *draft) publish(write func(io.Writer) error) error {
	if d == nil {
		return nil
	}
	if err := errors.Join(write(d.File), d.Chmod(0o644)); err != nil {
		return err
	}
	return d.Publish()
}

// drop removes what was not published.
func (d *draft) drop() {
	if d != nil {
		_ = d.Close()
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
