// Package transfer turns a stream of planned actions into bytes moved, within
// limits.
//
// # How
//
// The cutter reads the stream in order and cuts it into units: batches of small
// entries, and large files, which are cut into parts so that one file uses every
// worker. Workers take units from one bounded queue; a part of a file that is
// already open goes before new work. Parts are multiples of the stripes of the file, where
// it has some; our workers take them from its front, and what is given to other processes
// is a run of them from its end, so that clients do not fight for locks on ranges. A batch is drafted and filled entry by entry and
// then published as one; where publishing has to wait for stable storage, the
// committer collects many batches and publishes them while the workers go on.
// What must come last waits in spools on disk: what is to be moved once more, hard
// links, removals (only when nothing is in doubt), what is tidied up, and the facts of
// directories.
//
// A directory that is new and lies wholly inside one batch is built under a
// temporary name and published by one rename.
//
// # Promises
//
// Memory does not grow with the number of entries, nor with the size of one.
// Every byte is hashed by the [feed.Reader] as it passes. An entry that can not be moved
// is reported and the others go on; one that stands still is moved by itself when all
// else has been moved (TestStandstill), and what was listed waits for no listing that
// stands still (TestLull). A call that can not be ended, as of the kernel on a mount with a
// server that is away, keeps its worker until it returns; another worker goes on in its place,
// for up to 64 of them, and the run ends when all have returned (TestHung). The name of such a
// call is the oldest in Counters.InWork. Parts of large files, and what is moved by itself, are
// not relieved. Only a fault that would hit every entry (no
// room, no endpoint, the end of ctx) ends the run. After a crash the journal knows
// the parts and the finished drafts that were not yet published; a later run takes
// them over. Removals are the last step, and none begins after any other error, but that
// of a name which the target can not have (TestUnheldNames).
//
// What an entry's fate was is told to the [Observer]. Where things are is not
// known here: source and target are any places, and plan has decided. The tests
// here run over mem; test/simulation/engine adds faults, test/crash kills.
package transfer
