package dataset

import (
	"cmp"
	"fmt"
	"strings"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// refuse makes an error of a rule: what was asked, where, why not, of which kind.
func refuse(op, where string, kind error, format string, args ...any) error {
	return &mover.Error{Op: op, Location: brief(where), Err: &refusal{fmt.Sprintf(format, args...), kind}}
}

// brief is a location for people: the first digits tell a digest from others.
func brief(location string) string {
	const digits = 12
	head, tail := strings.TrimSuffix(location, "/"+Inside), ""
	if len(head) < len(location) {
		tail = "/" + Inside
	}
	if i := strings.LastIndexByte(head, '/') + 1; validDigest(head[i:]) {
		return head[:i+digits] + "…" + tail
	}
	return location
}

// refusal is why a rule says no, of a kind with a name that would add nothing.
type refusal struct {
	why  string
	kind error
}

func (r *refusal) Error() string { return r.why }
func (r *refusal) Unwrap() error { return r.kind }

// busy refuses a replica that is not whole, or that another task than the asking
// one works on. What a task removes already, it may go on removing.
func busy(op string, r *replica, task string) error {
	ours := task != "" && r.GetTask() == task
	switch state := r.GetState(); {
	case r.GetTask() != "" && !ours:
		return refuse(op, r.GetLocation(), mover.ErrConflict, "task %s works on it; wait for its end, or cancel it", mover.Printable(r.GetTask()))
	case state == datamovev1.ReplicaState_REPLICA_STATE_WHOLE, state == datamovev1.ReplicaState_REPLICA_STATE_REMOVING && ours:
		return nil
	case state == datamovev1.ReplicaState_REPLICA_STATE_REMOVING:
		return refuse(op, r.GetLocation(), mover.ErrConflict, "it is being removed already")
	case state == datamovev1.ReplicaState_REPLICA_STATE_STAGING:
		return refuse(op, r.GetLocation(), mover.ErrConflict, "it is still on its way")
	default:
		return refuse(op, r.GetLocation(), mover.ErrConflict, "its state is not known (%d)", state)
	}
}

// MayLease says why the replica can not be leased, or nil. Only a whole replica can be
// held, and one that is marked REMOVING gets no new holders.
func (v *View) MayLease(asked *datamovev1.Replica) error {
	i, ok := v.found[v.identity(asked)]
	switch {
	case !ok:
		return refuse("lease", asked.GetLocation(), mover.ErrNotExist, "there is no such replica of dataset %s; stage it first", mover.Printable(asked.GetDataset()))
	case i < 0:
		return refuse("lease", asked.GetLocation(), mover.ErrConflict, "it is recorded twice; remove one of the records first")
	case v.replicas[i].GetState() != datamovev1.ReplicaState_REPLICA_STATE_WHOLE:
		return refuse("lease", asked.GetLocation(), mover.ErrConflict, "it is not whole, or is being removed; stage it first")
	}
	return nil
}

// Held says of a replica that is recorded whether a lease holds it, and whether a pin keeps it.
func (v *View) Held(asked *datamovev1.Replica) (leased, pinned bool) {
	i, ok := v.found[v.identity(asked)]
	if !ok || i < 0 {
		return false, false
	}
	r := &v.replicas[i]
	return v.leased("look at", r) != nil, v.pinned("look at", r) != nil
}

// leased refuses a replica that a lease holds: one on it, or on anything that lies
// in it or that it lies in.
func (v *View) leased(op string, r *replica) error {
	for _, i := range v.needed[v.named(r)] {
		return heldBy(op, r.GetLocation(), v.leases[i].Lease)
	}
	for _, i := range v.lost { // it may be written under another node or tier
		l := v.leases[i].Lease
		renamed := v.tiers[l.GetTier()] == nil && l.GetDigest() == r.GetDigest() // it may be this one
		if l.GetDataset() == r.GetDataset() && (renamed || v.mayLieIn(r.at, l.GetTier(), l.GetNode())) {
			return heldBy(op, r.GetLocation(), l)
		}
	}
	if r.sure == nowhere {
		return nil
	}
	return v.leasedAt(op, r.GetLocation(), r.at)
}

func (v *View) leasedAt(op, where string, at Address) error {
	for i := range v.held.Meeting(at) {
		return heldBy(op, where, v.leases[i].Lease)
	}
	return nil
}

func heldBy(op, where string, l *datamovev1.Lease) error {
	until := "for ever"
	if end := l.GetExpireTime(); end != nil {
		until = "until " + moment(end.AsTime())
	}
	owner := cmp.Or(l.GetOwner().GetName(), fmt.Sprintf("uid %d", l.GetOwner().GetUid())) // the holder may be any name
	return refuse(op, where, mover.ErrHeld, "%s needs it %s (lease %s of %s); wait, or have the owner drop it",
		mover.Printable(l.GetHolder()), until, mover.Printable(l.GetId()), mover.Printable(owner))
}

// pinned refuses a replica that a pin keeps: of this version or of all, on this
// tier or on all.
func (v *View) pinned(op string, r *replica) error {
	for _, p := range v.pins[r.GetDataset()] {
		if (p.GetDigest() == "" || p.GetDigest() == r.GetDigest()) && (p.GetTier() == "" || p.GetTier() == r.GetTier()) {
			until := "without an end"
			if p.GetUntil() != nil {
				until = "until " + moment(p.GetUntil().AsTime())
			}
			return refuse(op, r.GetLocation(), mover.ErrRefused, "it is pinned %s by %s (%s); unpin dataset:%s first, or wait",
				until, mover.Printable(p.GetOwner().GetName()), mover.Printable(p.GetReason()), mover.Printable(r.GetDataset()))
		}
	}
	if until := r.GetPinnedUntil(); until != nil && v.now.Before(until.AsTime()) {
		return refuse(op, r.GetLocation(), mover.ErrRefused, "it is pinned until %s; unpin dataset:%s first, or wait",
			moment(until.AsTime()), mover.Printable(r.GetDataset()))
	}
	return nil
}

// shared refuses to remove a replica if that would touch something else: another
// replica, the root of its own tier, or another tier.
func (v *View) shared(op string, r *replica) error {
	for _, other := range v.meeting(r.at) {
		if v.identity(other.Replica) != v.identity(r.Replica) {
			return refuse(op, r.GetLocation(), mover.ErrConflict, "dataset %s is at %s, which is the same place or overlaps it; remove one of them by hand",
				mover.Printable(other.GetDataset()), mover.Printable(brief(other.GetLocation())))
		}
	}
	if err := v.unfound(op, r.GetLocation(), r.at); err != nil {
		return err
	}
	for _, t := range v.roots {
		if r.at.holds(t.root) {
			return refuse(op, r.GetLocation(), mover.ErrConflict, "the root of tier %s lies in it; only its entries can be removed, with datamove rm", mover.Printable(t.name))
		}
	}
	return nil
}

// unfound refuses to remove anything that may contain a replica with an unknown
// location on its tier.
func (v *View) unfound(op, where string, at Address) error {
	for _, i := range v.strays {
		if r := &v.replicas[i]; v.mayLieIn(at, r.GetTier(), r.GetNode()) {
			return refuse(op, where, mover.ErrConflict, "a replica of dataset %s is recorded on tier %s, and where can not be told from %s; remove its record first",
				mover.Printable(r.GetDataset()), mover.Printable(r.GetTier()), mover.Printable(brief(r.GetLocation())))
		}
	}
	return nil
}
