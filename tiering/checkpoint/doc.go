// Package checkpoint finds the checkpoints of a training job in the directory that it writes them to, and says which are complete.
//
// Its words: a profile is the framework that writes; a set is one checkpoint, an entry directly below the directory; its mark is the
// file in it without which no reader takes it for complete, and which is copied last; a tracker is a file or a link beside the
// sets that names the newest; a print is what everything in a set looks like (names, inodes, sizes, times).
//
// "Newest" is not "complete": a set counts when its profile has a positive sign of it, nothing speaks against it (a temporary name, a
// marker of what is unfinished, an empty or a missing shard, a file that is younger than the mark), and, for who copies it, its
// print has stayed the same for a while ([Sights]). No content is believed but that of trackers, of which a few bytes are
// read: nothing is ever unpickled.
//
// [Read] is the only deed. The directory is its user's, and hostile: everything is opened beneath it, no link is followed, no
// other file system is entered, nothing that could wait is opened, and entries, depth and bytes are bounded. All else is pure;
// values do not change once they are made, but for Sights, which one goroutine has. TestFind has the shapes of each profile,
// TestHostile what a user can put in the way, FuzzTracker what can stand in trackers.
package checkpoint
