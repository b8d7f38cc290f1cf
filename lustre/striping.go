package lustre

import (
	"context"
	"fmt"
)

// Striping is how the entries of a directory are spread over metadata servers (LMV), or
// how those of new directories in it will be.
type Striping struct {
	Count      int     `json:"count"`                  // MDTs; 1 is a plain directory, AllTargets all of them
	FirstMDT   int     `json:"first_mdt"`              // index; AnyTarget leaves it to the file system
	Hash       Hash    `json:"hash,omitempty"`         // which entry goes where
	HashFlags  uint32  `json:"hash_flags,omitempty"`   // LMV_HASH_FLAG_*: how a hash is used, and what is going on
	MaxInherit int     `json:"max_inherit,omitempty"`  // of a default: how many levels of new directories have it; 0 all of them, NoInherit none
	MaxRoundRR int     `json:"max_round_rr,omitempty"` // of a default: how many levels choose their MDT in turn
	Pool       string  `json:"pool,omitempty"`
	Shards     []Shard `json:"shards,omitempty"` // of a striped directory: its stripes
	// Foreign is a directory with entries that something else than Lustre keeps; then there is nothing else.
	Foreign *Foreign `json:"foreign,omitempty"`
}

// NoInherit is the MaxInherit of a default for direct children only.
const NoInherit = 255

// Shard is one stripe of a directory.
type Shard struct {
	FID FID `json:"fid"`
	MDT int `json:"mdt"`
}

// DirStriper is a Layouts of a file system that can spread one directory over several
// metadata servers.
type DirStriper interface {
	// Striping is that of an open directory.
	Striping(ctx context.Context, dir int) (Striping, error)
	// MakeDir makes the directory base in dir. It is read again; an error leaves none.
	MakeDir(ctx context.Context, dir int, base string, mode uint32, s Striping) error
}

// Hash is the function that maps a name to a shard (LMV_HASH_TYPE_*).
type Hash uint16

// The hashes, by their numbers on the wire.
const (
	AllChars Hash = 1
	FNV1a64  Hash = 2
	CRUSH    Hash = 3 // names that differ in a suffix stay together: the default since 2.14
	CRUSH2   Hash = 4
)

var hashNames = [...]string{"none", "all_char", "fnv_1a_64", "crush", "crush2"}

// String is the word of lfs; of a hash that has none here its number.
func (h Hash) String() string {
	if int(h) < len(hashNames) {
		return hashNames[h]
	}
	return fmt.Sprintf("%#x", uint16(h))
}
