// Package metered counts what is asked of a place: calls, bytes, and calls that failed
// for a reason that passes.
//
// [New] wraps a place so that everything is counted in a [Counter], which several
// places of one tier may share. It counts what the mover asks for, in the words of the
// Place contract: an entry that a walk yields, a range that is read, a draft that is
// published. What a file system or a client makes of that (system calls, requests) is
// theirs. Bytes are those that came out of ranges and that drafts took from their
// feeds; what is cloned, skipped as a hole, or read again after it was written is
// counted as the reading and writing that it is, and nothing else.
//
// A place that is a [mover.Teller] counts what is done with its contents and drafts by
// itself; those of others are wrapped.
//
// It sits closest to the place, below retry, so that each try counts. Counters may be
// read and added to from many goroutines. Nothing is kept. TestCounts shows what counts
// as what; the contract of mover/backend/backendtest, that nothing else changes.
package metered
