// Package checkpoint finds the checkpoints of a training job in the directory that it writes them to, and says which are complete.
//
// Its words: a profile is the framework that writes, and a folder may have sets of several; a set is one checkpoint, an entry directly below the directory; its mark is the
// file in it without which no reader takes it for complete, and which is copied last; a tracker is a file or a link beside the
// sets that names the newest; a print is what everything in a set looks like (names, inodes, sizes, times); a commit is our own mark,
// which names all files of a set; a folder is where sets are, on a disk or in a store.
//
// "Newest" is not "complete": a set counts when its profile has a positive sign of it, nothing speaks against it (a temporary name, a
// marker of what is unfinished, an empty or a missing shard, a file that is younger than the mark, something that was added to it or taken from it
// since, other files than those of the set that the tracker names), no file of it is shorter than its format says and none is missing that another one names ([Torn]), all ranks have written ([Check]), and, for a
// copy, its print has stayed the same for a while ([Stability]). A [Commit] needs none of that, and is held to its list.
// Which is the newest says when sets were saved, and when the tracker was written that names one ([Found.Current]): a run that is rolled back counts its steps again.
// No content is believed but that of trackers and commits: nothing is ever unpickled.
//
// What can not be seen: a set that is saved over within ten seconds of the save before, and torn (two where one mark says all); random states of other processes than the first,
// which HF's Trainer writes after its last sign; that a file of a format that says no length, of a script of one's own or of Orbax, is cut off; and one that was exchanged with that of another save, where
// no mark has a time. TestOneFile has these.
//
// [Read], [Each] and [Look] are the only deeds. The directory is its user's, and hostile: everything is opened beneath it, no link is followed, no
// other file system is entered, nothing that could wait is opened, and entries, depth and bytes are bounded. All else is pure;
// values do not change once they are made, but for Stability, which one goroutine has. TestFind has the shapes of each profile,
// TestCrashes stops a writer of each framework at every step, TestHostile has what a user can put in the way, FuzzTracker and FuzzCommit what can stand in
// trackers and commits.
package checkpoint
