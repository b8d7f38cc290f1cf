package copytool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/client"
	"datamove.dev/lustre/uapi"
)

// Archive holds the copies. Its methods are called from many goroutines; an error may be,
// or wrap, a [Failure].
type Archive interface {
	// Put makes the copy of c.Key from all bytes of c.File, in one step in the place of the
	// one that is there. It returns when the copy is on stable storage and was compared.
	Put(ctx context.Context, c Copy) error
	// Get fills c.File, which is empty, with the copy of c.Key, compares every byte with
	// the checksum of the copy, and brings it to stable storage.
	Get(ctx context.Context, c Copy) error
	// Delete removes the copy of a key; one that is not there is no error.
	Delete(ctx context.Context, key string) error
}

// Copy is one movement between a file and its copy.
type Copy struct {
	Key   string
	File  *os.File
	Size  int64         // of the content, in bytes; a copy of another size is none
	Info  Info          // of Put
	Moved *atomic.Int64 // to be counted up: bytes that have passed
	// Mine is of Put, to be asked right before the copy becomes visible: an error keeps the
	// old copy.
	Mine func(context.Context) error
}

// Info is what is kept beside a content.
type Info struct {
	UID, GID     uint32
	Mode         uint32 // 0o7777
	Mtime, Atime unix.Timespec
	Path         string // below the mount; "" where the MDT did not tell it
}

// Failure is an error that says what the MDT is told of it.
type Failure struct {
	Errno unix.Errno
	Retry bool // the action may be handed out again
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Ended is what became of one action.
type Ended struct {
	Action uapi.CopyAction
	Bytes  int64
	Took   time.Duration // from the time when it was taken out of the pipe
	Err    error         // nil when the MDT has accepted its end
}

// Options says what is served. The zero value works, but for Mount and Archive.
type Options struct {
	Mount    string   // a directory of the file system, over which the archive is served
	Archives []uint32 // the numbers that it is served under, from 1; none is all of them
	Archive  Archive
	// Mark is a file that is there while we are registered: by it the next process knows that
	// a registration is that of one of ours which was killed. Beside it, in a directory of its
	// name and ".actions", are the actions that have not ended. "" remembers nothing, so that
	// the MDTs have to find that out.
	Mark string

	Jobs     int           // actions in work; 0 means 4
	Waiting  int           // actions that are held in memory and not begun, half a kilobyte each; 0 means 16384
	Progress time.Duration // between two words to the MDT about a long action, sixty times that about one that waits; 0 means 5 s
	Grace    time.Duration // that actions in work have when the context ends; 0 means 10 s
	Renew    time.Duration // without a word of an MDT, after which the registration is made anew; 0 means 10 min

	Logger *slog.Logger // nil means no log
	Told   func(Ended)  // of each action, from many goroutines; nil is not told

	// Ioctl speaks to the kernel; nil means that of this machine.
	Ioctl func(fd int, request uint, arg []byte) (int, error)
	// Encrypted asks it whether a file is; nil is client.Encrypted.
	Encrypted func(fd int) (bool, error)
}

func (o Options) withDefaults() Options {
	o.Jobs, o.Waiting = cmp.Or(max(o.Jobs, 0), 4), cmp.Or(max(o.Waiting, 0), 16384)
	o.Progress, o.Grace = cmp.Or(max(o.Progress, 0), 5*time.Second), cmp.Or(max(o.Grace, 0), 10*time.Second)
	o.Renew = cmp.Or(max(o.Renew, 0), 10*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Told == nil {
		o.Told = func(Ended) {}
	}
	if o.Ioctl == nil {
		o.Ioctl = client.Ioctl
	}
	if o.Encrypted == nil {
		o.Encrypted = client.Encrypted
	}
	return o
}

// Key is the key of the copy of a file: the name of the file system, the FID's sequence,
// two digits of its number so that no directory has more than 512 copies, and the FID.
func Key(system string, f lustre.FID) string {
	return fmt.Sprintf("%s/%#x/%02x/%s", system, f.Seq, f.OID&0xff, f.Name())
}
