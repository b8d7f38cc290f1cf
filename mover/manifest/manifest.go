// Package manifest reads and writes the exact contents of a tree: names, facts
// and checksums. They are for what a store can not keep by itself, and for later
// comparisons. Put around a store (Overlay), it gives entries back the facts that
// they had.
//
// # Format
//
// A manifest is text in lines, compressed with zstd; plain text is read too. Each
// line is a JSON object. The first one is the header:
//
//	{"format":"datamove-manifest","version":1,"created":"2026-01-02T03:04:05Z","source":"/data"}
//
// Then comes one line for each entry, in the order of mover.Compare; the root,
// named "", may be the first:
//
//	{"name":"a/b","kind":"file","size":5,"mode":"0644","uid":0,"gid":0,"mtime":"1700000000.000000001","crc64nvme":"ae8b14860a799888","etag":"..."}
//
// The fields are, in this order and only where they are known: name, kind, size,
// mode (octal), uid, gid, mtime, atime, ctime (decimal seconds with nine digits
// behind the point, of the tree that the entry was copied from), rdev, target,
// crc64nvme, etag, versionid, link (the first name of a group of hard links), links
// (how many names the group has, also outside of the tree), xattrs (objects with
// name and value, the value in base64; what an object of a store has beside its bytes is
// among them, by names that begin with mover.XattrObject, and states what it states of a file), data (pairs of offsets: what lies outside
// of holes). Bytes that are no UTF-8 are written in base64, as name64, target64 and
// link64. The last line says how much there must have been:
//
//	{"end":true,"entries":1,"bytes":5,"digest":"..."}
//
// The digest is the SHA-256 of the canonical text: the line
// {"format":"datamove-manifest","version":1} and all lines of entries as the Writer
// writes them, without atime, ctime, etag, versionid, links and data, which differ
// between equal copies. It says that a manifest is whole, and no more: times and owners
// count in it. What stands behind the '@' of dataset:name@digest is made by [Digest].
//
// # Promises
//
// A manifest is hostile input. What is read without an error to its end is what was
// written: in order, with valid names, and whole. Memory is bounded by a line
// and by the open groups of hard links. Nothing here is safe for use by several
// goroutines at a time, but for Overlay, which is what the backend below it is. A
// manifest becomes visible as a whole because its backend publishes it so.
//
// What a manifest is for, and when it is written, is left to others.
// TestRoundTrip, FuzzReader and the files in testdata hold it to this page.
package manifest

import (
	"fmt"
	"time"

	"datamove.dev/mover"
)

// Path is where a store keeps the manifest of a tree, below its prefix.
const Path = ".datamove/manifest-v1.jsonl.zst"

const (
	formatName = "datamove-manifest"
	version    = 1
)

// Bounds of what is read; the Writer keeps to them too.
const (
	maxLine     = 8 << 20 // bytes of a line
	maxName     = 64 << 10
	maxTarget   = 64 << 10 // of a symbolic link; Linux keeps 4095
	maxSegments = 1 << 16  // of a file; holes beyond are written as data
	maxGroups   = 1 << 20  // groups of hard links with names still to come
	maxLeaders  = 64 << 20 // bytes of the names that these groups go by
	maxWindow   = 8 << 20  // of zstd: what a decoder must hold
)

// Header is what a manifest says of itself. It does not count in the digest.
type Header struct {
	Created time.Time // when it was written; the zero time is not said
	Source  string    // the address of the tree; "" is not said
}

// Summary is what a whole manifest contains.
type Summary struct {
	Entries int64
	Bytes   int64  // the sum of the sizes of all files
	Digest  string // SHA-256 of the canonical text, in hexadecimal
}

// damage is what is wrong with a manifest. It is a kind of mover.ErrCorrupt.
type damage struct {
	line int64
	why  string
}

func (d *damage) Error() string {
	if d.line == 0 {
		return "the manifest is damaged: " + d.why
	}
	return fmt.Sprintf("the manifest is damaged: line %d: %s", d.line, d.why)
}

func (*damage) Unwrap() error { return mover.ErrCorrupt }

// inode identifies a group of hard links while it is written.
type inode struct{ dev, ino uint64 }
