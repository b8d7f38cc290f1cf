package location

import (
	"maps"
	"slices"
	"strings"
)

// kind is what is true of all locations of one scheme. A backend with a scheme of its own has one row here, beside its
// row in the drivers of package backend; nothing else asks for the scheme of a location.
type kind struct {
	word  string                                 // stands before the first colon
	parse func(s, rest string) (Location, error) // reads s, of which rest stands behind the colon
	print func(l Location) string
	below func(l *Location) *string // the part below the root; nil is none

	path  bool // Location.IsPath
	store bool // Location.InStore
}

var kinds = map[Scheme]kind{
	POSIX:   {word: "file", parse: parseFile, print: printPath, below: pathOf, path: true},
	S3:      storeKind(S3),
	InTier:  {print: printInTier, below: pathOf},
	Dataset: {word: "dataset", parse: parseDataset, print: printDataset},
}

// Schemes are those that name a path or a store, sorted. Each has a driver.
func Schemes() []Scheme {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(kinds)), func(s Scheme) bool { return !kinds[s].path && !kinds[s].store })
}

// written are the beginnings of their locations, for a sentence.
func written() string {
	var all []string
	for _, s := range Schemes() {
		all = append(all, kinds[s].word+"://")
	}
	return strings.Join(all, " and ")
}

// storeKind is that of a store of objects, with addresses like s3://bucket/prefix.
func storeKind(scheme Scheme) kind {
	return kind{
		word:  string(scheme),
		parse: func(s, rest string) (Location, error) { return parseStore(scheme, s, rest) },
		print: func(l Location) string { return string(scheme) + "://" + l.Bucket + "/" + l.Prefix + l.slash(l.Prefix) },
		below: func(l *Location) *string { return &l.Prefix },
		store: true,
	}
}

func pathOf(l *Location) *string { return &l.Path }

// IsPath reports whether l is a path of a file system: Path, which means something on one node, or relative to a working directory.
func (l Location) IsPath() bool { return kinds[l.Scheme].path }

// InStore reports whether l names objects of a store, in Bucket and below Prefix. They are the same from every node, and need credentials.
func (l Location) InStore() bool { return kinds[l.Scheme].store }

// InTier reports whether l is written as Path below Tier. What that is, a path or objects, a configuration knows.
func (l Location) InTier() bool { return l.Scheme == InTier }

// IsDataset reports whether l is the Name of a dataset, and perhaps the Digest of a version. A service knows where its replicas are.
func (l Location) IsDataset() bool { return l.Scheme == Dataset }

// OfPath is the location of a path as it stands there, absolute or relative.
func OfPath(path string) Location { return Location{Scheme: POSIX, Path: path} }

// OfTier is the location of a path below a tier; "" is the tier.
func OfTier(tier, path string) Location { return Location{Scheme: InTier, Tier: tier, Path: path} }

// OfDataset is the location of a version of a dataset; without a digest it is the newest.
func OfDataset(name, digest string) Location {
	return Location{Scheme: Dataset, Name: name, Digest: digest}
}

// String prints the address so that Parse reads it back.
func (l Location) String() string {
	if k, known := kinds[l.Scheme]; known {
		return k.print(l)
	}
	return printPath(l)
}

// slash ends an address that is meant as a directory, unless it is a root, which has no other form.
func (l Location) slash(below string) string {
	if l.TrailingSlash && below != "" {
		return "/"
	}
	return ""
}

func printInTier(l Location) string { return l.Tier + ":" + l.Path + l.slash(l.Path) }

func printDataset(l Location) string {
	if l.Digest != "" {
		return "dataset:" + l.Name + "@" + l.Digest
	}
	return "dataset:" + l.Name
}

func printPath(l Location) string {
	p := l.Path
	if word, _, ok := strings.Cut(p, ":"); ok && !strings.Contains(word, "/") || p == "-" {
		p = "./" + p
	}
	if l.TrailingSlash && !strings.HasSuffix(p, "/") {
		p += "/"
	}
	return p
}
