// Package posix is a directory of a Linux file system as a mover.Backend.
//
// # Words
//
// A handle is an open directory. A draft's temp is the temporary name under which
// it is written, and its seat the physical directory in which it lies: the
// directory of its entry, or inside a directory draft. The system is the type
// of file system, which decides what makes writes durable there.
//
// # Promises
//
// Nothing escapes the root. It is opened once. Directories below it are opened
// with openat2 (RESOLVE_BENEATH, NO_SYMLINKS, NO_MAGICLINKS) or segment by segment
// without following links. Everything else is one segment relative to a
// directory handle. A handle is kept for at most two seconds of use. After that, a
// directory that was moved away gets no more writes.
//
// A draft becomes visible by one rename. Publish orders data, names and
// directories for stable storage as the file system needs it (see durability). A
// failed sync spoils every draft that it may have hit, also those of other batches. If the directory of
// a name could not be synced, the name is mover.ErrUnconfirmed, and stays that until
// it is published anew. The next sync may go well without it.
//
// What an object of a store had beside its bytes is kept in attributes of users, and told as mover.Entry.Object (mover.XattrObject
// has the form). An update that takes off the last one leaves mover.XattrKnown, by which the file states that there is none.
//
// A call of the kernel is not ended with its context. On a mount with a server that is away it
// returns when the server is back, or when the process is killed. Meanwhile it holds its
// goroutine and thread, and no lock of the backend. A hung listing of a directory holds the
// walk, because names come in order; what was listed before it has been told.
//
// All methods may be called from many goroutines. After a crash drafts are left
// under names that mover.ParseTempName knows; walks tell them as strays.
//
// # Cost
//
// A small file costs the source a statx in the walk, openat, statx, pread,
// flistxattr, statx and close, and the target openat, pwrite, utimensat, close
// and renameat2; chown and chmod only where a new file is not what it should be.
//
// # Left to others
//
// Hashing and retrying are not done here. TestContract holds the package to the
// contract of mover, TestNothingEscapes to its root, TestCost to the cost above.
package posix
