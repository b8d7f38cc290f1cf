package dataset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// Facts is what the ledger says at one moment. Too much does no harm; what is missing
// does. Left out may be what is of another dataset and can not lie where the one in
// question does, by whichever name of a tier; of the tiers none.
type Facts struct {
	Now      time.Time // of the ledger: see Forward
	Tiers    []*datamovev1.Tier
	Replicas []*datamovev1.Replica // the number of leases in them is for people, and not looked at
	Leases   []*datamovev1.Lease   // those that have ended are ignored
	Pins     []*datamovev1.PinInfo
}

// Slot is what there is at most one replica for on a tier: a version of a dataset,
// and the node of a tier that each node has one of.
type Slot struct{ Dataset, Digest, Tier, Node string }

// View is facts in which the rules find what they ask for.
type View struct {
	now      time.Time
	tiers    map[string]*tier
	roots    []*tier // all of them, by name
	blind    string  // why the tiers can not be relied on; "" when they can
	replicas []replica
	found    map[identity]int // -1 of what is recorded twice
	versions map[version][]int32
	places   Places[int32] // of replicas
	leases   []lease
	needed   map[identity][]int32 // leases, by what they name
	held     Places[int32]        // of leases
	lost     []int32              // leases on a tier, at an unknown location
	strays   []int32              // replicas on a tier, at an unknown location
	used     map[identity]time.Time
	pins     map[string][]*datamovev1.PinInfo // by dataset
}

// tier is a root of the configuration. Its address has no node, because a tier that
// is on every node has the same path there.
type tier struct {
	name      string
	level     string
	root      Address
	local     bool // every node has one
	ephemeral bool
}

type (
	version  struct{ dataset, digest string }
	identity struct {
		Slot
		location string
	}
	replica struct {
		*datamovev1.Replica
		at   Address
		sure certainty
	}
	lease struct {
		*datamovev1.Lease
		at Address
	}
)

// Look makes a view of facts, which must not change while it is used.
func Look(f Facts) *View {
	v := &View{now: f.Now, tiers: make(map[string]*tier, len(f.Tiers)), found: make(map[identity]int, len(f.Replicas)), versions: map[version][]int32{},
		needed: map[identity][]int32{}, used: map[identity]time.Time{}, pins: map[string][]*datamovev1.PinInfo{}}
	for _, t := range f.Tiers {
		v.addTier(t)
	}
	v.roots = slices.SortedFunc(maps.Values(v.tiers), func(a, b *tier) int { return strings.Compare(a.name, b.name) })
	for _, r := range f.Replicas {
		v.addReplica(r)
	}
	for _, l := range f.Leases {
		v.addLease(l)
	}
	for _, p := range f.Pins {
		if until := p.GetUntil(); until == nil || v.now.Before(until.AsTime()) {
			v.pins[p.GetDataset()] = append(v.pins[p.GetDataset()], p)
		}
	}
	return v
}

// addTier takes one line of the list of tiers. There is one for each node of a
// node-local tier, and they have to agree.
func (v *View) addTier(row *datamovev1.Tier) {
	t := &tier{name: row.GetName(), level: row.GetLevel(), local: row.GetNode() != "", ephemeral: row.GetEphemeral()}
	l, err := location.Parse(row.GetLocation())
	at, sure := absolute(l, "")
	if err != nil || sure != known {
		v.blind = fmt.Sprintf("where tier %s is can not be told from %s", mover.Printable(t.name), mover.Printable(row.GetLocation()))
		return
	}
	t.root = at
	if before := v.tiers[t.name]; before != nil && *before != *t {
		v.blind = fmt.Sprintf("what is said of tier %s differs from node to node", mover.Printable(t.name))
		return
	}
	v.tiers[t.name] = t
}

func (v *View) addReplica(r *datamovev1.Replica) {
	i := len(v.replicas)
	at, sure := v.locate(r.GetLocation(), r.GetTier(), r.GetNode())
	v.replicas = append(v.replicas, replica{r, at, sure})
	id := v.identity(r)
	if _, twice := v.found[id]; twice {
		v.found[id] = -1
	} else {
		v.found[id] = i
	}
	content := version{r.GetDataset(), r.GetDigest()}
	v.versions[content] = append(v.versions[content], int32(i))
	switch {
	case sure != nowhere:
		v.places.Add(at, int32(i))
	case r.GetTier() != "":
		v.strays = append(v.strays, int32(i))
	}
}

func (v *View) addLease(l *datamovev1.Lease) {
	what := v.named(l)
	if end := l.GetExpireTime(); end != nil && end.AsTime().After(v.used[what]) {
		v.used[what] = end.AsTime()
	}
	if Expired(l, v.now) {
		return
	}
	i := len(v.leases)
	at, sure := v.locate(l.GetLocation(), l.GetTier(), l.GetNode())
	v.leases = append(v.leases, lease{l, at})
	v.needed[what] = append(v.needed[what], int32(i))
	switch {
	case sure != nowhere:
		v.held.Add(at, int32(i))
	case l.GetTier() != "":
		v.lost = append(v.lost, int32(i))
	}
}

// slot leaves out the node where a tier is the same from every node.
func (v *View) slot(dataset, digest, tierName, node string) Slot {
	if t := v.tiers[tierName]; t != nil && !t.local {
		node = ""
	}
	return Slot{dataset, digest, tierName, node}
}

func (v *View) identity(r *datamovev1.Replica) identity {
	return identity{v.slot(r.GetDataset(), r.GetDigest(), r.GetTier(), r.GetNode()), r.GetLocation()}
}

// named is what a lease names, or a replica: a version on a tier, wherever it lies there;
// of what has no name the location tells.
func (v *View) named(m interface {
	GetDataset() string
	GetDigest() string
	GetTier() string
	GetNode() string
	GetLocation() string
}) identity {
	id := identity{Slot: v.slot(m.GetDataset(), m.GetDigest(), m.GetTier(), m.GetNode())}
	if m.GetDataset() == "" {
		id.location = m.GetLocation()
	}
	return id
}

// locate returns the address of what is recorded for a tier, or for none. A record
// that contradicts its tier is only guessed to be where its text says.
func (v *View) locate(text, tierName, node string) (Address, certainty) {
	l, err := location.Parse(text)
	if err != nil {
		return Address{}, nowhere
	}
	at, sure := v.resolve(l, node)
	if tierName == "" || sure == nowhere {
		return at, sure
	}
	t := v.tiers[tierName]
	if t == nil || t.local && node == "" || !t.root.holds(at) {
		return at, guessed
	}
	if !t.local {
		at.node = ""
	}
	return at, sure
}

// resolve follows a location to its address. node is the node of node-local tiers and
// paths.
func (v *View) resolve(l location.Location, node string) (Address, certainty) {
	if !l.InTier() {
		return absolute(l, node)
	}
	t := v.tiers[l.Tier]
	if t == nil || !mover.ValidName(l.Path) {
		return Address{}, nowhere
	}
	at := t.on(node)
	if l.Path != "" {
		at.path += "/" + l.Path
	}
	if t.local && node == "" {
		return at, guessed
	}
	return at, known
}

// on is the root of a tier as it is on a node.
func (t *tier) on(node string) Address {
	if !t.local {
		node = ""
	}
	return Address{node, t.root.path}
}

// Where is the address of what is recorded for a tier, or for none, and of any location on
// a node without a tier; sure says that anything is known of it. Two records can be in each
// other's way only if their addresses meet, as [Places] finds them, or if one is on a tier
// at an unknown location.
func (v *View) Where(text, tierName, node string) (at Address, sure bool) {
	at, certain := v.locate(text, tierName, node)
	return at, certain != nowhere
}

// home returns the innermost tier that an address lies in, or nil. Of two tiers
// with one root it is the one that sorts first.
func (v *View) home(at Address) *tier {
	var best *tier
	for _, t := range v.roots {
		if t.root.holds(at) && (best == nil || len(t.root.path) > len(best.root.path)) {
			best = t
		}
	}
	return best
}

// mayLieIn reports whether something on a tier may lie in, or around, an address.
func (v *View) mayLieIn(at Address, tierName, node string) bool {
	t := v.tiers[tierName]
	return t != nil && t.on(node).meets(at)
}

// Overlapping returns the replicas that are, may contain, or may lie in a location,
// on a node if it is node-local: what a write or a remove there would touch.
func (v *View) Overlapping(l location.Location, node string) ([]*datamovev1.Replica, error) {
	at, sure := v.resolve(l, node)
	if sure != known {
		return nil, fmt.Errorf("where %s is can not be told: %w", mover.Printable(l.String()), mover.ErrUsage)
	}
	var all []*datamovev1.Replica
	for _, r := range v.meeting(at) {
		all = append(all, r.Replica)
	}
	return all, nil
}

// meeting returns the replicas with addresses that meet at.
func (v *View) meeting(at Address) (all []*replica) {
	for i := range v.places.Meeting(at) {
		all = append(all, &v.replicas[i])
	}
	return all
}
