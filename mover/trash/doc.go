// Package trash takes directories away at once, and removes what is in them later.
//
//	ROOT/.datamove-trash/            0700, of the process that moves and empties: root's, where root does
//	    20260102T150405.000000000Z.slurm-job-7.K3XQ...    when, why, and what no other name has
//
// Its words: an item is what [Move] has put into the trash of a root, with one rename, however much is in it. [Empty]
// removes items, the oldest first, at a [Rate]. [Clear] is how: it removes everything below a directory that is open.
//
// What is in the trash was written by users that may be malicious, and may use it still. Everything is named by one segment in a
// directory that is open, and directories are opened with openat2(2): over no link, into no mount, nowhere outside. A
// directory is taken from its owner before anything in it is removed ([seal]), so only root can exchange what lies
// there. What keeps an entry from being removed is taken away where it is that entry's alone: a mode, an attribute
// (immutable, append-only), a subvolume that is read-only ([loosen]). What stays (a mount, a file with another name that
// is immutable) is told, and everything else goes. However a tree is made, [deepest] directories are open and [namesOnce]
// names of each in memory: what lies deeper is moved up.
//
// All of it may be done by many at once, and begun again after a kill at any point: nothing is remembered but by the
// directories. A move is not synced: after a power cut it may be undone, and the caller moves it again.
//
// The callers decide what may be removed, and when. mover.Backend.Remove checks each entry, in a tree that a user owns; here
// nothing is checked any more. Root, as a process that goes on writing into what is removed, is not kept from it. TestKill,
// TestHostile and TestExchanged show it.
package trash
