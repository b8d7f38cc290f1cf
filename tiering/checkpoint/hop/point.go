package hop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"datamove.dev/mover"
	"datamove.dev/mover/local"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// point makes a tracker at a target name a checkpoint that is verified there. It is written as it was read when it named that: by now it may name another one.
func (s *Site) point(ctx context.Context, to *Folder, tracker, text string, link bool) error {
	switch {
	case link && to.root == nil:
		return nil // a store has no links
	case link:
		temp := fmt.Sprintf("%slink-%d-0", mover.TempPrefix, os.Getpid())
		if err := to.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := to.root.Symlink(text, temp); err != nil {
			return err
		}
		if err := to.root.Rename(temp, tracker); err != nil {
			return err
		}
		return syncIn(to.root, ".")
	case to.root != nil:
		return writeWhole(to.root, tracker, []byte(text))
	}
	return s.putText(ctx, to.child(tracker), []byte(text))
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
	r.Work, r.Source, r.Target, r.Logger, r.Full = local.Copy, location.Location{Scheme: location.POSIX, Path: file}, to, s.Log, true
	t, err := local.Start(ctx, r, s.Open)
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
