package lustre

import (
	"fmt"
	"maps"
	"slices"
)

// When a target gets nothing new by choice. The servers stop only when one is full.
const (
	fullShare = 0.90 // of an OST: a tenth is left for the files that grow on it
	mdtShare  = 0.70 // of an MDT, for file data: its room is for names
)

// These states say that no object should be made on a target, and these that none can.
const (
	avoided  = refusing | Degraded
	refusing = ReadOnlyState | NoCreate | NoSpace | NoInodes
)

// willing reports whether objects can be made on t.
func willing(t *Target) bool { return t.Inactive == "" && t.State&refusing == 0 }

// roomy reports whether objects should be made on t.
func roomy(t *Target) bool { return willing(t) && t.State&avoided == 0 && t.Used() <= fullShare }

// media is what all of targets are made of that say so; AnyMedia when they differ.
func media(targets []Target) Media {
	flash, disk := 0, 0
	for i := range targets {
		switch t := &targets[i]; {
		case t.Inactive != "":
		case t.State&NonRotational != 0:
			flash++
		default:
			disk++
		}
	}
	switch {
	case flash == 0:
		return Disk
	case disk == 0:
		return Flash
	}
	return AnyMedia
}

// in returns the targets of a pool; of "" all of them.
func (c *Cluster) in(pool string) []Target {
	if pool == "" {
		return c.OSTs
	}
	var targets []Target
	for i := range c.OSTs {
		if slices.Contains(c.Pools[pool], c.OSTs[i].Index) {
			targets = append(targets, c.OSTs[i])
		}
	}
	return targets
}

// choosePool decides where the file lies: in the requested pool, or in a pool of the
// requested media. Where targets have different media and the request names none, all
// stripes should be on one medium: a file is as fast as its slowest stripe.
func (a *advisor) choosePool() {
	kinds := media(a.c.OSTs)
	switch {
	case a.r.Pool != "":
		a.askedPool()
	case a.r.Media != AnyMedia && len(a.c.OSTs) == 0:
		a.doubt("pool", "none", fromUs, "which OSTs are of %s is not known", a.r.Media)
	case a.r.Media != AnyMedia && kinds != a.r.Media:
		if a.pool = a.poolOf(a.r.Media); a.pool == "" {
			a.doubt("pool", "none", fromUs, "there is no pool of %s with room", a.r.Media)
			return
		}
		a.because("pool", a.pool, fromUs, "of the pools of %s it has the most room", a.r.Media)
	case len(a.c.OSTs) > 0 && kinds == AnyMedia:
		a.oneMedia()
	}
}

// askedPool takes the pool that was asked for, if it is one.
func (a *advisor) askedPool() {
	switch err := ValidPool(a.r.Pool); {
	case err != nil:
		a.doubt("pool", "none", fromLfs, "%v", err)
	case len(a.c.OSTs) == 0:
		a.pool = a.r.Pool
		a.doubt("pool", a.pool, fromMeasured, "asked for; whether there is such a pool was not looked at, and Lustre does not ask, either")
	case len(a.c.in(a.r.Pool)) == 0:
		a.doubt("pool", "none", fromMeasured, "there is no pool %q with targets: Lustre would take the name and use all targets", a.r.Pool)
	case a.r.Media != AnyMedia && media(a.c.in(a.r.Pool)) != a.r.Media:
		a.pool = a.r.Pool
		a.doubt("pool", a.pool, fromUs, "asked for, and so was %s: not all of its OSTs are", a.r.Media)
	default:
		a.pool = a.r.Pool
		a.because("pool", a.pool, fromUs, "asked for")
	}
}

// oneMedia takes, of targets that are not alike, those of a pool that are: that of the
// file system's own default, or else the one with the most room.
func (a *advisor) oneMedia() {
	for i := range a.c.Default.Components {
		pool := a.c.Default.Components[i].Pool
		if targets := a.c.in(pool); pool != "" && ValidPool(pool) == nil && slices.ContainsFunc(targets, func(t Target) bool { return roomy(&t) }) {
			a.pool = pool
			a.because("pool", pool, fromUs, "OSTs are of flash and of disks, and it is the pool of the file system's own default")
			return
		}
	}
	if a.pool = a.poolOf(AnyMedia); a.pool == "" {
		a.doubt("pool", "none", fromUs, "OSTs are of flash and of disks, and no pool keeps them apart: a file is as fast as the slowest of its stripes")
		return
	}
	a.because("pool", a.pool, fromUs, "OSTs are of flash and of disks: of the pools of one kind it has the most room")
}

// poolOf is the pool of one media, or of that media, that has the most room; the first by
// name of those that have the same; "" when there is none.
func (a *advisor) poolOf(want Media) (best string) {
	most := int64(-1)
	for _, pool := range slices.Sorted(maps.Keys(a.c.Pools)) {
		targets := a.c.in(pool)
		kind := media(targets)
		if ValidPool(pool) != nil || kind == AnyMedia || want != AnyMedia && kind != want {
			continue
		}
		free, room := int64(0), 0
		for i := range targets {
			if roomy(&targets[i]) {
				free, room = saturated(free, targets[i].FreeBytes), room+1
			}
		}
		if room > 0 && free > most {
			best, most = pool, free
		}
	}
	return best
}

// findRoom counts the targets that may get a stripe.
func (a *advisor) findRoom() {
	a.targets = a.c.in(a.pool)
	if len(a.targets) == 0 {
		return
	}
	may, why := roomy, fmt.Sprintf("no more than %s full, not degraded, and taking new objects", percent(fullShare))
	spare := slices.ContainsFunc(a.targets, func(t Target) bool { return roomy(&t) })
	if !spare {
		may, why = willing, fmt.Sprintf("all that take new objects are over %s full, or degraded", percent(fullShare))
	}
	for i := range a.targets {
		if t := &a.targets[i]; may(t) {
			a.room++
			if t.TotalBytes > 0 && (a.least == 0 || t.FreeBytes < a.least) {
				a.least = max(t.FreeBytes, 1)
			}
		}
	}
	value := fmt.Sprintf("%d of %d", a.room, len(a.targets))
	switch {
	case a.room == len(a.targets) && a.least == 0:
		a.because("targets", fmt.Sprint(a.room), fromUs, "how full they are is not known")
	case a.room == 0:
		a.room = 1
		a.doubt("targets", value, fromUs, "none takes new objects: nothing can be written until one does")
	case !spare, a.room < len(a.targets):
		a.doubt("targets", value, fromUs, "%s", why)
	default:
		a.because("targets", value, fromUs, "%s", why)
	}
}

// saturated is a + b, or the largest number there is.
func saturated(a, b int64) int64 {
	if sum := a + max(b, 0); sum >= a {
		return sum
	}
	return EOF
}
