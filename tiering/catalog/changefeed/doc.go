// Package changefeed keeps a catalog fresh: it takes what a source tells of changes, and looks at the names that they happened to.
//
// Its words: a [Feed] tells of changes in one tree. A [Batch] is what it hands over, names that have to be looked at, or that everything has to be,
// because something was not heard. A [Window] gathers names for a feed with a source that does not wait. A [Follower] takes batches into a catalog.
//
// A feed has memory, or has none. One that has (a Lustre's change log, a queue of a bucket) goes on after a pause from its mark. One
// that has none (the kernel's) has not heard what happened before it began. A feed that can not go on from its mark, or has none, begins with a
// batch that says All. A source listens before that batch is taken, so nothing falls between the scan and what is heard.
//
// Names say where something happened, not what: what is true is seen when the name is looked at, later than it was told. So it does no harm to
// hear of something twice, late, or in another order, and hundred writes to one file are one look.
//
// Promises:
//
//   - When nothing changes any more, and the feed was heard to its end, the catalog is what a scan would make of it (TestModel, TestKill of package
//     inotify), but for what no source tells: see each feed.
//   - A source is told that a batch is done with after the batch and its mark are on stable storage, and not before.
//   - A name that can not be looked at, while others can, does not delay the others. It is counted, tried again each minute, and what was known of it stays.
//   - Memory is bounded. A window that is full makes one of many names: their directory, which is then read whole; where that does not help, All.
//   - Concurrency: a Window and the Progress of a Follower may be used from many goroutines. A feed may take batches from many.
//
// What is told is not all: a rolling scan finds what no feed did. It is left to others, as is which feed a tree has.
package changefeed
