package lustre

// Cluster is what a layout is chosen for: the targets of one file system.
type Cluster struct {
	Name    string
	Version string // of the client, "2.17.0"; "" when it is not known
	OSTs    []Target
	MDTs    []Target
	Pools   map[string][]int // OST indices by pool
	// Default is the file system's own layout; the zero Layout when it is not known.
	Default Layout
	// Can says what the client understands: servers do not tell their version. What older
	// ones do not, they refuse, and a file is made without it.
	Can Capabilities
}

// Capabilities are what a version can do.
type Capabilities struct {
	Progressive bool // composite layouts (2.10)
	OnMDT       bool // Data-on-MDT (2.11)
	Overstripes bool // (2.13)
}
