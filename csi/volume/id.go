package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"datamove.dev/mover"
)

// Kind is what a volume is.
type Kind string

// The kinds. All but Snapshot can be mounted.
const (
	Project  Kind = "project"  // a directory of a parallel file system, made by the driver
	Static   Kind = "static"   // a directory that was there; the driver never removes it
	Scratch  Kind = "scratch"  // a directory of a node's NVMe, made by the driver
	Dataset  Kind = "dataset"  // a replica of a dataset, read-only
	Inline   Kind = "inline"   // as Dataset, described in the pod
	Snapshot Kind = "snapshot" // what a volume held once
)

// ID names a volume or a snapshot. It has no path, server or option in it. A made-up ID
// reaches nothing that the driver did not make, or was not told of by an administrator.
type ID struct {
	Kind Kind
	// FileSystem is one of the driver's configuration; "" for Dataset and Inline.
	FileSystem string
	// Key is of Project, Scratch and Snapshot what KeyOf made of their name; of Static and
	// Dataset a label that an administrator chose; of Inline what the kubelet made up.
	Key string
}

const version = "v1"

// labelled are the kinds with a key that an administrator chose.
var labelled = map[Kind]bool{Static: true, Dataset: true}

var (
	// A name in Kubernetes (RFC 1123), so that it can be a part of names there, and 32 letters at most, so
	// that IDs stay below the 128 bytes of the specification.
	nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)
	// A name in Kubernetes with dots, as those of PersistentVolumes.
	labelForm  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)
	keyForm    = regexp.MustCompile(`^[0-9a-f]{32}$`)
	inlineForm = regexp.MustCompile(`^csi-[0-9a-f]{64}$`) // makeVolumeHandle in the kubelet
)

// KeyOf makes the key of a volume of a name, or a snapshot, on the file system that the
// driver knows by a random identity. The same name has the same key there, and another one on
// each other file system: a request that comes twice finds what the first one made.
func KeyOf(identity string, k Kind, name string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", identity, k, name))
	return hex.EncodeToString(sum[:16])
}

// OnNode is a key of what one node has: it begins with the node's tag, which names the driver to ask.
func OnNode(key, node string) string { return TagOf(node) + key[tagDigits:] }

// tagDigits is how much of a key says which node has it.
const tagDigits = 8

// TagOf is what the keys of a node begin with. Two nodes may have the same one.
func TagOf(node string) string {
	sum := sha256.Sum256([]byte("node\x00" + node))
	return hex.EncodeToString(sum[:tagDigits/2])
}

// Tag is the tag of the node that a volume of scratch, or a snapshot of one, is on.
func (id ID) Tag() string { return id.Key[:min(tagDigits, len(id.Key))] }

// ValidName reports whether a file system can have that name in the configuration.
func ValidName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%w: %q is no name of a file system: up to 32 of a-z, 0-9 and -, the first and the last no -", mover.ErrUsage, mover.Printable(name))
	}
	return nil
}

// ParseID reads what String wrote, and the handles of inline volumes.
func ParseID(s string) (ID, error) {
	bad := func(why string) (ID, error) {
		return ID{}, fmt.Errorf("%w: volume ID %s: %s", mover.ErrUsage, mover.Printable(short(s)), why)
	}
	if inlineForm.MatchString(s) {
		return ID{Kind: Inline, Key: s}, nil
	}
	fields := strings.Split(s, ":")
	if len(fields) != 4 || fields[0] != version {
		return bad("it is none of this driver: those are v1:KIND:FILESYSTEM:KEY")
	}
	id := ID{Kind: Kind(fields[1]), FileSystem: fields[2], Key: fields[3]}
	switch id.Kind {
	case Project, Scratch, Snapshot, Static:
		if !nameForm.MatchString(id.FileSystem) {
			return bad("what stands for the file system is no name of one")
		}
	case Dataset:
		if id.FileSystem != "" {
			return bad("a dataset has no file system in its ID: v1:dataset::KEY")
		}
	default:
		return bad("there are volumes of project, static, scratch and dataset, and snapshots")
	}
	switch {
	case labelled[id.Kind] && !labelForm.MatchString(id.Key):
		return bad("its key has to be up to 63 of a-z, 0-9, - and ., the first and the last a letter or a digit")
	case !labelled[id.Kind] && !keyForm.MatchString(id.Key):
		return bad("its key has to be 32 hexadecimal digits")
	}
	return id, nil
}

// String is the ID on the wire.
func (id ID) String() string {
	if id.Kind == Inline {
		return id.Key
	}
	return strings.Join([]string{version, string(id.Kind), id.FileSystem, id.Key}, ":")
}

// Ours reports whether the driver made the volume: only then it may ever remove it.
func (id ID) Ours() bool { return id.Kind == Project || id.Kind == Scratch || id.Kind == Snapshot }

// short cuts text of a request to what an error may have of it.
func short(s string) string {
	const most = 160
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
