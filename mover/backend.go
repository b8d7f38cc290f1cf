package mover

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"
)

// Backend is a tree that can be read and written.
type Backend interface {
	Source
	Target
}

// Source is a tree that can be read.
type Source interface {
	// String is the address of the place, without secrets.
	String() string
	// Capabilities says what the place is like. It does not change while it is open.
	Capabilities() Capabilities

	// Walk yields every entry below opts.Dir in the order of Compare, without the
	// directory opts.Dir itself. An error with the entry of a directory means that
	// what this directory contains is not known (nothing of it is yielded after the
	// error), and the walk goes on beside it; so it does beside an error with an
	// Entry that has a Key, and knows all but that; an error with the zero Entry ends
	// the walk. When ctx ends, the walk yields its error. Memory is bounded: it does
	// not grow with the size of the tree.
	Walk(ctx context.Context, opts WalkOptions) iter.Seq2[Entry, error]

	// Stat returns all that the place knows of a name; a symlink is not followed.
	// "" is the root. ErrNotExist when there is none.
	Stat(ctx context.Context, name string) (Entry, error)

	// Open holds the very entry e, as Walk or Stat returned it, for reading.
	// ErrChanged when another one has its name now; of a small file the place may
	// leave that to Check, which has to follow the reading. Entries of every kind can
	// be opened; only files have bytes.
	Open(ctx context.Context, e Entry) (Content, error)

	// Close ends the use of the place.
	Close() error
}

// inRanges is the key of Ranged in a context.
type inRanges struct{}

// Ranged returns a context under which Open is told that ranges of a file will be read, and not all of it: a store that
// would begin to send it at once need not.
func Ranged(ctx context.Context) context.Context { return context.WithValue(ctx, inRanges{}, true) }

// IsRanged says whether Open was told so.
func IsRanged(ctx context.Context) bool { return ctx.Value(inRanges{}) != nil }

// Speller is a Target that may take names of other bytes for one, as a file system without case does.
type Speller interface {
	// Spelled returns an error with the mark ErrNamesake when what has the name has another spelling of it.
	Spelled(ctx context.Context, name string) error
}

// Reads says how a file system records that a file was read: in its atime.
type Reads uint8

// The ways, from nothing that is known to nothing that is recorded.
const (
	ReadsUnknown Reads = iota // nothing is known, as of objects
	ReadsSeen                 // each is recorded
	ReadsDaily                // relatime of mount(8): one a day, and the first one after a change
	ReadsUnseen               // noatime of mount(8)
)

// UseTeller is a place that can tell whether an entry is in use on this machine.
type UseTeller interface {
	// InUse reports whether a process has the file e open, or mapped. What can not be found out is no use.
	InUse(ctx context.Context, e Entry) (bool, error)
}

// Locator is a place that knows where it is: two places of one volume may have entries in common, by whatever names they were opened.
type Locator interface {
	// Located returns the file system or the bucket that the place is part of, and the path of the place in it, without slashes at its
	// ends. ErrUnsupported where that can not be known.
	Located() (volume, path string, err error)
}

// WalkOptions says what to walk. The zero value walks everything.
type WalkOptions struct {
	Dir string // walk below this directory; "" is the root
	// After is a resume token: the walk goes on behind the entry of this name, of a directory with a
	// slash at its end (AfterEntry), whether it is still there or not. A file "a" is followed by "a-", and that by
	// the directory "a/", so without the slash one that has become the other would hide what is between. "" is from the start.
	After string

	// Skip leaves an entry out, and everything below it when it is a directory. It
	// is called from many goroutines and before the entry is examined; nil skips none.
	// Of a key that no name leads to it is told the key, and no kind.
	Skip func(name string, kind Kind) bool

	// Lazy says that the caller compares no sizes and times. Where a client of a file system has
	// old ones, and would have to ask its servers for new ones, the old ones will do.
	Lazy bool

	// Xattrs says that extended attributes are compared: a place that has them tells them of each entry,
	// as far as it can be asked, at one more call for those that have none. Without it Stat and Open tell them.
	Xattrs bool

	// Stray is told of drafts that were left behind. Only a target that is held by
	// Lock asks for them. Nil ignores them. It is called from many goroutines.
	Stray func(Stray)
}

// AfterEntry is what After is for a walk that goes on behind an entry.
func AfterEntry(e *Entry) string {
	if e.Kind == Dir && e.Name != "" {
		return e.Name + "/"
	}
	return e.Name
}

// Behind reports whether an entry comes behind After.
func (o *WalkOptions) Behind(name string, kind Kind) bool {
	after, dir := strings.CutSuffix(o.After, "/")
	return after == "" || CompareNames(name, kind == Dir, after, dir) > 0
}

// ValidAfter reports whether After is a token of a name below a root.
func (o *WalkOptions) ValidAfter() bool {
	name, dir := strings.CutSuffix(o.After, "/")
	return ValidName(name) && (name != "" || !dir)
}

// Stray is a draft of an earlier run, found by a walk.
type Stray struct {
	Token Token
	Owner WriterID  // zero where a draft does not tell it (S3)
	Name  string    // of the entry that it was to become, where a draft tells it (S3)
	Since time.Time // when it was last written, or begun
}

// Content is an entry that is held open.
type Content interface {
	// Entry is all that the place knows of the entry, extended attributes too.
	Entry() Entry
	// Range gives the bytes from off up to off+n; holes read as zeros. The reader
	// fails with ErrChanged when it can tell that the entry was changed, and with
	// io.ErrUnexpectedEOF when there are fewer bytes. Ranges may be read at the same time.
	Range(ctx context.Context, off, n int64) (io.ReadCloser, error)
	// Segment returns the next stored bytes at or after off. Start is Size when
	// only a hole is left.
	Segment(off int64) (Segment, error)
	// Check returns ErrChanged when the entry is not what it was when it was opened.
	Check(ctx context.Context) error
	// Close ends the reading.
	Close() error
}

// Target is a tree that can be written. Nothing that it writes can be seen
// before it is whole.
type Target interface {
	String() string
	Capabilities() Capabilities
	Walk(ctx context.Context, opts WalkOptions) iter.Seq2[Entry, error]
	Stat(ctx context.Context, name string) (Entry, error)

	// Lock holds the target for one run, until unlock or until this process ends;
	// with a name, only for runs that bring the entry of that name. ErrHeld names
	// the holder. A lock can be lost while it is held (S3): held comes from ctx and
	// ends then, with ErrHeld as its cause. A run works on the target under held.
	Lock(ctx context.Context, name string, holder WriterID) (held context.Context, unlock func() error, err error)

	// Draft begins a new version of e, of any kind, under a temporary name.
	// e.Name's directory exists or is being built by h.In.
	Draft(ctx context.Context, e Entry, h Hints) (Draft, error)
	// Adopt goes on with a draft that this or another process began. ErrNotExist
	// when it is gone.
	Adopt(ctx context.Context, t Token) (Draft, error)
	// Drop removes a draft that no run will adopt. A missing one is no error.
	Drop(ctx context.Context, t Token) error
	// Publish makes finished drafts of this backend visible, in the order that durability
	// needs: data on stable storage, names, directories on stable storage. Each draft
	// has its own outcome. A draft built in a directory draft is published with it
	// and shares its failure: both must be in the same batch, the directory first.
	// To publish a draft again that is published already gives the same outcome, so
	// a lost answer can be asked for once more.
	Publish(ctx context.Context, batch []Draft) []Outcome

	// Mkdir makes the directory e if it is missing, usable for us; Update gives it
	// its final facts when everything is in it.
	Mkdir(ctx context.Context, e Entry) error
	// Update sets the facts of the existing entry e.Name, content apart, to those
	// of e that are Known and kept.
	Update(ctx context.Context, e Entry) error
	// Remove removes the very entry e: it is renamed away, looked at, and restored
	// when it is another one (ErrChanged). Directories must be empty: ErrConflict.
	// Names of one file that were walked together can all be removed, although each
	// removal changes the ctime of the others.
	Remove(ctx context.Context, e Entry, by WriterID) error
	// Sync returns when all that was removed and updated is on stable storage.
	Sync(ctx context.Context) error
	Close() error
}

// LockBreaker is a Target that can take its lock from a holder that a service has
// fenced off. The holder's process may still be there.
type LockBreaker interface {
	// BreakLock removes the lock with that name, if that owner holds it still.
	BreakLock(ctx context.Context, name string, over WriterID) error
}

// Capabilities is what a caller must know of a place to use it well.
type Capabilities struct {
	System string // the file system or the server, for people: "ext4", "lustre", "MinIO"

	// Keeps is what entries of this place can carry by themselves; what is missing
	// needs a manifest, or is lost.
	Keeps Facts
	// Level is the integrity that Publish reports by default here.
	Level Level
	// Least is the integrity that a file has to have here without another setting:
	// where Publish reports less, it is read again. 0 is Level.
	Least Level
	// Remote says that each range and each part is a request over a network: until it is
	// answered the place is waited for, and while bytes are on their way the link.
	Remote bool
	// Store says that entries are objects of a store: a call that it refuses for a while is tried again, and a draft is an upload.
	// An upload outlasts a power cut of this machine, can not be read back, and returns with a part that was under way when it was dropped.
	Store bool
	// Patience is for how long a call here may wait for another host before it goes another way by itself.
	Patience time.Duration
	// NeedsManifest says that a tree keeps all its facts only with a manifest.
	NeedsManifest bool
	// DirsByContent says that a directory is here only while something is in it: an
	// empty one is known to a manifest alone.
	DirsByContent bool
	// AnyKey says that entries with a Key are as good as others here.
	AnyKey bool
	// Twins says that an entry and a directory of one name can be here at the same
	// time, as keys of a bucket can.
	FileAndDirShareName bool
	// DirDrafts says that a new directory may be built under a temporary name.
	DirDrafts bool
	// Times is what is kept of times.
	Times TimeRange
	// Xattrs are the extended attributes that can be told and set, where Keeps has FactXattrs; 0 is all.
	Xattrs XattrNames
	// LateErrors says that what a write could not do may be told by a sync or the end of a
	// draft only, and by nothing at all when its process was killed: quotas of NFS, lost
	// servers. What no sync has confirmed has to be read before it counts.
	LateErrors bool
	// FinishSyncs says that Finish returns when the draft is on stable storage: a sync has
	// confirmed what is in it.
	FinishSyncs bool
	// Mount names the time in which a file system has been mounted, and no later one; 0 is
	// not known. What no sync has confirmed may be lost at its end, as it is at a power cut:
	// when the disk was gone, and not when it was unmounted.
	Mount uint64
	Reads Reads
	// Untrusted says that any account with the right to write here can set any rights on entries: FactPrivileges.
	Untrusted bool
	// Guards says that a draft can replace only what Hints.Seen names.
	Guards bool

	// SmallBytes is the size up to which files travel in batches.
	SmallBytes int64
	// BatchFiles and BatchBytes bound one batch of small files.
	BatchFiles int
	BatchBytes int64
	// PartBytes is the usual, PartMin the smallest size of a part (but the last) and
	// PartAlign what all but the last are a multiple of; MaxParts bounds their number.
	PartBytes, PartMin, PartAlign int64
	MaxParts                      int
	// MaxBytes is the largest entry; 0 is no limit.
	MaxBytes int64
	// UpdateBytes is the largest file that can get other facts without its content; 0 is no limit.
	UpdateBytes int64

	// CommitBytes and CommitEvery say how much work Publish wants at once because
	// it waits for stable storage; 0 publishes each batch as it is finished.
	CommitBytes int64
	CommitEvery time.Duration

	// Parallel is how many calls are worth having in flight at first, and
	// MaxParallel how many at most.
	Parallel, MaxParallel int
}
