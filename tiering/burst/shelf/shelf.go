// Package shelf keeps the records of bursts on this host, for who works without a service: a file for each, in a directory.
//
// A record is on stable storage when [Held.Keep] returns, and is whole after a crash: it is written beside, and renamed. A burst is changed by one process at a time ([Shelf.Hold]); another one hears who
// that is. Reading needs no lock. The directory is its owner's alone, because of who may spend money. What a record means is for package burst. TestKeep, TestKilled, TestKilledInside, TestHold and TestHostile show it.
package shelf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/tiering/burst"
)

// Shelf is a directory of records.
type Shelf struct{ dir string }

const (
	ending   = ".json"
	textMost = 16 << 20 // bytes of a record
	most     = 100_000  // records
)

// idForm is what a record may be called: burst.Begin makes such.
var idForm = mover.Pattern(`^[0-9a-z][0-9a-z-]{0,62}$`)

// Open makes the directory, if it is not there. One in which somebody else may write is mover.ErrPermission: a record says what money is spent for, and what may go.
func Open(dir string) (*Shelf, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	st, err := os.Stat(dir)
	if err == nil && st.Mode()&0o022 != 0 {
		err = &mover.Error{Op: "open", Place: dir, Err: fmt.Errorf("%w: others may write there (%v): chmod go-w", mover.ErrPermission, st.Mode())}
	}
	if err != nil {
		return nil, err
	}
	return &Shelf{dir}, nil
}

// All are the records, the oldest first, those of bursts that are gone, too. One that can not be read is mover.ErrCorrupt, and there is no answer: what is in AWS of it would be forgotten.
func (s *Shelf) All() (all []*burst.Record, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if id, is := strings.CutSuffix(e.Name(), ending); is && e.Type().IsRegular() {
			r, err := s.read(id)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		if len(all) > most {
			return nil, &mover.Error{Op: "read", Place: s.dir, Err: fmt.Errorf("%w: more than %d records", mover.ErrRefused, most)}
		}
	}
	slices.SortStableFunc(all, func(a, b *burst.Record) int { return a.Made.Compare(b.Made) })
	return all, nil
}

func (s *Shelf) read(id string) (*burst.Record, error) {
	file := filepath.Join(s.dir, id+ending)
	text, err := bounded(file)
	if err != nil {
		return nil, err
	}
	r := &burst.Record{}
	if err := json.Unmarshal(text, r); err != nil || r.ID != id || !idForm().MatchString(id) || !r.State.Known() {
		return nil, &mover.Error{Op: "read", Place: file, Err: fmt.Errorf("%w: it is no record of burst %s", mover.ErrCorrupt, mover.Printable(id))}
	}
	return r, nil
}

// bounded reads a file of ours.
func bounded(file string) (text []byte, err error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // it was no link and no pipe when it was listed
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err = io.ReadAll(io.LimitReader(f, textMost+1))
	if err == nil && len(text) > textMost {
		err = &mover.Error{Op: "read", Place: file, Err: fmt.Errorf("%w: it has more than %d bytes", mover.ErrCorrupt, textMost)}
	}
	return text, err
}

// Held is a burst that this process alone changes.
type Held struct {
	shelf *Shelf
	lock  *os.File
	name  burst.Name
}

// Hold holds a burst by its name. mover.ErrHeld names the process that has it.
func (s *Shelf) Hold(name burst.Name) (*Held, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, string(name)+".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(&mover.Error{Op: "hold", Place: "burst", Name: string(name), Err: err}, f.Close())
	}
	return &Held{s, f, name}, nil
}

// lock locks a file, and writes into it who we are.
func lock(f *os.File) error {
	all := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &all)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		var holder [32]byte
		n, _ := f.ReadAt(holder[:], 0)
		return fmt.Errorf("%w: process %s works on it", mover.ErrHeld, mover.Printable(strings.TrimSpace(string(holder[:n]))))
	}
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Release lets go of it.
func (h *Held) Release() error { return h.lock.Close() }

// Record is the newest record of the burst. mover.ErrNotExist is that there is none.
func (h *Held) Record() (*burst.Record, error) {
	all, err := h.shelf.All()
	if err != nil {
		return nil, err
	}
	return Newest(all, h.name)
}

// Newest is the newest record of a burst of that name among some, the oldest first. One that is not over comes before all that are: a clock that was set back made it look older.
func Newest(all []*burst.Record, name burst.Name) (*burst.Record, error) {
	var over *burst.Record
	for _, r := range slices.Backward(all) {
		b, err := r.Burst()
		switch {
		case err != nil:
			return nil, err
		case b.Metadata.Name != name:
		case !r.State.Ended():
			return r, nil
		case over == nil:
			over = r
		}
	}
	if over != nil {
		return over, nil
	}
	return nil, &mover.Error{Op: "look for", Place: "burst", Name: string(name), Err: mover.ErrNotExist}
}

// Keep writes a record.
func (h *Held) Keep(r *burst.Record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if len(text) > textMost || !idForm().MatchString(r.ID) || !r.State.Known() {
		return fmt.Errorf("%w: a record %q that is %q and has %d bytes", mover.ErrUsage, r.ID, r.State, len(text))
	}
	if b, err := r.Burst(); err != nil || b.Metadata.Name != h.name {
		return fmt.Errorf("%w: a record that is not of burst %s: %w", mover.ErrUsage, h.name, errors.Join(err, mover.ErrConflict))
	}
	file := filepath.Join(h.shelf.dir, r.ID+ending)
	return atomicfile.Write(file, text, atomicfile.Options{Draft: r.ID + ending + ".new"})
}
