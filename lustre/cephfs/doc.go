// Package cephfs asks a mounted CephFS: by the virtual extended attributes that its clients,
// the kernel's and ceph-fuse, answer for every file and directory.
//
// [Answer] gives a [lustre.System] its answers. A layout is one component: stripe_unit,
// stripe_count and object_size are StripeBytes, StripeCount and ObjectBytes, and the pool
// goes with its namespace. A project is a directory, named by its path: its limits hold for
// all that is below, and those of the directories above hold as well. [RecursiveUsage] is a
// du of a directory in one call. There is no archive and no log of changes in a CephFS.
//
// Answers are values that callers may share, and nothing is kept between calls. A call
// waits for the metadata server as long as that takes: a context is looked at before a
// call and between two, because no client interrupts one that waits.
//
// # What a CephFS does
//
// Seen on version 16.2 through ceph-fuse and the client of Linux 6.1; test/e2e-ceph repeats
// most of it with both. They are alike where nothing is said of one.
//
//   - Layouts are for files that were never written: afterwards, also when the file was
//     made empty again, ENOTEMPTY is the answer (EINVAL from others). New files take that of
//     the nearest directory above that has one.
//   - A stripe unit is a multiple of 64 KiB, an object of the stripe unit, and everything
//     else is EINVAL, as is a pool that is not there or not one of this file system. A
//     stripe count may be anything from 1 to 2^32-1. A pool "3" is the one with that number.
//   - Objects may be larger than the OSDs take (osd_max_object_size, 128 MiB): it is said
//     yes to. A write behind that size is taken, too; fsync alone tells of it (EFBIG), and the
//     client tries again for ever and keeps the bytes, until it has no memory for others and
//     every writer waits, not to be killed (ceph-fuse; not tried with the kernel's). Such layouts
//     are refused here, and those that are there can be seen by MaxObjectBytes.
//   - A pool that the client's key has no rights in is taken, and the first write is EPERM.
//   - The first write into a file with a layout of its own waits until the metadata server
//     writes its journal, up to 5 seconds, unless an fsync asks for that before: Create does.
//     A file that gets the layout of its directory does not wait: for many files, that is
//     the way.
//   - A file that another client wrote is looked at after up to 5 seconds, file by file, as
//     long as that client remembers it.
//   - To set the layout and the namespace of its pool are two requests; the first leaves
//     the namespace as it is.
//   - SEEK_HOLE knows no holes, and what a file has allocated is told by its length. Times are
//     32 bits without a sign: a second before 1970 is one in 2106 (the kernel's client sets
//     it to 1970).
//   - The root always has a layout, and it can not be taken away (EINVAL).
//   - Any user with write permission on a directory can set its layout and quota, if the key
//     of the client has "p" (rwp) for the path; else EACCES.
//   - A quota is held by the clients, root's writes included, and late: what was written is
//     known to them after the metadata server has heard of it and has told it upwards, in
//     5 to 10 seconds. A writer that is faster gets past its limit by what it writes in that
//     time: 60 MiB in 0.2 seconds went into a limit of 10 MiB, each of them with an fsync.
//     One that writes 5 MB/s is stopped at the limit. Afterwards new bytes are EDQUOT; what
//     is there can be overwritten. Files are refused in time in the directory itself; the
//     kernel's client may take one too many.
//   - The number of files counts directories and links, and the directory itself: of a limit
//     of 1 nothing is left. A limit that is taken away is set to 0.
//   - rename into another quota is EXDEV.
//   - In a mount of a directory (-r), a quota above it can not be seen, and holds; statfs
//     shows the nearest one of the mount's root in units of 4 MiB.
//   - rbytes and rfiles are behind by the same 5 to 10 seconds; fsync and sync do not change
//     that. rsubdirs counts the directory itself.
package cephfs
