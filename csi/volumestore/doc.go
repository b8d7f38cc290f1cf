// Package volumestore is the directory of one file system below which the driver makes volumes.
//
//	base.json                    its identity, made once
//	volumes/KEY/volume.json      what is known of a volume (Record)
//	volumes/KEY/data             what pods see: a project of the file system, with its quota
//	snapshots/KEY/...            the same, read-only
//	making/KEY/...               one that is not whole yet
//	projects/ID                  which volume has a project ID, where IDs are ours to give; of a btrfs, which one is
//	                             gone, and has left something behind that Reap will remove
//	trash/KEY.TIME/...           removed, with a tombstone.json that has the time and the cause
//
// Its words: a [Base] is opened for each call, and refused when it is not on the kind of file system that the
// configuration says: an empty directory where nothing is mounted is no base. A [Wish] is what
// a caller wants made, a [Record] what was made.
//
// All state is here, and none in memory. A volume is made below making/, and is there when it is renamed to volumes/.
// After a kill, the next call does the same steps again, each of which finds what the last one did. What fails for
// good is undone at once, and what no call asks for again for a day is undone by Reap.
// Two calls that make the same volume at once make one. A removal begins with a tombstone, and is
// done with a rename; what is removed then is removed by package trash, some of it at a time. That has tombstones, archives and
// projects, which other trashes have not, and so is laid out here.
//
// Names come from a key of hexadecimal digits only. Everything is opened from the base on with
// openat2(2): no link is followed, and nothing outside is reached. The
// files that are trusted lie beside data, where no pod comes.
//
// Calls may hang with the file system; package fsworker makes them. Quotas and layouts are asked through
// package lustre.
package volumestore
