package volumestore

import (
	"fmt"
	"time"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// Wish is what a caller wants made.
type Wish struct {
	ID         volume.ID
	Name       string // as the provisioner chose it; the key is made of it
	Bytes      int64  // hard limit; 0 is none, for snapshots
	Parameters volume.Parameters
	From       *volume.ID // volume or snapshot to begin with; nil is empty
	Said       Said       // what a class says itself, and is not a default
	Uncopied   string     // why there is no copy of what it begins with, where the file system can not clone; "" where the mover copies it
}

// Said is which of the owner and mode of Parameters a class says. A volume that begins with another one has these of its class, and the rest of
// what it begins with.
type Said struct{ UID, GID, Mode bool }

// Asked is a wish as its record keeps it: the same wish again is the same volume, whatever became of it since.
type Asked struct {
	Name       string            `json:"name"`
	Bytes      int64             `json:"bytes,omitempty"`
	From       string            `json:"from,omitempty"`
	Parameters volume.Parameters `json:"parameters"`
}

func (w *Wish) asked() Asked {
	a := Asked{w.Name, w.Bytes, "", w.Parameters}
	if w.From != nil {
		a.From = w.From.String()
	}
	return a
}

// Record is what is known of a volume or a snapshot. It lies beside what pods see of it.
type Record struct {
	Schema     string            `json:"schema"`
	ID         string            `json:"id"`
	Mark       string            `json:"mark"` // what data carries, too: random, so that nothing else is taken for it
	Asked      Asked             `json:"asked"`
	Bytes      int64             `json:"bytes,omitempty"`   // what it may hold now; of a snapshot, what its volume might
	Parameters volume.Parameters `json:"parameters"`        // as they are now
	Project    *lustre.Project   `json:"project,omitempty"` // nil until it has one
	Inode      uint64            `json:"inode,omitempty"`   // of data; 0 until it is there
	Filling    bool              `json:"filling,omitempty"` // the mover copies what it begins with
	Filled     bool              `json:"filled,omitempty"`  // and has done so
	Created    time.Time         `json:"created"`
	// Enforced says that the file system holds the limit; why not, Unenforced says.
	Enforced   bool   `json:"enforced"`
	Unenforced string `json:"unenforced,omitempty"`
	// Escape says how a pod that means harm gets around a limit that is enforced; "" where no way is known.
	Escape string `json:"escape,omitempty"`
}

const recordSchema = "datamove.csi/volume/v1"

// snapshot reports whether it is one: that is never written.
func (r *Record) snapshot() bool {
	id, err := volume.ParseID(r.ID)
	return err == nil && id.Kind == volume.Snapshot
}

// hardBytes is the limit that the file system is given. A snapshot needs none.
func (r *Record) hardBytes() int64 {
	if r.snapshot() {
		return 0
	}
	return r.Bytes
}

// fits reports why a record is not of what is wished for.
func (r *Record) fits(w Wish) error {
	was, now := r.Asked, w.asked()
	for _, one := range []struct {
		what     string
		was, now any
	}{
		{"name", was.Name, now.Name},
		{"capacity", was.Bytes, now.Bytes},
		{"content to begin with", was.From, now.From},
		{"parameters", was.Parameters, now.Parameters},
	} {
		if one.was != one.now {
			return fmt.Errorf("%w: %s was made with another %s: %v, and not %v", mover.ErrConflict, r.ID, one.what, one.was, one.now)
		}
	}
	return nil
}

// Tombstone says of something removed when and why it was removed, and for how long it can be brought back.
type Tombstone struct {
	Schema  string    `json:"schema"`
	ID      string    `json:"id"`
	Removed time.Time `json:"removed"`
	Keep    time.Time `json:"keep"` // until then
	By      string    `json:"by"`
	Bytes   int64     `json:"bytes,omitempty"` // what it might hold
	// ArchiveTo is where it has to be copied before it may go; Archived is when that was done.
	ArchiveTo string     `json:"archive_to,omitempty"`
	Archived  *time.Time `json:"archived,omitempty"`
}

const tombstoneSchema = "datamove.csi/tombstone/v1"

// whole reports what is wrong with a record that was read.
func (r *Record) whole(id volume.ID) error {
	switch {
	case r.Schema != recordSchema:
		return fmt.Errorf("%w: record of %s: schema %s is not known to this driver", mover.ErrUnsupported, id, mover.Printable(r.Schema))
	case r.ID != id.String():
		return fmt.Errorf("%w: record of %s: it is of %s", mover.ErrConflict, id, mover.Printable(r.ID))
	case len(r.Mark) != 32 || r.Inode == 0:
		return fmt.Errorf("%w: record of %s: it has no mark", mover.ErrConflict, id)
	}
	return nil
}
