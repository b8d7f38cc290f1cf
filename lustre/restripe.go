package lustre

import (
	"context"
	"errors"
)

// Restriper is a Layouts of a file system that can move the content of a file which exists
// to another layout. Where a Layouts is none, a file gets another layout by being copied.
type Restriper interface {
	// Restripe moves the content of the file base in the open directory dir. The file
	// stays the same one, with its owner, times, links and attributes; an error leaves it
	// as it was. No write of another process is ever lost.
	// ErrInUse and ErrChanged mean that another process came in between. ErrReleased says that there
	// is nothing to move, ErrEncrypted that it can not be, ErrNotApplied that there can not
	// be such a layout.
	Restripe(ctx context.Context, dir int, base string, to Layout, o RestripeOptions) error
}

// RestripeOptions say how. The zero RestripeOptions let other processes go first.
type RestripeOptions struct {
	// Block lets all other readers and writers of the file wait until it is done. Without it,
	// a file that is open somewhere is left as it is, and Restripe ends as soon as another
	// process opens the file.
	Block bool
	// Progress is told how much of the file has been moved, when it is set.
	Progress func(doneBytes, sizeBytes int64)
}

// Why a file is left as it is.
var (
	// ErrInUse: a file is open somewhere.
	ErrInUse = errors.New("it is open somewhere: try again when it is closed")
	// ErrChanged: a file is not what it was when it was looked at.
	ErrChanged = errors.New("it was changed or opened meanwhile: try again")
	// ErrReleased: the content of a file is in the archive only.
	ErrReleased = errors.New("its content is in the archive only: restore it first")
	// ErrEncrypted: a file is encrypted on its clients, with a key of its own. What is on the
	// servers of one file can not be read as that of another.
	ErrEncrypted = errors.New("it is encrypted, with a key that no other file has: only a copy of it can be so (on Lustre lfs migrate, too)")
)
