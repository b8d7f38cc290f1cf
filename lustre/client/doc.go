// Package client asks a mounted Lustre: by extended attributes and ioctls, with no cgo and
// without the program lfs, which is only asked where the kernel does not answer.
//
// It owns the questions of package lustre for one mount (layouts, quotas, usage, HSM, change
// logs), and beside them what only Lustre has: directory stripes, FIDs, data versions,
// leases, group locks, restriping. Its word is [Client]; the bytes are those of package uapi,
// the kernel is an interface of its own, so that tests have one with the traps of a real one.
//
// What was set is read again and compared, by a new descriptor where an old one remembers:
// Lustre says yes to a layout for a file that has one, to a pool that there is not, to more
// stripes than OSTs, and does something else. [Client.Create] leaves a file with the layout
// that was asked for, or none. A file that was made for a layout and did not get one would
// fail every write. A process killed between the two leaves one, under the name that was given.
//
// All methods may be called by many at once; a mount that comes and goes is opened anew. Where
// a server does not answer a call waits, as every call to Lustre does; contexts are looked at
// between calls.
//
// Left to others: which file system a path is on (package detect), which layout suits
// (lustre.Advise), moving contents to and from an archive (package copytool).
//
// Tests run on a fake kernel; those called TestReal… on a real Lustre, see make lustre-test.
package client
