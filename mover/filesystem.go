package mover

import "context"

// FileSystem is what a place of files asks of the file system that it is on, beyond
// what every file system answers. A place without one does what fits all of them.
// Descriptors are open files of the caller, and stay the caller's. Calls may be made at
// the same time.
type FileSystem interface {
	// Create makes the file base in dir, laid out for what is going to be in it, and
	// opens it. An error that is ErrUnsupported says that there is nothing special to do:
	// the caller makes the file in the usual way. Every error leaves no file.
	Create(dir int, base string, flags int, mode uint32, f NewFile) (fd int, err error)
	// Multiple is what a part of the open file should be a multiple of, in bytes, when
	// the file has so many, so that each part takes the same from every target; 0 is anything.
	Multiple(fd int, size int64) int64
	// Layout is how the open file is laid out: the bytes that Create takes, and the
	// width of all its stripes together; ErrUnsupported where there is no such thing.
	Layout(fd int) (layout []byte, width int64, err error)
	// Away reports whether the content of the open file is in an archive only. A reader then
	// waits for the archive, and can not be stopped. Away itself brings nothing back.
	Away(fd int) (bool, error)
	// Recall asks for the contents of files, open for Away, to be brought back from the
	// archive, and does not wait for that.
	Recall(ctx context.Context, fds []int) error
	// Left is the room of the project that dir belongs to, where the file system
	// would let this process go beyond it; ok is false where it sees to that by itself.
	Left(dir int) (room Room, ok bool, err error)
}

// Restriper is a FileSystem that can give a file which exists another layout.
type Restriper interface {
	// Restripe gives the file base in the open directory dir the layout that words ask for. The file stays the same one, and an error leaves it as it was.
	// ErrChanged, another process uses it; ErrUnsupported, there is no such layout here; ErrUsage, the words are none.
	Restripe(ctx context.Context, dir int, base, words string) error
}

// Releaser is a FileSystem with an archive, which can give back the space of files that are in it.
type Releaser interface {
	// Release gives back the space of an open file when the archive has the same content; a read brings it back. ErrConflict: the content is not in the archive, or
	// is another one there. A file that was released before is no error.
	Release(ctx context.Context, fd int) error
}

// FileSystemKinds are the words for kinds of file systems that a directory can be held to
// be on: where such a one is not mounted, what is at its path is of another kind.
var FileSystemKinds = []string{"beegfs", "btrfs", "cephfs", "ext4", "fuse", "gpfs", "lustre", "nfs", "tmpfs", "xfs", "zfs"}

// NewFile is what is known of a file before it is made.
type NewFile struct {
	Size   int64
	Layout []byte // of its source, if that is to be kept; nil is whatever suits it
}

// Room is how much may still be written under a project, or to a place.
type Room struct {
	Bytes, Files int64  // -1 has no limit
	Why          string // for people, when it is used up: which project, what limit
}

// Kept is the part of a file system of total bytes that stays free by a setting in percent (keep_free, keepFree).
func Kept(total int64, percent int) int64 {
	return total/100*int64(percent) + total%100*int64(percent)/100
}

// RoomTeller is a Target that knows how much more it takes.
type RoomTeller interface {
	// Room is what may still be written below the root: by free space, by quotas, and without what has to stay free. ErrUnsupported
	// where bytes are stored in fewer, so that the number of bytes that go in is not known.
	Room(ctx context.Context) (Room, error)
}

// Striped is a Content that knows the width of all its stripes together, in bytes:
// parts that are a multiple of it read the same from every server. 0 is not known.
type Striped interface {
	Content
	StripeWidth() int64
}

// Aligner is a Draft that knows what its parts should be a multiple of, in bytes, when
// there will be size of them; 0 is what the traits of its place say.
type Aligner interface {
	Draft
	PartMultiple(size int64) int64
}

// Recaller is a Source of which some contents are in an archive: released by the HSM of
// a file system. To read one of them, or to ask for its holes, is ErrReleased; what else is
// known of it is there.
type Recaller interface {
	// Recall asks for the contents of entries to be brought back, many at once. It does not
	// wait; entries that are back, or gone, are no error.
	Recall(ctx context.Context, entries []Entry) error
	// Away reports whether the content of an entry is in the archive still.
	Away(ctx context.Context, e Entry) (bool, error)
}

// Warner is a Backend, or a FileSystem, with notes for its caller: what is
// not as it could be, and no error.
type Warner interface {
	Notes() []string
}
