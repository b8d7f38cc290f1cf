package lustre

import "fmt"

// Use is what a file, or the files of a directory, will be used for.
type Use string

// The uses.
const (
	General    Use = "general"    // nothing is known
	Checkpoint Use = "checkpoint" // each of Writers writes a file of its own, all at the same time; of one, the whole
	Dataset    Use = "dataset"    // files that are written once and that many read
	SmallFiles Use = "small"      // many files of less than a megabyte
	SharedFile Use = "shared"     // one file that Writers write at the same time
)

// Uses are all of them, in the order in which they are offered.
var Uses = []Use{General, Checkpoint, Dataset, SmallFiles, SharedFile}

// Media is what targets are made of.
type Media string

// The media. What a target does not say is AnyMedia.
const (
	AnyMedia Media = ""
	Flash    Media = "flash"
	Disk     Media = "disk"
)

// Request is what advice is wanted for. The zero Request is a file of which nothing is
// known.
type Request struct {
	Bytes   int64  `json:"bytes,omitempty"`    // of one file, of the largest of many; 0 is not known
	Use     Use    `json:"use,omitempty"`      // "" is General
	Writers int    `json:"writers,omitempty"`  // clients, or ranks, that write at the same time; 0 is not known
	IOBytes int64  `json:"io_bytes,omitempty"` // one write into a shared file; 0 is not known
	Files   int64  `json:"files,omitempty"`    // in one directory; 0 is not known
	Pool    string `json:"pool,omitempty"`     // to use; "" lets Advise choose, which is none where all targets are alike
	Media   Media  `json:"media,omitempty"`    // to lie on, where there is a pool of it
}

// Advice is a layout with its reasons.
type Advice struct {
	// Layout always passes Validate, and never names targets: the file system knows which
	// are free.
	Layout Layout `json:"layout"`
	// Striping is for the directory the files are made in; Count 0 leaves it as it is.
	Striping Striping `json:"striping,omitzero"`
	// PartBytes is a multiple of the width of every component (stripe size × stripe count).
	// A reader or writer of such parts takes the same of every object, and whole stripes.
	PartBytes int64 `json:"part_bytes"`
	// Reasons has one for each number, in the order in which they were decided.
	Reasons []Reason `json:"reasons"`
}

// Advise decides which layout suits files of a use on a cluster. It is pure, and the same
// for the same arguments. Of the zero Cluster nothing is known: then the advice is what is
// harmless everywhere, and says so.
//
// A file gets no more stripes than there are targets that have room (at most 90 % full,
// not degraded), but for one that so many write that targets take several stripes of it.
//
// # Ten typical cases
//
// For a site of 64 OSTs and 4 MDTs with Lustre 2.15 where nothing else is said. Beside the
// advice is how many stripes the end of a file of that size has by the defaults of Amazon
// FSx for Lustre (since 2023-08) and of Azure Managed Lustre. A test holds this table
// equal to what Advise says.
//
//	case                                                               advice, as lfs setstripe has it                      part     FSx   Azure  source of the stripes
//	shards of a dataset, of all sizes, which all nodes read            -E 64M -c 1 -S 4M -E 4G -c 4 -S 4M -E -1 -c 8 -S 4M  64 MiB   1-32  1-64   wiki.lustre.org
//	a Parquet dataset of 6 GiB files                                   -c 6 -S 4M                                           72 MiB   8     5      wiki.lustre.org
//	1.3 million images of up to 200 KiB in one directory               -E 256K -L mdt -E -1 -c 1 -S 4M; mkdir -c 4          64 MiB   1     1      OLCF documentation; wiki.lustre.org; Lustre Operations Manual
//	a checkpoint of 512 ranks, 4 GiB each                              -c 1 -S 4M                                           64 MiB   8     5      HPE ClusterStor
//	a checkpoint of 32 ranks, 40 GiB each                              -c 4 -S 4M                                           64 MiB   16    5      datamove
//	a whole checkpoint of 200 GiB in one file                          -c 16 -S 16M                                         256 MiB  32    10     datamove
//	one file of 500 GiB, 2,048 ranks write 1 MiB each at a time        -C 128 -S 1M                                         128 MiB  32    10     NERSC documentation; lfs-setstripe(1)
//	nothing is known of the file                                       -E 64M -c 1 -S 4M -E 4G -c 4 -S 4M -E -1 -c 8 -S 4M  64 MiB   1-32  1-64   wiki.lustre.org
//	an archive of 30 TiB, OSTs with 4 TiB free, 8 of them nearly full  -c 15 -S 4M                                          3.1 GiB  32    64     datamove
//	a file of 100 GiB, nothing is known of the file system             -c 4 -S 4M                                           64 MiB   16    5      wiki.lustre.org
func Advise(r Request, c Cluster) Advice {
	a := &advisor{r: r.sane(), c: c}
	a.known(r)
	a.choosePool()
	a.findRoom()
	var l Layout
	switch {
	case a.r.Use == SmallFiles:
		l = a.small()
	case a.r.Bytes == 0 && c.Can.Progressive:
		l = a.progressive()
	default:
		l = a.plain()
	}
	if len(l.Components) > 1 || l.Components[0].StripeCount > 1 {
		a.because("first OST", "any", fromManual, "the servers choose OSTs by their room; a start that is pinned fills one OST first")
	}
	advice := Advice{Layout: l}
	advice.PartBytes = a.partBytes(&l)
	advice.Striping = a.directory()
	advice.Reasons = a.reasons
	return advice
}

// advisor is one advice in the making.
type advisor struct {
	r       Request
	c       Cluster
	pool    string
	targets []Target // of the pool, or all of them
	room    int      // how many of them may get a stripe; 0 is not known
	least   int64    // free bytes of the fullest of these; 0 is not known
	reasons []Reason
}

// sane is a request without numbers that mean nothing.
func (r Request) sane() Request {
	r.Bytes, r.IOBytes, r.Files, r.Writers = max(r.Bytes, 0), max(r.IOBytes, 0), max(r.Files, 0), max(r.Writers, 0)
	if r.Use == "" {
		r.Use = General
	}
	return r
}

// known says what was not.
func (a *advisor) known(asked Request) {
	switch a.r.Use {
	case General, Checkpoint, Dataset, SmallFiles, SharedFile:
	default:
		a.doubt("use", string(General), fromUs, "%q is no use that is known here", asked.Use)
		a.r.Use = General
	}
	if len(a.c.OSTs) == 0 {
		a.doubt("targets", "not known", fromMeasured, "nothing is known of the OSTs: few stripes, of which Lustre makes fewer where it has fewer OSTs")
	}
}

// bare is a component from start to end, as the pool and the stripe size have it.
func (a *advisor) bare(start, end int64, count int) Component {
	return Component{Start: start, End: end, Pattern: RAID0, StripeBytes: a.stripeBytes(), StripeCount: count, FirstTarget: AnyTarget, Pool: a.pool}
}

// ceilDiv is n/by, rounded up.
func ceilDiv(n, by int64) int64 {
	if n <= 0 {
		return 0
	}
	return (n-1)/by + 1
}

// percent is a share of 1 as people write it.
func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
