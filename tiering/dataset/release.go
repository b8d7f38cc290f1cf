package dataset

import (
	"fmt"
	"slices"
	"strings"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// MayRelease says why the replica must stay, or nil. It may go when it is whole,
// nothing holds it (leases, pins), no other task than the asking one works on it,
// nothing else lies there, and another copy survives it: see the promises of the package.
//
// The kinds: mover.ErrHeld names a lease, mover.ErrRefused a pin or the lack of
// another copy, mover.ErrConflict what else goes on there, mover.ErrNotExist a replica
// that the facts do not have. A task that goes on with a removal asks again; what it
// has begun and may not end is not whole, and no copy of anything.
func (v *View) MayRelease(asked *datamovev1.Replica, task string) error {
	const op = "release"
	r, err := v.own(op, asked)
	if err != nil {
		return err
	}
	for _, refused := range []error{busy(op, r, task), v.leased(op, r), v.pinned(op, r), v.shared(op, r)} {
		if refused != nil {
			return refused
		}
	}
	return v.elsewhere(r)
}

// own finds the record of a replica on a tier, and refuses one that contradicts
// itself. What the caller says of its state counts for nothing.
func (v *View) own(op string, asked *datamovev1.Replica) (*replica, error) {
	i, ok := v.found[v.identity(asked)]
	switch {
	case !ok:
		return nil, refuse(op, asked.GetLocation(), mover.ErrNotExist, "there is no such replica of dataset %s", mover.Printable(asked.GetDataset()))
	case i < 0:
		return nil, refuse(op, asked.GetLocation(), mover.ErrConflict, "it is recorded twice; remove one of the records first")
	case v.blind != "":
		return nil, refuse(op, asked.GetLocation(), mover.ErrRefused, "%s; mend the configuration", v.blind)
	}
	r := &v.replicas[i]
	switch {
	case r.GetTier() == "":
		return nil, refuse(op, r.GetLocation(), mover.ErrRefused, "it is on no tier, so it is not ours to remove; datamove rm does")
	case r.sure != known:
		return nil, refuse(op, r.GetLocation(), mover.ErrRefused, "it is recorded on tier %s, and its location is not there", mover.Printable(r.GetTier()))
	}
	return r, nil
}

// elsewhere wants a copy that survives r, and else says why each other one does not
// count.
func (v *View) elsewhere(r *replica) error {
	if r.GetDigest() == "" {
		return refuse("release", r.GetLocation(), mover.ErrRefused, "it has no digest, so nobody can tell that another copy is equal; describe it as a dataset first")
	}
	good, near := v.survivors(r)
	if len(good) > 0 {
		return nil
	}
	if near == nil {
		return refuse("release", r.GetLocation(), mover.ErrRefused, "it is the only copy of %s; stage it to another tier first", mover.Printable(r.GetDataset()))
	}
	return refuse("release", r.GetLocation(), mover.ErrRefused, "no other copy of %s is good enough: %s; stage or verify one on another tier first",
		mover.Printable(r.GetDataset()), strings.Join(near, ", "))
}

// survivors returns the copies that survive r, and why others do not count.
func (v *View) survivors(r *replica) (good []*replica, near []string) {
	const most = 3
	for _, i := range v.versions[version{r.GetDataset(), r.GetDigest()}] {
		other := &v.replicas[i]
		if v.identity(other.Replica) == v.identity(r.Replica) {
			continue
		}
		why := v.doomed(r, other)
		if why == "" {
			why = unverified(other)
		}
		switch {
		case why == "":
			good = append(good, other)
		case len(near) < most:
			near = append(near, fmt.Sprintf("%s %s", mover.Printable(brief(other.GetLocation())), why))
		}
	}
	return good, near
}

// Survivors returns the copies on which it relies that a replica may be released, the
// one first that is looked at most easily. The worker that removes the replica checks that one
// of them is really there: a View knows only what was recorded.
func (v *View) Survivors(asked *datamovev1.Replica) (found []*datamovev1.Replica) {
	i, ok := v.found[v.identity(asked)]
	if !ok || i < 0 || asked.GetDigest() == "" {
		return nil
	}
	r := &v.replicas[i]
	good, _ := v.survivors(r)
	slot := v.slot(r.GetDataset(), r.GetDigest(), r.GetTier(), r.GetNode())
	slices.SortFunc(good, func(a, b *replica) int { return v.nearer(slot, a, b) })
	for _, g := range good {
		found = append(found, g.Replica)
	}
	return found
}

// doomed says why other may not outlive r; "" when it does. That it is not the same
// place by another name is known by then: see shared.
func (v *View) doomed(r, other *replica) string {
	switch {
	case other.GetState() != datamovev1.ReplicaState_REPLICA_STATE_WHOLE:
		return "is not whole, or is being removed"
	case other.sure != known, v.found[v.identity(other.Replica)] < 0:
		return "can not be found by its record"
	case other.GetTier() == r.GetTier(), v.sameHome(r, other):
		return "is on the same tier"
	case v.fleeting(other):
		return "is on an ephemeral tier"
	}
	return ""
}

// sameHome reports whether two replicas lie in one tier, whatever their records say.
func (v *View) sameHome(a, b *replica) bool {
	x, y := v.home(a.at), v.home(b.at)
	return x != nil && y != nil && x.root == y.root
}

// fleeting reports whether any of a replica is where purge may remove it.
func (v *View) fleeting(r *replica) bool {
	for _, t := range v.roots {
		if t.ephemeral && t.root.meets(r.at) {
			return true
		}
	}
	return false
}

// unverified says why the content of a replica is not known to be what it should be.
func unverified(r *replica) string {
	switch r.GetLevel() {
	case datamovev1.Level_LEVEL_SERVER, datamovev1.Level_LEVEL_READ:
		return ""
	}
	return "was not verified by its store or by reading"
}
