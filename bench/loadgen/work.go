package loadgen

import (
	"regexp"
	"time"

	"datamove.dev/bench/result"
	"datamove.dev/mover"
)

// Work is a phase of a run, as every rank does it.
type Work struct {
	Suite, Name string // for people, and in the record: "large", "write"
	What        string // for people: "1 file of 1 GiB each, in blocks of 4 MiB"
	Unit        result.Unit
	Repeat      int  // from 1
	Last        bool // the tree is not needed afterwards
	Nodes       int  // that take part: those with the lowest numbers; the conductor makes all of 0
	Ranks       int  // of each of them
	Do          Deed
	Tree        Tree
	Order       Order         // of reads
	Cache       Cache         // what is done about page caches
	Verify      bool          // what is read is compared with what was written
	Durable     Durable       // when what is written is synced; counted in the time
	Shift       int           // read what the rank so many further has written: that of another node
	Limit       time.Duration // ranks stop after this time, at the end of what they are at; 0 is none
	Have        []Have        // what each rank of all nodes has made of the tree; nil is all
}

// all is how many ranks all nodes have together.
func (w *Work) all() int { return w.Nodes * w.Ranks }

// have is what a rank has made.
func (w *Work) have(rank int) Have {
	if w.Have == nil {
		return w.Tree.full()
	}
	return w.Have[rank]
}

// Deed is what is done.
type Deed string

// The deeds. An operation is a block that is written or read, or, where a file has one block or none, a file; or a name that is worked on; of List and Find a name that is found.
const (
	Mkdir  Deed = "mkdir"  // the directories of a tree
	Create Deed = "create" // empty files
	Write  Deed = "write"
	Read   Deed = "read"
	Stat   Deed = "stat"
	Rename Deed = "rename" // to another name in the same directory
	List   Deed = "list"   // the names in directories
	Find   Deed = "find"   // the same, and what each is
	Unlink Deed = "unlink"
)

// moves says that a deed moves bytes.
func (d Deed) moves() bool { return d == Write || d == Read }

// deeds are all of them.
var deeds = map[Deed]bool{Mkdir: true, Create: true, Write: true, Read: true, Stat: true, Rename: true, List: true, Find: true, Unlink: true}

// Order is in which order a rank reads.
type Order string

// The orders.
const (
	Forward  Order = ""         // as it was written
	Shuffled Order = "shuffled" // the blocks of one rank, each once, by chance
	Global   Order = "global"   // the blocks of all ranks, each once, by chance: an epoch of a data loader
)

// Cache is what is done about the page cache of the client. Nothing is done about those of servers.
type Cache string

// The caches.
const (
	Direct Cache = "direct" // past it, by O_DIRECT; as Drop where a file system or a block does not permit it
	Drop   Cache = "drop"   // through it, and what is in it is dropped before it is read
	Keep   Cache = "keep"   // through it: what is read may come from memory
)

// Durable is when what is written is synced.
type Durable string

// The times.
const (
	Never   Durable = ""
	EachEnd Durable = "file" // each file before it is closed
	AtEnd   Durable = "end"  // the file system, by each node, when all its ranks are done
)

// Tree is the files of a phase. Those of one rank are on one target.
type Tree struct {
	Name   string // of its directory: letters of a-z, digits and hyphens
	Dirs   int    // directories of each rank; 0: the files of all ranks are in one directory
	Files  int    // of each rank
	Bytes  int64  // of a file
	Block  int64  // bytes of a read or write; 0 is a file
	Shared bool   // one file of all ranks: block i of rank r of n is block i*n+r of it
}

// Makes says that a deed changes what ranks have of a tree.
func (d Deed) Makes() bool { return d == Create || d == Write || d == Rename }

// Have is how much of a tree a rank has made.
type Have struct {
	Blocks  int64 // of its files, in order
	Files   int64 // that are there
	Renamed int64 // of them, the first ones
}

// block is how many bytes are read or written at once.
func (t *Tree) block() int64 {
	if t.Block == 0 || t.Block > t.Bytes {
		return t.Bytes
	}
	return t.Block
}

// perFile is how many blocks a file has.
func (t *Tree) perFile() int64 {
	if t.Bytes == 0 {
		return 0
	}
	return (t.Bytes + t.block() - 1) / t.block()
}

// whole says that a file is read and written at once.
func (t *Tree) whole() bool { return t.perFile() <= 1 && !t.Shared }

// full is what a rank has when it has made all.
func (t *Tree) full() Have { return Have{Blocks: int64(t.Files) * t.perFile(), Files: int64(t.Files)} }

const (
	mostRanks = 1 << 20 // of a run
	mostFiles = 1 << 30 // of a rank
	mostBlock = 1 << 30 // bytes
	mostBytes = 1 << 50 // of a file
)

var plain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// check says what a work can not be: it may come from another host.
func (w *Work) check() error {
	t := &w.Tree
	switch {
	case w.Nodes < 1 || w.Ranks < 1 || w.Nodes > mostRanks || w.Ranks > mostRanks || w.all() > mostRanks:
		return mover.Usagef("%d ranks on each of %d nodes; want at least 1, and at most %d in all", w.Ranks, w.Nodes, mostRanks)
	case !deeds[w.Do]:
		return mover.Usagef("there is no deed %.40q", w.Do)
	case !plain.MatchString(t.Name):
		return mover.Usagef("the tree is called %.60q; want up to 40 letters of a-z, digits and hyphens", t.Name)
	case t.Dirs < 0 || t.Files < 0 || t.Bytes < 0 || t.Block < 0 || w.Shift < 0 || w.Limit < 0:
		return mover.Usagef("a number of %s is below 0", t.Name)
	case t.Dirs > mostFiles || t.Files > mostFiles || t.Bytes > mostBytes || t.block() > mostBlock:
		return mover.Usagef("%s is too large: at most %d files of %d bytes in blocks of %d", t.Name, mostFiles, int64(mostBytes), mostBlock)
	case t.Shared && (t.Files != 1 || t.Dirs != 0 || t.block() == 0 || t.Bytes%t.block() != 0):
		return mover.Usagef("a shared file is one of whole blocks, and in no directory of a rank")
	case t.Shared && !w.Do.moves():
		return mover.Usagef("%s of the one file that all ranks share", w.Do)
	case t.perFile() > 1 && t.block()%16 != 0:
		return mover.Usagef("blocks of %d bytes of %s; want a multiple of 16", t.block(), t.Name)
	case w.Do.moves() && t.Bytes == 0:
		return mover.Usagef("%s: files of 0 bytes are created, and not written", t.Name)
	case w.Order != Forward && w.Order != Shuffled && w.Order != Global:
		return mover.Usagef("there is no order %.40q", w.Order)
	case w.Cache != Direct && w.Cache != Drop && w.Cache != Keep:
		return mover.Usagef("there is no cache %.40q; want direct, drop or keep", w.Cache)
	case w.Durable != Never && w.Durable != EachEnd && w.Durable != AtEnd:
		return mover.Usagef("there is no durable %.40q", w.Durable)
	case w.Have != nil && len(w.Have) != w.all():
		return mover.Usagef("what %d ranks have, of %d", len(w.Have), w.all())
	}
	full := t.full()
	for _, h := range w.Have {
		if h.Blocks < 0 || h.Files < 0 || h.Renamed < 0 || h.Blocks > full.Blocks || h.Files > full.Files || h.Renamed > h.Files {
			return mover.Usagef("a rank can not have %+v of %+v", h, full)
		}
	}
	return nil
}
