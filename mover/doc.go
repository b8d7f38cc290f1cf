// Package mover holds the words of the data mover: what a backend is, what it
// contains, and how something new becomes visible in it.
//
// # Words
//
// A [Backend] is a tree of entries: a directory of a POSIX file system, a prefix
// of an S3 bucket, or a tree in memory. An [Entry] is one name in it, with what
// the backend knows of it ([Facts]). A [Content] is an entry that is held open for
// reading. A [Draft] is one that is being written and that no reader can see yet.
// A [Part] is a range of bytes of one entry, a [Feed] the bytes of one part on
// their way, and a [Receipt] what the target gave for them.
//
// # Promises of every backend
//
//   - Whole or absent: an entry is visible only after [Target.Publish], and then whole.
//   - Order: [Source.Walk] yields entries in the order of [Compare], each once.
//   - Identity: a [Content] gives bytes of the very entry that it was opened for,
//     or [ErrChanged]; never a mixture.
//   - Escape: a name that is not [ValidName] is refused, and no name leads out of
//     the root of its backend, also not through a link that is planted meanwhile.
//   - Concurrency: all methods may be called from many goroutines, unless they
//     say otherwise. The parts of a draft may be written in any order, at the same
//     time, and from any process that holds its token.
//   - After a crash: drafts that were not published are recognised by their name
//     (see [WriterID]), are ignored by walks, and can be resumed by token or dropped.
//
// The package imports nothing of ours. What moves bytes is transfer, what decides
// is engine/plan, and the backends are posix, s3 and mem; backendtest holds them to this page.
package mover
