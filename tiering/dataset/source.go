package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// PickSource returns the replica of which the one for a slot is best made. It is whole,
// not being removed, and seen by an agent that sees the tier of the slot too. Replicas with unverified
// content come last. Warm and hot are before cold, then what is not ephemeral, what was verified, what is on the
// same node, hot before warm; at last names decide.
//
// What an agent sees is said by its Reaches: tiers by name, and roots as a path
// or s3://bucket/prefix. Stores outside of the tiers are seen by all. Only agents that
// are ready count.
//
// mover.ErrNotExist means that there is nothing to copy, mover.ErrUnreachable that
// no agent can. Hold what was picked by a lease while it is read.
func (v *View) PickSource(want Slot, agents []*datamovev1.Agent) (*datamovev1.Replica, error) {
	where := fmt.Sprintf("dataset:%s@%s", want.Dataset, want.Digest)
	t := v.tiers[want.Tier]
	if t == nil || t.local && want.Node == "" {
		return nil, refuse("stage", where, mover.ErrNotExist, "there is no tier %s, or every node has one and none is named", mover.Printable(want.Tier))
	}
	whole, seen := v.sources(want, t.on(want.Node), agents)
	switch {
	case len(whole) == 0:
		return nil, refuse("stage", where, mover.ErrNotExist, "no whole replica of it is known outside of tier %s; add the dataset again where it is", mover.Printable(want.Tier))
	case len(seen) == 0:
		return nil, refuse("stage", where, mover.ErrUnreachable, "no agent that is ready reaches both tier %s and %s", mover.Printable(want.Tier), strings.Join(whole, ", "))
	}
	return slices.MinFunc(seen, func(a, b *replica) int { return v.nearer(want, a, b) }).Replica, nil
}

// sources returns where there is a whole replica for a slot, and those of them
// that can be copied there.
func (v *View) sources(want Slot, target Address, agents []*datamovev1.Agent) (whole []string, seen []*replica) {
	slot := v.slot(want.Dataset, want.Digest, want.Tier, want.Node)
	for _, i := range v.versions[version{want.Dataset, want.Digest}] {
		r := &v.replicas[i]
		if r.GetState() != datamovev1.ReplicaState_REPLICA_STATE_WHOLE || r.sure != known || v.slot(r.GetDataset(), r.GetDigest(), r.GetTier(), r.GetNode()) == slot {
			continue
		}
		whole = append(whole, mover.Printable(brief(r.GetLocation())))
		if slices.ContainsFunc(agents, func(a *datamovev1.Agent) bool {
			return a.GetState() == datamovev1.AgentState_AGENT_STATE_READY && v.sees(a, target) && v.sees(a, r.at)
		}) {
			seen = append(seen, r)
		}
	}
	return whole, seen
}

// sees reports whether an agent reaches an address. Any path of its node, "/", does
// not mean the tiers: whether one is mounted there, an agent says by its name.
func (v *View) sees(a *datamovev1.Agent, at Address) bool {
	if at.node != "" && a.GetName() != at.node {
		return false
	}
	outside := v.home(at) == nil
	if outside && !strings.HasPrefix(at.path, "/") {
		return true
	}
	return slices.ContainsFunc(a.GetReaches(), func(reach string) bool {
		if t := v.tiers[reach]; t != nil {
			return t.root.holds(at)
		}
		l, err := location.Parse(reach)
		root, sure := absolute(l, "")
		return err == nil && sure == known && root.holds(at) && (outside || root.path != "")
	})
}

// nearer orders two replicas that a slot can be made of, the better one first.
func (v *View) nearer(want Slot, a, b *replica) int {
	first := func(better func(*replica) bool) int {
		switch {
		case better(a) == better(b):
			return 0
		case better(a):
			return -1
		}
		return 1
	}
	return cmp.Or(
		first(func(r *replica) bool { return r.GetLevel() != datamovev1.Level_LEVEL_UNSPECIFIED }),
		first(func(r *replica) bool { return v.levelOf(r) != "cold" }),
		first(func(r *replica) bool { return !v.fleeting(r) }),
		first(func(r *replica) bool { return unverified(r) == "" }),
		first(func(r *replica) bool { return want.Node != "" && r.at.node == want.Node }),
		first(func(r *replica) bool { return v.levelOf(r) == "hot" }),
		cmp.Compare(a.GetTier(), b.GetTier()), cmp.Compare(a.GetNode(), b.GetNode()), cmp.Compare(a.GetLocation(), b.GetLocation()))
}

// levelOf is the level of the tier that a replica lies in. Outside of all, a store
// is as far away as a cold tier, and a file system as near as a warm one.
func (v *View) levelOf(r *replica) string {
	t := v.tiers[r.GetTier()]
	if t == nil {
		t = v.home(r.at)
	}
	switch {
	case t != nil:
		return t.level
	case strings.HasPrefix(r.at.path, "/"):
		return "warm"
	}
	return "cold"
}
