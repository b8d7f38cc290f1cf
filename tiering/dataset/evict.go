package dataset

import (
	"cmp"
	"slices"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Watermarks say when a tier is too full, in percent of its bytes, and how far it
// is emptied then.
type Watermarks struct {
	High int // above it replicas are evicted; 0 means 90
	Low  int // until it is reached; 0 means 80; never above High
}

// OrDefault is w with the usual marks where it has none.
func (w Watermarks) OrDefault() Watermarks {
	high := min(cmp.Or(max(w.High, 0), 90), 100)
	return Watermarks{high, min(cmp.Or(max(w.Low, 0), 80), high)}
}

// Eviction is which replicas of a tier are to go, and whether that is enough.
type Eviction struct {
	Replicas []*datamovev1.Replica // the least recently used first
	Bytes    int64                 // that they free
	Short    int64                 // that are still missing then; above 0 an operator should be told
	Kept     Kept                  // what was passed over on the way
}

// Kept sums the bytes of replicas that may not go, by why.
type Kept struct {
	Leased int64
	Pinned int64
	Busy   int64 // on their way, or worked on
	Alone  int64 // no other copy is known
	Other  int64 // they overlap something else
}

// Evict chooses replicas of a tier, on the node of its line, that go because it is
// too full. From an ephemeral tier a replica goes when another copy is known, good
// enough or not, or when it is a copy of no dataset; from any other one as MayRelease
// says. What is being removed already counts as gone. A tier that does not
// know its size is never too full.
func (v *View) Evict(row *datamovev1.Tier, w Watermarks) Eviction {
	return v.MakeRoom(row, excess(row, w.OrDefault()))
}

// MakeRoom chooses them for so many bytes, whatever the marks are.
func (v *View) MakeRoom(row *datamovev1.Tier, bytes int64) Eviction {
	e := Eviction{Short: bytes - v.Leaving(row)}
	here := v.on(row)
	for _, r := range here {
		if e.Short <= 0 {
			break
		}
		if r.GetBytes() > 0 && !leaving(r) && v.mayEvict(r, &e.Kept) {
			e.Replicas = append(e.Replicas, r.Replica)
			e.Bytes += r.GetBytes()
			e.Short -= r.GetBytes()
		}
	}
	e.Short = max(0, e.Short)
	return e
}

// Leaving are the bytes of a tier, on the node of its line, that are being removed.
func (v *View) Leaving(row *datamovev1.Tier) (bytes int64) {
	for _, r := range v.on(row) {
		if leaving(r) {
			bytes += max(0, r.GetBytes())
		}
	}
	return bytes
}

func leaving(r *replica) bool {
	return r.GetState() == datamovev1.ReplicaState_REPLICA_STATE_REMOVING
}

// excess is how many bytes a tier has above the low watermark; 0 while it is not
// above the high one.
func excess(row *datamovev1.Tier, w Watermarks) int64 {
	total := max(0, row.GetTotalBytes())
	used := total - min(max(0, row.GetFreeBytes()), total)
	share := func(percent int) int64 { return total/100*int64(percent) + total%100*int64(percent)/100 }
	if used <= share(w.High) {
		return 0
	}
	return used - share(w.Low)
}

// on returns the replicas of a tier on a node, the least recently used first. Of
// equally old ones the larger is first, and then names decide.
func (v *View) on(row *datamovev1.Tier) (all []*replica) {
	node := v.slot("", "", row.GetName(), row.GetNode()).Node
	for i := range v.replicas {
		r := &v.replicas[i]
		if slot := v.slot("", "", r.GetTier(), r.GetNode()); slot.Tier == row.GetName() && slot.Node == node {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *replica) int {
		return cmp.Or(v.lastUse(a).Compare(v.lastUse(b)), cmp.Compare(b.GetBytes(), a.GetBytes()),
			cmp.Compare(a.GetDataset(), b.GetDataset()), cmp.Compare(a.GetDigest(), b.GetDigest()), cmp.Compare(a.GetLocation(), b.GetLocation()))
	})
	return all
}

// lastUse is when a replica was last of use to anybody: made, used, or leased.
func (v *View) lastUse(r *replica) time.Time {
	last := v.used[v.named(r)]
	for _, t := range []time.Time{r.GetCreateTime().AsTime(), r.GetUseTime().AsTime()} {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// mayEvict reports whether a replica may go, and else counts it as kept.
func (v *View) mayEvict(r *replica, kept *Kept) bool {
	const op = "evict"
	count := &kept.Other
	switch {
	case busy(op, r, "") != nil:
		count = &kept.Busy
	case v.leased(op, r) != nil:
		count = &kept.Leased
	case v.pinned(op, r) != nil:
		count = &kept.Pinned
	case v.unowned(op, r):
	case !v.replaceable(r):
		count = &kept.Alone
	default:
		return true
	}
	*count += r.GetBytes()
	return false
}

// MayEvict says why a replica that Evict has chosen must stay by now, or nil. No other task
// than the asking one may work on it.
func (v *View) MayEvict(asked *datamovev1.Replica, task string) error {
	const op = "evict"
	r, err := v.own(op, asked)
	if err != nil {
		return err
	}
	for _, refused := range []error{busy(op, r, task), v.leased(op, r), v.pinned(op, r), v.shared(op, r)} {
		if refused != nil {
			return refused
		}
	}
	if !v.replaceable(r) {
		return refuse(op, r.GetLocation(), mover.ErrRefused, "no other copy of %s is known by now", mover.Printable(r.GetDataset()))
	}
	return nil
}

// unowned reports whether removing a replica is not ours to do.
func (v *View) unowned(op string, r *replica) bool {
	_, err := v.own(op, r.Replica)
	return err != nil || v.shared(op, r) != nil
}

// replaceable reports whether a replica can be staged again after it went.
func (v *View) replaceable(r *replica) bool {
	if t := v.tiers[r.GetTier()]; !t.ephemeral {
		return v.elsewhere(r) == nil
	}
	if r.GetDataset() == "" {
		return true
	}
	for _, i := range v.versions[version{r.GetDataset(), r.GetDigest()}] {
		if v.doomed(r, &v.replicas[i]) == "" {
			return true
		}
	}
	return false
}
