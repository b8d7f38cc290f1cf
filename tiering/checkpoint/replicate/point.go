package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// point makes a tracker at a target name a checkpoint that is verified there. It is written as it was read when it named that: by now it may name another one. Its time
// is that of the one that was read, which says which of two saves is the newer.
func (s *Site) point(ctx context.Context, to *Folder, p Pointer) error {
	switch {
	case p.Link && to.root == nil:
		return nil // a store has no links
	case to.root == nil:
		return s.putText(ctx, to.child(p.Name), []byte(p.Text))
	case p.Link:
		temp := fmt.Sprintf("%slink-%d-0", mover.TempPrefix, os.Getpid())
		if err := to.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := to.root.Symlink(p.Text, temp); err != nil {
			return err
		}
		if err := to.root.Rename(temp, p.Name); err != nil {
			return err
		}
	default:
		if err := writeWhole(to.root, p.Name, []byte(p.Text)); err != nil {
			return err
		}
	}
	return to.written(p.Name, p.Written)
}

// written gives a tracker its time, if it has one.
func (f *Folder) written(name string, when int64) error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if when != 0 {
		at := unix.NsecToTimespec(when)
		err := unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) { // some have no times of links
			return &os.PathError{Op: "set the time of", Path: name, Err: err}
		}
	}
	return dir.Sync()
}

// putText writes a small object whole.
func (s *Site) putText(ctx context.Context, to location.Location, text []byte) error {
	dir, err := os.MkdirTemp("", "datamove-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, to.Base())
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	r := s.Request
	r.Work, r.Source, r.Target, r.Logger, r.CopyAll = engine.Copy, location.OfPath(file), to, s.Log, true
	t, err := engine.Start(ctx, r, s.Open)
	if err != nil {
		return err
	}
	_, err = t.Wait()
	return err
}

// put writes a record as one object.
func (s *Site) put(ctx context.Context, to location.Location, c checkpoint.Commit) error {
	text, err := c.Encode()
	if err != nil {
		return err
	}
	return s.putText(ctx, to, text)
}
