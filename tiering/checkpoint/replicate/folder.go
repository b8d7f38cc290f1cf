package replicate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// Site says how places are opened, and how bytes are moved. Open has to be given.
type Site struct {
	Open engine.Opener
	// Request has what copies have in common: Jobs, Bandwidth, Memory, StateDir, OnFull, Lead, Observer.
	Request engine.Request
	Log     *slog.Logger // nil means no log
	// Trust is for how long a checkpoint counts for retention after it was verified, or read. From then on it is read again before another one goes because of it; 0 is each time.
	Trust time.Duration

	Exported time.Time // see checkpoint.Limits; of a bucket
}

func (s *Site) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// Folder is a place that has checkpoints, opened. One goroutine uses it at a time.
type Folder struct {
	checkpoint.Folder
	Location location.Location
	Profile  checkpoint.Profile

	root  *os.Root      // of a directory; nil is none
	place mover.Backend // of a bucket; nil is none
}

// Folder opens one. Without a profile it finds out which it is. With makes, a directory that is not there is made.
func (s *Site) Folder(ctx context.Context, l location.Location, p checkpoint.Profile, makes bool) (f *Folder, err error) {
	f = &Folder{Location: l, Profile: p}
	f.Location.TrailingSlash = false
	if l.IsPath() {
		err = f.openDir(makes)
	} else {
		o := retry.Options{Logger: s.Log}
		err = retry.Opening(ctx, o, l.String(), func() (err error) {
			f.place, err = s.Open(ctx, l, engine.OpenOptions{Write: makes, StateDir: s.Request.StateDir, Logger: s.Log})
			return err
		})
		if err == nil {
			f.Folder = checkpoint.InPlace(ctx, retry.New(f.place, o), checkpoint.Limits{Exported: s.Exported})
		}
	}
	return f.opened(ctx, err)
}

// opened ends the opening of a folder.
func (f *Folder) opened(ctx context.Context, err error) (*Folder, error) {
	if err == nil && f.Profile == "" {
		f.Profile, err = checkpoint.Guess(ctx, f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Folder) openDir(makes bool) (err error) {
	if makes {
		if err := os.MkdirAll(f.Location.Path, 0o777); err != nil {
			return err
		}
	}
	if f.root, err = os.OpenRoot(f.Location.Path); err != nil {
		return err
	}
	return f.reads()
}

// reads has the directory be read that is open.
func (f *Folder) reads() error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	f.Folder = &onDisk{checkpoint.OnDisk(dir, checkpoint.Limits{}), dir}
	return nil
}

// ErrMoved is of a directory that is not where it was when it was opened.
var ErrMoved = fmt.Errorf("%w: it was renamed or removed, and is looked for there again", mover.ErrChanged)

// here says whether a directory is where it was when it was opened: a run that is renamed can be read on, and is not the one that is meant.
func (f *Folder) here() error {
	if f.root == nil {
		return nil
	}
	fail := func(err error) error {
		return &mover.Error{Op: "look at", Location: f.String(), Err: err}
	}
	is, err := f.root.Stat(".")
	if err != nil {
		return fail(err)
	}
	now, err := os.Stat(f.Location.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(is, now) {
		return fail(ErrMoved)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// onDisk closes what it reads.
type onDisk struct {
	checkpoint.Folder
	dir *os.File
}

// Close lets go of it.
func (f *Folder) Close() (err error) {
	if d, ok := f.Folder.(*onDisk); ok {
		err = d.dir.Close()
	}
	if f.root != nil {
		err = errors.Join(err, f.root.Close())
	}
	if f.place != nil {
		err = errors.Join(err, f.place.Close())
	}
	return err
}

func (f *Folder) String() string { return f.Location.String() }

// child is something in a folder.
func (f *Folder) child(name string) location.Location { return f.Location.Child(name) }

// look finds a checkpoint. One that is not there is superseded.
func (f *Folder) look(ctx context.Context, name string) (checkpoint.Found, error) {
	found, is, err := checkpoint.Look(ctx, f, f.Profile, name)
	if err == nil && !is {
		err = &mover.Error{Op: "look at", Location: f.String(), Name: name, Err: ErrSuperseded}
	}
	return found, err
}

// SaveOf names the save of a set: as its record says, or by what its files look like, wherever they are.
func SaveOf(found checkpoint.Found) string {
	if c := found.Commit; c != nil && c.Save != "" {
		return c.Save
	}
	h := sha256.New()
	for _, f := range checkpoint.CommitOf(found.Tree, found.Name).Files {
		fmt.Fprintf(h, "%q %d %d\n", f.Name, f.Size, f.Modified)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// held says whether a folder has this save of a checkpoint, whole, checked and with the checksums of all its files.
func (f *Folder) held(ctx context.Context, name, save string) (found checkpoint.Found, held bool, err error) {
	found, is, err := checkpoint.Look(ctx, f, f.Profile, name)
	if err != nil || !is || !found.Complete {
		return found, false, err
	}
	c := found.Commit
	return found, c != nil && c.Verified() && c.Summed() && SaveOf(found) == save, nil
}

// ErrSuperseded is the end of a checkpoint after its source is gone: trainers make room.
var ErrSuperseded = fmt.Errorf("superseded: it is gone: %w", fs.ErrNotExist)

// incomplete is the error of a checkpoint that is not complete.
func incomplete(f *Folder, found checkpoint.Found) error {
	return &mover.Error{Op: "take", Location: f.String(), Name: found.Name, Err: fmt.Errorf("%w: it is not complete: %s", mover.ErrConflict, mover.Printable(found.Why))}
}
