package lustre

import (
	"fmt"
	"math/bits"
	"strings"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
	tib = int64(1) << 40

	tinyBytes     = 64 * mib // up to which one target is enough for anything
	mostStripes   = 160      // that fit into the attribute of an MDT without ea_inode
	headerStripes = 4        // that would fit where a component has its headers (24 bytes a stripe)
	blindStripes  = 4        // at most, where the targets are not known
	perClient     = 4        // targets that one writer keeps busy
	perTarget     = 4        // stripes of one file on one target, where very many write it
	objectBytes   = 16 * tib // the largest object of an OST on ldiskfs
)

// sizes is how many stripes a use wants: one for every perStripe bytes, up to most.
type sizes struct {
	perStripe int64
	most      int
	source    string
	why       string
}

// sizing is the rule of each use for a file of known size.
func (a *advisor) sizing() sizes {
	switch a.r.Use {
	case Dataset:
		return sizes{gib, 8, fromWiki, "many clients read it at once: a stripe for each GiB, and no more than 8, since each is a lock and a request for each reader"}
	case Checkpoint:
		if a.r.Writers == 1 {
			return sizes{4 * gib, 16, fromUs, "one file that has to be written fast and is read by all ranks: a stripe for each 4 GiB, up to 16"}
		}
		return a.share()
	}
	return sizes{4 * gib, 8, fromWiki, "a stripe for each 4 GiB, up to the 8 that keep one client busy"}
}

// share divides the targets among ranks that write a file each: one or two stripes on
// each target in all.
func (a *advisor) share() sizes {
	if a.r.Writers == 0 {
		return sizes{gib, 1, fromHPE, "a file for each rank, and of how many ranks is not known: with more ranks than OSTs one stripe each is the fastest"}
	}
	most := min(max(2*a.room/a.r.Writers, 1), 4)
	if most == 1 {
		return sizes{gib, 1, fromHPE, fmt.Sprintf("%d ranks write at once: a file each on one OST keeps all OSTs busy, and more only adds locks", a.r.Writers)}
	}
	return sizes{gib, most, fromUs, fmt.Sprintf("%d ranks write at once: with %d stripes each there are up to two on each OST", a.r.Writers, most)}
}

// plain is the layout of one component.
func (a *advisor) plain() Layout {
	if a.r.Use == SharedFile {
		return a.shared()
	}
	s, count := a.sizing(), 1
	switch {
	case a.r.Bytes == 0 && a.r.Use == Dataset:
		count = min(4, s.most)
		s.source, s.why = fromWiki, "of files whose size is not known, without progressive layouts: enough for readers of large ones, little for small ones"
	case a.r.Bytes == 0 && (a.r.Use != Checkpoint || s.most > 1):
		s.source, s.why = fromManual, "the size is not known, and this Lustre has no progressive layouts: one stripe is right for most files"
	case a.r.Bytes <= tinyBytes && s.most > 1:
		s.source, s.why = fromWiki, "one target is enough up to 64 MiB: each stripe more is one more lock and one more server to ask"
	default:
		count = int(min(ceilDiv(a.r.Bytes, s.perStripe), int64(s.most)))
	}
	return a.counted(max(count, 1), s.source, s.why)
}

// counted is a plain layout of as many stripes as are wanted, as far as there are
// targets, and enough for the file to fit on them.
func (a *advisor) counted(want int, source, why string) Layout {
	count := min(want, a.limit())
	if count < want {
		why += a.limitWhy()
	}
	if fit := a.fitting(); fit > count {
		count, source, why = min(fit, a.most()), fromUs, a.fitWhy()
		if fit > count {
			why = fmt.Sprintf("as many as there can be; it would take %d, %s", fit, a.fitWhy())
			a.doubt("room", sizeText(a.r.Bytes), fromUs, "%d stripes are all that there can be, and it would take %d, %s", count, fit, a.fitWhy())
		}
	}
	a.because("stripe count", fmt.Sprint(count), source, "%s", why)
	a.sized()
	return Layout{Components: []Component{a.bare(0, EOF, count)}}
}

// limit is how many stripes there should be, and most how many there can be, without any
// target having two. Where nothing is known of targets, only what a file needs to fit is
// worth more than a few: with fewer targets it could not be written at all.
func (a *advisor) limit() int {
	if a.room == 0 {
		return blindStripes
	}
	return a.most()
}

func (a *advisor) most() int {
	if a.room == 0 {
		return mostStripes
	}
	return min(a.room, mostStripes)
}

// limitWhy says why there are no more stripes.
func (a *advisor) limitWhy() string {
	if a.room == 0 {
		return "; no more, while the OSTs are not known"
	}
	return fmt.Sprintf("; there is room on %d OSTs", a.room)
}

// fitting is how many stripes it takes for no object to be too large.
func (a *advisor) fitting() int {
	most := objectBytes
	if a.least > 0 {
		most = min(most, max(a.least/2, 1))
	}
	return int(min(ceilDiv(a.r.Bytes, most), MaxStripes))
}

// fitWhy says what an object may be no larger than.
func (a *advisor) fitWhy() string {
	if a.least == 0 || a.least/2 > objectBytes {
		return fmt.Sprintf("so that no object is larger than %s", sizeText(objectBytes))
	}
	return fmt.Sprintf("so that the file takes at most half of the %s that are free on the fullest of its OSTs", sizeText(a.least))
}

// stripeBytes is the stripe size of a use. Of a layout that grows it is a power of two, as
// are the ends of its components: these have to be a multiple of it.
func (a *advisor) stripeBytes() int64 {
	switch {
	case a.r.Use == SharedFile && a.r.IOBytes > 0:
		n := max(ceilDiv(min(a.r.IOBytes, 16*mib), StripeUnit)*StripeUnit, mib)
		if a.grows() {
			n = 1 << bits.Len64(uint64(n-1))
		}
		return n
	case a.r.Use == Checkpoint && a.r.Writers == 1 && (a.r.Bytes == 0 || a.r.Bytes > 50*gib):
		return 16 * mib
	}
	return 4 * mib
}

// sized gives the reason of the stripe size.
func (a *advisor) sized() {
	n := a.stripeBytes()
	switch {
	case a.r.Use == SharedFile && a.r.IOBytes > 0:
		rounded := "rounded up to 64 KiB"
		if a.grows() {
			rounded = "rounded up to a power of two"
		}
		a.because("stripe size", sizeText(n), fromManual, "a write of %s, %s, between 1 and 16 MiB: a writer that keeps to stripes shares none of its locks", sizeText(a.r.IOBytes), rounded)
	case n > 4*mib:
		a.because("stripe size", sizeText(n), fromUs, "one stream of large writes: fewer changes from server to server")
	default:
		a.because("stripe size", sizeText(n), fromLfs, "the default of Lustre 2.17, and one request to a server")
	}
}

// step is one component of a progressive layout as a use wants it.
type step struct {
	end  int64
	want int
}

// steps are the components of a use for files of unknown size, their source, and the reason.
func (a *advisor) steps() ([]step, string, string) {
	const grows = "the size is not known: a file gets more stripes as it grows"
	switch {
	case a.r.Use == SharedFile:
		return []step{{10 * gib, 8}, {100 * gib, 24}, {EOF, 72}}, fromNERSC, grows
	case a.r.Use == Checkpoint && a.r.Writers == 1:
		return []step{{tinyBytes, 1}, {16 * gib, 4}, {EOF, 16}}, fromUs, grows
	case a.r.Use == Checkpoint:
		s := a.share()
		return []step{{tinyBytes, 1}, {EOF, s.most}}, s.source, s.why
	}
	return []step{{tinyBytes, 1}, {4 * gib, 4}, {EOF, 8}}, fromWiki, grows
}

// grows reports whether the layout is progressive: the size is not known.
func (a *advisor) grows() bool { return a.r.Bytes == 0 && a.c.Can.Progressive }

// progressive is the layout of a file of unknown size. The counts of its components are
// multiples of each other, so that parts fit all of them.
func (a *advisor) progressive() Layout {
	steps, source, why := a.steps()
	var l Layout
	start, last, fewer := int64(0), 1, false
	for _, s := range steps {
		count := max(min(s.want, a.limit())/last*last, last)
		fewer = fewer || count < s.want
		if n := len(l.Components); n > 0 && l.Components[n-1].StripeCount == count {
			l.Components[n-1].End = s.end
		} else {
			l.Components = append(l.Components, a.bare(start, s.end, count))
		}
		start, last = s.end, count
	}
	if fewer {
		why += a.limitWhy() + ", and each count is a multiple of the one before it"
	}
	a.because("stripe count", l.countsText(), source, "%s", why)
	if a.r.Use == SharedFile {
		a.overstripe(&l)
	}
	a.sized()
	return l
}

// countsText is how many stripes there are up to where.
func (l *Layout) countsText() string {
	var b strings.Builder
	for i := range l.Components {
		c := &l.Components[i]
		switch {
		case len(l.Components) == 1:
			return fmt.Sprint(c.StripeCount)
		case c.End == EOF:
			fmt.Fprintf(&b, "then %d", c.StripeCount)
		default:
			fmt.Fprintf(&b, "%d up to %s, ", c.StripeCount, sizeText(c.End))
		}
	}
	return b.String()
}
