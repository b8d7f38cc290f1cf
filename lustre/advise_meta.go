package lustre

import "fmt"

const (
	domBytes      = 256 << 10 // of a file that lie on the MDT
	domLeast      = 64 << 10
	perShard      = 50_000 // entries of a directory from which on spreading it pays
	minPartBytes  = 64 * mib
	mostPartBytes = 5 * gib // of S3
	mostParts     = 10_000  // of S3
)

// small is the layout of many small files: what the MDT may hold lies there, and the
// rest has one stripe.
func (a *advisor) small() Layout {
	end, why := a.onMDT()
	if end == 0 {
		a.because("Data-on-MDT", "no", fromLfs, "%s", why)
		return a.counted(1, fromWiki, "files of less than a megabyte: each stripe more is one more object to make, to ask and to remove")
	}
	a.because("Data-on-MDT", sizeText(end), fromOLCF, "%s", why)
	a.because("stripe count", "1", fromWiki, "for what is larger: each stripe more is one more object to make, to ask and to remove")
	a.sized()
	head := Component{End: end, Pattern: OnMDT, StripeBytes: end, FirstTarget: AnyTarget}
	return Layout{Components: []Component{head, a.bare(end, EOF, 1)}}
}

// onMDT is how much of each file should lie on the MDT, and why; 0 is none.
func (a *advisor) onMDT() (end int64, why string) {
	end = domBytes
	if a.r.Bytes > 0 && a.r.Bytes <= domLeast {
		end = domLeast
	}
	free, mdts, known := a.metaRoom()
	switch {
	case !a.c.Can.OnMDT || !a.c.Can.Progressive:
		return 0, "this Lustre is not known to have it (2.11)"
	case a.r.Bytes > domBytes:
		return 0, fmt.Sprintf("files of %s do not fit into %s", sizeText(a.r.Bytes), sizeText(domBytes))
	case !known:
		return 0, "nothing is known of the room of the MDTs"
	case mdts < len(a.c.MDTs):
		return 0, fmt.Sprintf("only %d of %d MDTs are no more than %s full, and their room is for names", mdts, len(a.c.MDTs), percent(mdtShare))
	case a.r.Files > 0 && a.r.Files > free/2/end:
		return 0, fmt.Sprintf("%d files of %s would take more than half of the %s that are free on the MDTs", a.r.Files, sizeText(end), sizeText(free))
	}
	return end, "the files are read with their names, from a server that is asked anyway; and the MDTs have room"
}

// metaRoom counts the MDTs that may hold more than names, and what is free there. known is
// false when no MDT tells its size.
func (a *advisor) metaRoom() (free int64, mdts int, known bool) {
	for i := range a.c.MDTs {
		t := &a.c.MDTs[i]
		known = known || t.TotalBytes > 0
		if willing(t) && t.TotalBytes > 0 && t.Used() <= mdtShare && filesUsed(t) <= mdtShare {
			free, mdts = saturated(free, t.FreeBytes), mdts+1
		}
	}
	return free, mdts, known
}

// filesUsed is how much of its inodes an MDT has used, from 0 to 1.
func filesUsed(t *Target) float64 {
	return (&Target{TotalBytes: t.TotalFiles, FreeBytes: t.FreeFiles}).Used()
}

// directory spreads a directory of many files over MDTs.
func (a *advisor) directory() Striping {
	mdts := 0
	for i := range a.c.MDTs {
		if t := &a.c.MDTs[i]; willing(t) && filesUsed(t) <= fullShare {
			mdts++
		}
	}
	if a.r.Files < perShard || mdts < 2 {
		return Striping{}
	}
	count := min(mdts, int(min(ceilDiv(a.r.Files, perShard), MaxStripes)))
	if count < 2 {
		return Striping{}
	}
	a.because("directory", fmt.Sprintf("%d MDTs", count), fromDNE,
		"%d files in one directory: from %d on, it pays to spread them; subdirectories are spread by themselves since 2.15", a.r.Files, perShard)
	return Striping{Count: count, FirstMDT: AnyTarget} // which hash is best the servers know: crush since 2.14
}

// PartBytes is the smallest multiple of a width (stripe size × stripe count) that is at
// least 64 MiB, and large enough for a file of size bytes to have no more parts than S3
// allows; where S3 takes no such part it is the largest multiple that it takes. 0 for no width.
func PartBytes(size, width int64) int64 {
	if width <= 0 {
		return 0
	}
	least := max(minPartBytes, ceilDiv(size, mostParts))
	return min(ceilDiv(least, width), max(mostPartBytes/width, 1)) * width
}

// partBytes are the parts for the width of every component.
func (a *advisor) partBytes(l *Layout) int64 {
	c := &l.Components[len(l.Components)-1] // the widths before it divide its own
	width := c.StripeBytes * int64(c.StripeCount)
	bytes := PartBytes(a.r.Bytes, width)
	if ceilDiv(a.r.Bytes, bytes) > mostParts {
		a.doubt("part size", sizeText(bytes), fromS3, "the largest multiple of %s that S3 takes: a file of %s would be more than %d such parts", sizeText(width), sizeText(a.r.Bytes), mostParts)
		return bytes
	}
	a.because("part size", sizeText(bytes), fromS3, "%d × stripe size × stripe count: whole stripes, and the same of each object; at least %s, and at most %d parts",
		bytes/width, sizeText(minPartBytes), mostParts)
	return bytes
}
