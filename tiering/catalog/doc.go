// Package catalog knows what is in the tiers without walking them: for every name the facts that policies decide by, some
// 40 bytes each, in a directory of this host. It is no truth: it can be thrown away, and a scan makes it again.
//
// Its words: a [Tree] is what is catalogued, a tier, or that of one node; a folder is a directory of a tree, by a number
// that is its alone (one that was moved is a new one, and is read anew); a page is a run of a folder's entries; a scan compares a walk with what is there
// ([Catalog.Scan]). A look does that for single names, because a feed of changes says that something happened to them
// ([Catalog.Look]). A mark is the position of such a feed.
//
// Promises:
//
//   - What is there is what a walk or a look saw, at some time since the last one, of names in directories that could be read. Of
//     a directory that could not, what was known stays.
//   - Concurrency: everything may be called from many goroutines. Scans and looks of one tree wait for each other; a reader sees one
//     moment, and does not wait.
//   - After kill -9 everything is there that was committed: what a look saw is there before its mark is. [State.Scanned] is of the last
//     scan that came to its end, and [State.Began] says that another one did not. A directory that was found and not read to its end is read by
//     the next look at it.
//   - A full disk is mover.ErrFull before anything is written. A damaged catalog is moved aside at Open and replaced by an empty
//     one. Nothing is scanned, so nothing is decided by it.
//   - Memory does not grow with the entries (TestSizes): what is mapped of the store's files is given back.
//
// What entries mean, and what is done with them, is left to policies. TestScan compares with the tree, TestModel with a map of names; TestKill
// kills the process in the middle of a scan and of a look.
package catalog
