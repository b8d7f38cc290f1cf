package mover

import (
	"strings"
	"time"
)

// Kind is what an entry is.
type Kind uint8

// The kinds of entries. The zero Kind is no entry at all.
const (
	File Kind = iota + 1
	Dir
	Symlink
	FIFO
	Socket
	CharDevice
	BlockDevice
)

var kindNames = [...]string{"none", "file", "dir", "symlink", "fifo", "socket", "chardev", "blockdev"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// ParseKind is the inverse of [Kind.String].
func ParseKind(s string) (Kind, bool) {
	for i, name := range kindNames {
		if i > 0 && name == s {
			return Kind(i), true
		}
	}
	return 0, false
}

// Special reports whether k has neither content nor a link target.
func (k Kind) Special() bool { return k >= FIFO }

// Facts is a set of things known of an entry, or kept by a place.
type Facts uint16

// The facts. Kind, Size and Name are always known.
const (
	FactMode  Facts = 1 << iota // permission bits with setuid, setgid and sticky
	FactOwner                   // numeric uid
	FactGroup                   // numeric gid
	FactMtime
	FactAtime
	FactCtime
	FactXattrs // extended attributes, POSIX ACLs among them
	FactLinks  // which names share one content
	FactHoles
	FactCRC // CRC-64/NVME of the whole content

	// What an object of a store has: Entry.Object.
	FactHeaders  // that it is given out with: content type, encoding, language, disposition, caching, expiry, redirect
	FactMetadata // of users
	FactTags
	FactClass // the storage class
)

// FactLayout is how a file is spread over the targets of its file system. It is kept only
// where it is asked for by name: it is no part of what a file is.
const FactLayout Facts = 1 << 15

// FactPrivileges are rights that a file gives to processes that run or open it. A store can only tell of them. They are setuid and setgid of what is no
// directory, attributes of security.* and trusted.*, and devices. An account with the right to write a prefix of a bucket can tell anything. They are
// taken from a backend that is Untrusted only where they are asked for by name.
const FactPrivileges Facts = 1 << 14

// AllFacts are all that a set of none stands for.
const AllFacts = FactMode | FactOwner | FactGroup | FactMtime | FactAtime | FactCtime | FactXattrs | FactLinks | FactHoles | FactCRC | FactsOfObject

// Has reports whether all facts of g are in f.
func (f Facts) Has(g Facts) bool { return f&g == g }

// Time is a point in time as file systems keep it: seconds since 1970 and
// nanoseconds from 0 to 999,999,999, before 1678 and after 2262 too.
type Time struct {
	Sec  int64
	Nsec int32
}

// TimeOf converts a time.Time.
func TimeOf(t time.Time) Time { return Time{t.Unix(), int32(t.Nanosecond())} }

// Std converts to a time.Time in UTC.
func (t Time) Std() time.Time { return time.Unix(t.Sec, int64(t.Nsec)).UTC() }

// After reports whether t is later than u.
func (t Time) After(u Time) bool {
	return t.Sec > u.Sec || t.Sec == u.Sec && t.Nsec > u.Nsec
}

// TimeRange is what a place keeps of times. The zero value keeps them as they are.
type TimeRange struct {
	First, Last int64         // seconds; both 0 is all that there are
	Grain       time.Duration // times that differ by less may be the same; 0 is nanoseconds
	Unsure      bool          // the grain depends on what is behind it: a server, a process, a format
}

// Same reports whether b can be what a place like r has made of a: a itself, or cut to the
// grain, or, beyond the range, the nearest time in it, or the one that is left when the
// seconds lose their high bits (NFS 3; ext4 and xfs before Linux 5.4). Where the grain is not known, one may be the other cut to a
// grain that there is: by chance two times are hardly ever that, because the later digits of the one would all have to be zeros.
func (r TimeRange) Same(a, b Time) bool {
	if r.Unsure && (cutTo(a, b) || cutTo(b, a)) {
		return true
	}
	if r.First == 0 && r.Last == 0 {
		return near(a, b, r.Grain)
	}
	apart, width := uint64(a.Sec)-uint64(b.Sec), uint64(r.Last-r.First)+1 // a width of 0 is all 64 bits
	return near(r.nearest(a), r.nearest(b), r.Grain) ||
		(apart == 0 || width != 0 && apart%width == 0) && near(Time{Nsec: a.Nsec}, Time{Nsec: b.Nsec}, r.Grain)
}

// grains below a second that systems keep times in, in nanoseconds: NTFS and SMB, databases and object stores behind FUSE, exFAT.
var grains = [...]int32{100, 1000, 1_000_000, 10_000_000}

// cutTo reports whether b is a without what is smaller than some grain: one of those above, a second, or the two of FAT. Of whole
// seconds two that differ are two times.
func cutTo(a, b Time) bool {
	if b.Nsec == 0 && (a.Sec == b.Sec || a.Nsec != 0 && a.Sec&^1 == b.Sec) {
		return true
	}
	if a.Sec != b.Sec {
		return false
	}
	for _, grain := range grains {
		if a.Nsec-a.Nsec%grain == b.Nsec {
			return true
		}
	}
	return false
}

// nearest is the nearest time in the range. That has no fraction at the ends: the kernel
// takes it away (timestamp_truncate).
func (r TimeRange) nearest(t Time) Time {
	switch {
	case t.Sec <= r.First:
		return Time{Sec: r.First}
	case t.Sec >= r.Last:
		return Time{Sec: r.Last}
	}
	return t
}

// near reports whether two times are less than the grain apart, or equal.
func near(a, b Time, grain time.Duration) bool {
	if a == b || grain <= 0 {
		return a == b
	}
	if b.After(a) {
		a, b = b, a
	}
	sec := a.Sec - b.Sec
	if sec < 0 || sec > int64(grain/time.Second)+1 { // far apart; sec < 0 is an overflow
		return false
	}
	return time.Duration(sec)*time.Second+time.Duration(a.Nsec-b.Nsec) < grain
}

// Xattr is one extended attribute with its full name ("user.project").
type Xattr struct {
	Name  string
	Value []byte
}

// Segment is a range of stored bytes, from Start up to but without End.
type Segment struct{ Start, End int64 }

// Entry is one name in a place and what the place knows of it.
type Entry struct {
	// Name is the path relative to the root of the place, in raw bytes with '/'
	// between segments; the root itself is "". See ValidName.
	Name string
	Kind Kind
	// Known says which of the fields below are facts. Stat may know more than
	// Walk; Brief says that it does.
	Known Facts
	Brief bool

	Size         int64  // bytes of content; 0 unless a File
	Mode         uint32 // 0o7777
	UID, GID     uint32
	Mtime, Atime Time
	Ctime        Time        // of the inode; never set, only compared
	Rdev         uint64      // of devices, as in stat(2)
	Target       string      // of a Symlink
	Xattrs       []Xattr     // sorted by name
	Object       []Attribute // of an object of a store, sorted by name
	Stated       bool        // a file says that it knows Object, also where that is none (XattrKnown)
	CRC          uint64

	// Identity: equal values mean the same content as before.
	Dev, Ino uint64 // device and inode; files with equal values and Nlink > 1 are hard links
	Gen      uint64 // POSIX: inode generation where it is known
	Nlink    uint32 // how many names the inode has
	ETag     string // S3
	Version  string // S3, of versioned buckets

	// Key is that of an object below the root of its place that no name leads to ("a//b", "../c", "d/" with content). A walk tells of it by an
	// error, with a Name near it. It can be counted and removed, and copied to a place of Capabilities.AnyKey by a source that is one.
	Key string

	// Elsewhere says that another file system than that of the root is mounted here or above: removals leave it alone.
	Elsewhere bool

	// Shelf says of a directory below the root, in a walk of a store, that there is or may be something of ours in it, as a manifest of its own.
	Shelf bool

	// Layout is how a File is spread over the targets of its file system, as
	// FileSystem.Layout gives it, where that is to be kept. It is never compared.
	Layout []byte

	// Stored is how many bytes of a File are allocated; less than Size hints at
	// holes. Data lists the segments outside holes when Known has FactHoles.
	Stored int64
	Data   []Segment
}

// Identity is what tells whether an entry is still the one that was seen.
// It is comparable.
type Identity struct {
	Kind     Kind
	Dev, Ino uint64
	Gen      uint64
	Size     int64
	Mtime    Time
	Ctime    Time
	ETag     string
	Version  string
}

// Identity returns what identifies the content of e.
func (e *Entry) Identity() Identity {
	return Identity{e.Kind, e.Dev, e.Ino, e.Gen, e.Size, e.Mtime, e.Ctime, e.ETag, e.Version}
}

// Take gives e the facts of from that are named. Slices are shared.
func (e *Entry) Take(from *Entry, facts Facts) {
	e.Known |= facts
	if facts.Has(FactMode) {
		e.Mode = from.Mode
	}
	if facts.Has(FactOwner) {
		e.UID = from.UID
	}
	if facts.Has(FactGroup) {
		e.GID = from.GID
	}
	if facts.Has(FactMtime) {
		e.Mtime = from.Mtime
	}
	if facts.Has(FactAtime) {
		e.Atime = from.Atime
	}
	if facts.Has(FactCtime) {
		e.Ctime = from.Ctime
	}
	if facts.Has(FactXattrs) {
		e.Xattrs = from.Xattrs
	}
	if of := facts & FactsOfObject; of != 0 {
		e.takeObject(from, of)
	}
	if facts.Has(FactCRC) {
		e.CRC = from.CRC
	}
	if facts.Has(FactHoles) {
		e.Data, e.Stored = from.Data, from.Stored
	}
	if facts.Has(FactLinks) {
		e.Dev, e.Ino, e.Gen, e.Nlink = from.Dev, from.Ino, from.Gen, from.Nlink
	}
}

// Compare orders entries as walks yield them: bytewise by name, where a directory
// sorts as if its name ended in '/'. This is the order of an S3 listing, and it
// puts a directory directly before what it contains. The root is first.
func Compare(a, b *Entry) int { return CompareNames(a.Name, a.Kind == Dir, b.Name, b.Kind == Dir) }

// CompareNames is Compare for names that are not yet entries.
func CompareNames(a string, aDir bool, b string, bDir bool) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	if len(a) == len(b) {
		switch {
		case aDir == bDir || a == "":
			return 0
		case aDir:
			return 1
		}
		return -1
	}
	if len(a) < len(b) {
		if a == "" || aDir && b[n] == '/' {
			return -1
		}
		if aDir && '/' > b[n] {
			return 1
		}
		return -1
	}
	return -CompareNames(b, bDir, a, aDir)
}

// ValidName reports whether name may be used below a root: not absolute, no NUL,
// and no empty, "." or ".." segment. "" is the root.
func ValidName(name string) bool {
	if name == "" {
		return true
	}
	if strings.IndexByte(name, 0) >= 0 {
		return false
	}
	for rest, more := name, true; more; {
		var seg string
		seg, rest, more = strings.Cut(rest, "/")
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
	}
	return true
}

// ValidBucket reports whether a bucket may have that name. It is wider than AWS's
// rules of today (docs.aws.amazon.com, "General purpose bucket naming rules"): older
// buckets have capitals, underscores and up to 255 letters, those of a tenant of Ceph
// a colon. The store has the last word.
func ValidBucket(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("._:-", c) < 0 {
			return false
		}
	}
	return len(name) >= 3 && len(name) <= 255 && strings.IndexByte(".:-", name[0]) < 0
}

// Parent returns the name of the directory that holds name, and the last segment.
func Parent(name string) (dir, base string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// Join is the inverse of Parent.
func Join(dir, base string) string {
	if dir == "" {
		return base
	}
	return dir + "/" + base
}

// Within reports whether name is dir or lies below it.
func Within(name, dir string) bool {
	return dir == "" || len(name) >= len(dir) && name[:len(dir)] == dir && (len(name) == len(dir) || name[len(dir)] == '/')
}
