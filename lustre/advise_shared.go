package lustre

import "fmt"

// smallShare is what a stripe of a small file that many write has.
const smallShare = 128 * mib

// shared is the layout of one file of a known size that many write.
func (a *advisor) shared() Layout {
	want, source, why := 8, fromNERSC, "one file that many write: 8 OSTs up to 10 GiB, 24 up to 100 GiB, then 72, and not more"
	switch {
	case a.r.Bytes > 100*gib:
		want = 72
	case a.r.Bytes > 10*gib:
		want = 24
	case a.r.Bytes > 0 && a.r.Bytes <= 7*smallShare:
		want, source, why = int(ceilDiv(a.r.Bytes, smallShare)), fromUs, "one file that many write, and less than a GiB: a stripe for each 128 MiB"
	}
	if n := perClient * a.r.Writers; n > 0 && n < want {
		want, source, why = n, fromWiki, fmt.Sprintf("%d writers, each of which keeps up to %d OSTs busy", a.r.Writers, perClient)
	}
	l := a.counted(want, source, why)
	a.overstripe(&l)
	return l
}

// overstripe gives the last component of a file that more clients write than it has
// stripes several of them on each target, when it has all targets and this Lustre can: on
// one object writers wait for each other's locks.
func (a *advisor) overstripe(l *Layout) {
	c, before, used := &l.Components[len(l.Components)-1], 1, 0
	for i := range l.Components[:len(l.Components)-1] {
		before = l.Components[i].StripeCount
		used += before + headerStripes
	}
	if !a.c.Can.Overstripes || a.room == 0 || c.StripeCount+before <= a.room || a.r.Writers <= c.StripeCount {
		return
	}
	count := min(a.r.Writers, perTarget*a.room, mostStripes-used)
	if a.r.Bytes > 0 {
		count = min(count, int(min(a.r.Bytes/(256*mib), MaxStripes)))
	}
	count -= count % c.StripeCount // so that each target has the same, and parts fit the components before it
	if count <= c.StripeCount {
		return
	}
	c.Pattern, c.StripeCount = Overstriped, count
	a.because("overstriping", fmt.Sprint(count), fromLfs,
		"%d writers on %d OSTs: up to %d stripes of the file on one OST, so that fewer of them wait for the same lock", a.r.Writers, a.room, perTarget)
}
