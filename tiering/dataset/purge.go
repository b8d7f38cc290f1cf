package dataset

import (
	"strings"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// Purge asks to remove what lies below a location of an ephemeral tier.
type Purge struct {
	Location location.Location // TIER:path
	Node     string            // of a node-local tier
	Root     bool              // the whole tier is meant, where Location is one
	Task     string            // that asks
}

// MayPurge says why what lies there must stay, or nil. No other copy is promised:
// what is asked for is scratch. It has to lie in an ephemeral tier and in no other one,
// hold nothing that is leased, pinned or worked on, and no part of a replica.
//
// The kinds are those of MayRelease; mover.ErrUsage is a location that is none.
func (v *View) MayPurge(p Purge) error {
	at, t, err := v.ground(p)
	if err != nil {
		return err
	}
	where := p.Location.String()
	for _, refused := range []error{v.neighbours(p, at, t), v.unfound("purge", where, at), v.unknownLease(p, at), v.leasedAt("purge", where, at)} {
		if refused != nil {
			return refused
		}
	}
	for _, r := range v.meeting(at) {
		if err := v.mayGo(p, at, r); err != nil {
			return err
		}
	}
	return nil
}

// ground returns what is to be purged, and the ephemeral tier that it is of.
func (v *View) ground(p Purge) (Address, *tier, error) {
	no := func(kind error, format string, args ...any) (Address, *tier, error) {
		return Address{}, nil, refuse("purge", p.Location.String(), kind, format, args...)
	}
	t := v.tiers[p.Location.Tier]
	switch {
	case !p.Location.InTier() || !mover.ValidName(p.Location.Path):
		return no(mover.ErrUsage, "only TIER:path can be purged")
	case t == nil:
		return no(mover.ErrNotExist, "there is no such tier")
	case v.blind != "":
		return no(mover.ErrRefused, "%s; mend the configuration", v.blind)
	case !t.ephemeral:
		return no(mover.ErrRefused, "tier %s is not marked ephemeral; release a dataset, or use datamove rm", mover.Printable(t.name))
	case t.root.path == "":
		return no(mover.ErrRefused, "the root of tier %s is the whole file system; give it a folder of its own", mover.Printable(t.name))
	case t.local && p.Node == "":
		return no(mover.ErrUsage, "every node has a tier %s; say which node is meant", mover.Printable(t.name))
	case p.Location.Path == "" && !p.Root:
		return no(mover.ErrRefused, "it is the whole tier; say so if all of it is meant")
	}
	at, sure := v.resolve(p.Location, p.Node)
	if sure != known {
		return no(mover.ErrUsage, "where it is can not be told")
	}
	return at, t, nil
}

// neighbours refuses what belongs to another tier too: one with its root there,
// or one that lies within this tier and holds it.
func (v *View) neighbours(p Purge, at Address, t *tier) error {
	for _, other := range v.roots {
		switch {
		case other == t:
		case at.holds(other.root):
			return refuse("purge", p.Location.String(), mover.ErrConflict, "tier %s lies in it", mover.Printable(other.name))
		case other.root.holds(at) && t.root.holds(other.root):
			return refuse("purge", p.Location.String(), mover.ErrConflict, "it lies in tier %s", mover.Printable(other.name))
		}
	}
	return nil
}

// unknownLease refuses a purge where a lease may hold something at an
// unknown location.
func (v *View) unknownLease(p Purge, at Address) error {
	for _, i := range v.lost {
		if l := v.leases[i].Lease; v.mayLieIn(at, l.GetTier(), l.GetNode()) || v.renamed(p, l) {
			return heldBy("purge", p.Location.String(), l)
		}
	}
	return nil
}

// renamed reports whether a lease on a tier that is not there any more may hold what lies
// at the same path of the tier that is to be purged: that may be the same under another name.
func (v *View) renamed(p Purge, l *datamovev1.Lease) bool {
	held, err := location.Parse(l.GetLocation())
	return err == nil && v.tiers[l.GetTier()] == nil && held.InTier() &&
		(mover.Within(held.Path, p.Location.Path) || mover.Within(p.Location.Path, held.Path))
}

// mayGo says why a replica in the way of a purge must stay.
func (v *View) mayGo(p Purge, at Address, r *replica) error {
	where := p.Location.String()
	for _, refused := range []error{busy("purge", r, p.Task), v.leased("purge", r), v.pinned("purge", r)} {
		if refused != nil {
			return refused
		}
	}
	name := mover.Printable(strings.TrimSuffix(r.GetLocation(), "/"))
	if t := v.tiers[r.GetTier()]; t == nil || !t.ephemeral {
		return refuse("purge", where, mover.ErrConflict, "dataset %s is there as %s, which is not recorded as ephemeral; remove the dataset first",
			mover.Printable(r.GetDataset()), name)
	}
	if r.sure != known {
		return refuse("purge", where, mover.ErrConflict, "dataset %s may be there as %s, which is not on tier %s; remove its record first",
			mover.Printable(r.GetDataset()), name, mover.Printable(r.GetTier()))
	}
	if !at.holds(r.at) {
		return refuse("purge", where, mover.ErrConflict, "it is a part of dataset %s at %s; purge all of that", mover.Printable(r.GetDataset()), name)
	}
	return nil
}
