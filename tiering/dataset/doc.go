// Package dataset decides what may happen to copies of datasets: which one may be
// released, purged or evicted, where a new one goes, and which one it is made of.
// It decides and does nothing.
//
// # Words
//
// A tier is a named root of the cluster: hot, warm or cold; one on every node has
// one root, and a replica on it names its node. A dataset is what moves as one,
// a version of it one exact content, named by a digest. A replica is one version at
// location, on a tier or outside of all. A lease says which holder needs a replica and
// until when, a pin "not before this date". The messages are those of
// datamove.v1; [Facts] is what the ledger says with them at one moment, and a
// [View] are facts in which the rules find what they ask for.
//
// An address is where a location really is: two names of one location, by tier, by
// path, by a tier within a tier, have one address. Buckets are told apart by
// name alone, because two endpoints may be one store. What text can not tell, a symbolic
// link or a mount, has to be compared by the worker that acts.
//
// # Promises
//
//   - The only copy is never released. Another one counts when it is whole, was
//     verified by the store or by reading, is of the same dataset and digest, lies on
//     another tier that is not ephemeral, or outside, and is not being removed
//     ([View.MayRelease]). The record of it may be out of date: the worker that removes
//     looks at one of [View.Survivors] first.
//   - What is leased, pinned, or worked on by a task is neither released nor purged
//     nor evicted, under no name of it and no part of it.
//   - Purge stays below the root of an ephemeral tier ([View.MayPurge]).
//   - In doubt the answer is no: about a record that contradicts itself, a location
//     that can not be followed, a state that is not known.
//   - Time comes from the caller, and with [Forward] an expired lease stays expired,
//     whatever the clock does.
//
// A View does not change and may be asked by many goroutines. An answer is true of
// its facts only. The ledger asks again in the very change that marks the replica
// REMOVING, and only a WHOLE replica can be leased. Then two releases can not rely
// on each other; TestInterleavings shows that, and what happens without. Nothing here
// survives a crash, nor has to. TestNoWrongRelease and TestNoWrongPurge compare the
// rules with a world of directories in which data is really lost.
//
// When to stage or to release is left to policies, identity of files to the mover.
package dataset
