package volume

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// Parameters are what a StorageClass says of the volumes that are made from it. The zero value of each is
// its default.
type Parameters struct {
	Kind       Kind   // Project, Scratch or Dataset
	FileSystem string // "" is the only one of its kind

	Mode     uint32 // permission bits of the directory, as for chmod; DefaultMode
	UID, GID uint32 // its owner and group; root

	Quota Quota
	Place Layout

	OnDelete  OnDelete
	ArchiveTo string        // TIER:path, below which OnDelete Archive copies
	Trash     time.Duration // how long a removed volume can be brought back; DefaultTrash, never for Scratch

	Source   Source
	Deadline time.Duration // how long a pod waits for it; DefaultDeadline

	// For is the claim that the provisioner makes it for; the zero value where it does not say.
	For Claim
}

// Quota is what a volume may hold beside its capacity, which is the hard limit of bytes.
type Quota struct {
	Files       int64 // 0 is no limit
	SoftPercent int   // of the capacity; 0 is none
}

// Layout is how new files lie on a Lustre. The zero value leaves that to the file system.
type Layout struct {
	Use         lustre.Use // what Advise is asked for; "" is nothing
	StripeCount int        // 0 leaves it to Advise; -1 is all targets
	StripeBytes int64
	OSTPool     string
}

// IsZero reports whether nothing is asked for.
func (l Layout) IsZero() bool { return l == Layout{} }

// Source is what a dataset volume holds.
type Source struct {
	Location string // dataset:name[@digest], s3://bucket/prefix or TIER:path
	Tier     string // to stage it to; "" is the hottest that the node has
	Latest   bool   `json:",omitempty"` // of a dataset: each pod has the newest version at its start
}

// Dataset is the name of a dataset, and the digest of its version: "" where it is not pinned. What is no dataset has no name.
func (s Source) Dataset() (name, digest string) {
	if l, err := location.Parse(s.Location); err == nil && l.IsDataset() {
		return l.Name, l.Digest
	}
	return "", ""
}

// At is s with a version of its dataset.
func (s Source) At(digest string) Source {
	name, _ := s.Dataset()
	return Source{Location: location.OfDataset(name, digest).String(), Tier: s.Tier}
}

// Claim names a PersistentVolumeClaim.
type Claim struct{ Namespace, Name string }

// OnDelete is what becomes of a volume that is deleted.
type OnDelete string

// What becomes of it.
const (
	Remove  OnDelete = "delete"  // it lies in the trash for a while, and is removed then
	Retain  OnDelete = "retain"  // it stays where it is, without a claim
	Archive OnDelete = "archive" // it is copied to a colder tier, verified, and removed then
)

// Defaults, for the words of Parameters and of its documentation.
const (
	DefaultMode     = 0o770
	DefaultTrash    = 24 * time.Hour
	DefaultDeadline = 30 * time.Minute
)

// Parameter is one name that a StorageClass, a VolumeAttributesClass or a PersistentVolume may have.
type Parameter struct {
	Name    string
	Kinds   []Kind // that know it
	Mutable bool   // a VolumeAttributesClass may change it
	Default string // in words
	Help    string
	set     func(*Parameters, string) error
}

// prefix begins the names that Kubernetes itself adds.
const prefix = "csi.storage.k8s.io/"

// FromKubernetes reports whether a parameter is one that the sidecars add, to name the claim or volume that something is made for.
func FromKubernetes(name string) bool { return strings.HasPrefix(name, prefix) }

// table is every parameter; its order is that of the documentation.
var table = []Parameter{
	{"type", []Kind{Project, Scratch, Dataset}, false, "has to be said", "project, scratch or dataset", nil},
	{"fileSystem", []Kind{Project, Scratch}, false, "the only one of its kind", "a file system of the driver's configuration", setFileSystem},
	{"mode", []Kind{Project, Scratch}, false, "0770", "permissions of the directory, octal", setMode},
	{"uid", []Kind{Project, Scratch}, false, "0", "its owner", func(p *Parameters, s string) error { return setID(&p.UID, s) }},
	{"gid", []Kind{Project, Scratch}, false, "0, or the pod's fsGroup", "its group", func(p *Parameters, s string) error { return setID(&p.GID, s) }},
	{"files", []Kind{Project, Scratch}, true, "no limit", "how many files it may hold, where the file system counts them", setFiles},
	{"softPercent", []Kind{Project}, true, "none", "soft limit, in percent of the capacity, where the file system has soft limits", setSoft},
	{"layout", []Kind{Project}, true, "the file system's", "what its files are for: general, checkpoint, dataset, small or shared (Lustre)", setUse},
	{"stripeCount", []Kind{Project}, true, "the file system's", "stripes of a file, -1 for all OSTs (Lustre)", setStripeCount},
	{"stripeSize", []Kind{Project}, true, "the file system's", "as 4Mi (Lustre)", setStripeBytes},
	{"ostPool", []Kind{Project}, true, "none", "pool of OSTs (Lustre)", setOSTPool},
	{"onDelete", []Kind{Project}, false, "delete", "delete, retain or archive", setOnDelete},
	{"archiveTo", []Kind{Project}, false, "has to be said for archive", "TIER:path below which it is copied", setArchiveTo},
	{"trash", []Kind{Project}, true, "24h", "how long a deleted volume can be brought back", func(p *Parameters, s string) error { return setDuration(&p.Trash, s, true) }},
	{"dataset", []Kind{Dataset}, false, "this or source has to be said", "NAME: the version that is the newest when the claim is made; NAME@DIGEST; or NAME@latest, the newest at the start of each pod", setDataset},
	{"source", []Kind{Dataset}, false, "this or dataset has to be said", "s3://BUCKET/PREFIX or TIER:PATH", setSource},
	{"tier", []Kind{Dataset}, false, "the hottest that the node has", "tier to stage it to", setTier},
	{"deadline", []Kind{Dataset}, false, "30m", "how long a pod waits for it before that is an error of the pod", func(p *Parameters, s string) error { return setDuration(&p.Deadline, s, false) }},
	{prefix + "pvc/name", []Kind{Project, Scratch, Dataset}, false, "", "", func(p *Parameters, s string) error { p.For.Name = s; return nil }},
	{prefix + "pvc/namespace", []Kind{Project, Scratch, Dataset}, false, "", "", func(p *Parameters, s string) error { p.For.Namespace = s; return nil }},
	{prefix + "pv/name", []Kind{Project, Scratch, Dataset}, false, "", "", func(*Parameters, string) error { return nil }},
}

// Table is every parameter that people write, in the order of the documentation.
func Table() []Parameter {
	return slices.DeleteFunc(slices.Clone(table), func(p Parameter) bool { return p.Help == "" })
}

// ParseParameters reads those of a StorageClass.
func ParseParameters(given map[string]string) (Parameters, error) {
	p := Parameters{Kind: Kind(given["type"]), Mode: DefaultMode, OnDelete: Remove, Trash: DefaultTrash, Deadline: DefaultDeadline}
	if !slices.Contains(table[0].Kinds, p.Kind) {
		return Parameters{}, fmt.Errorf("%w: parameter type is %s: it has to be project, scratch or dataset", mover.ErrUsage, quoted(given["type"]))
	}
	if p.Kind == Scratch {
		p.Trash = 0 // what pods of a node left has no owner, and its room is for the next volume
	}
	if err := p.read(given, "type"); err != nil {
		return Parameters{}, err
	}
	return p, p.whole()
}

// Modified is p as a VolumeAttributesClass has it.
func (p Parameters) Modified(given map[string]string) (Parameters, error) {
	for name := range given {
		if row := named(name); row == nil || !row.Mutable {
			return Parameters{}, fmt.Errorf("%w: %s can not be changed by a VolumeAttributesClass: those are %s", mover.ErrUsage, quoted(name), p.mutable())
		}
	}
	if err := p.read(given, ""); err != nil {
		return Parameters{}, err
	}
	return p, p.whole()
}

// read takes what is given, in the order of its names so that the same mistake is told first each time.
func (p *Parameters) read(given map[string]string, but string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if name == but {
			continue
		}
		row := named(name)
		if row == nil || !slices.Contains(row.Kinds, p.Kind) {
			return fmt.Errorf("%w: parameter %s is not known for volumes of type %s: those are %s", mover.ErrUsage, quoted(name), p.Kind, p.known())
		}
		if err := row.set(p, given[name]); err != nil {
			return fmt.Errorf("%w: parameter %s is %s: %w", mover.ErrUsage, name, quoted(given[name]), err)
		}
	}
	return nil
}

// whole reports what does not go together.
func (p *Parameters) whole() error {
	switch {
	case p.OnDelete == Archive && p.ArchiveTo == "":
		return fmt.Errorf("%w: onDelete archive needs archiveTo: TIER:path", mover.ErrUsage)
	case p.OnDelete != Archive && p.ArchiveTo != "":
		return fmt.Errorf("%w: archiveTo is for onDelete archive, and onDelete is %s", mover.ErrUsage, p.OnDelete)
	case p.Kind == Dataset && p.Source.Location == "":
		return fmt.Errorf("%w: a volume of type dataset needs dataset: NAME, or source: s3://BUCKET/PREFIX", mover.ErrUsage)
	}
	return nil
}

func named(name string) *Parameter {
	i := slices.IndexFunc(table, func(row Parameter) bool { return row.Name == name })
	if i < 0 {
		return nil
	}
	return &table[i]
}

// known lists what volumes of a kind may have.
func (p *Parameters) known() string {
	return p.names(func(row Parameter) bool { return true })
}

func (p *Parameters) mutable() string {
	return cmp.Or(p.names(func(row Parameter) bool { return row.Mutable }), "none")
}

func (p *Parameters) names(which func(Parameter) bool) string {
	var names []string
	for _, row := range Table() {
		if slices.Contains(row.Kinds, p.Kind) && which(row) {
			names = append(names, row.Name)
		}
	}
	return strings.Join(names, ", ")
}

func quoted(s string) string { return strconv.Quote(short(s)) }
