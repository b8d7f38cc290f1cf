package dataset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/test/seed"
	_ "datamove.dev/test/seed/property"
)

// A world is where directories really are: what the rules see of it is only text.
// Here it is known what a removal takes along, whatever it is called.

// ground is a directory: on the disk of a node, on what all nodes share, or in a store.
type ground struct{ system, path string }

// touches reports whether removing one of two takes something of the other along.
func (a ground) touches(b ground) bool {
	x, y := strings.Split(a.path, "/"), strings.Split(b.path, "/")
	n := min(len(x), len(y))
	return a.system == b.system && slices.Equal(x[:n], y[:n])
}

// covers reports whether b lies in a, or is it.
func (a ground) covers(b ground) bool { return a.touches(b) && len(a.path) <= len(b.path) }

// realm is a tier as it really is.
type realm struct {
	name, level, path string
	local, ephemeral  bool
}

var realms = []realm{
	{"scratch", "hot", "/nvme", true, true},
	{"spill", "hot", "/nvme/spill", true, true},
	{"cache", "hot", "/nvme/cache", true, false},
	{"project", "warm", "/lustre/p", false, false},
	{"second", "warm", "/lustre/p", false, false},
	{"team", "warm", "/lustre/p/a", false, false},
	{"temp", "warm", "/lustre/p/temp", false, true},
	{"kept", "warm", "/lustre/p/temp/a", false, false},
	{"archive", "cold", "store/x", false, false},
	{"bucket", "cold", "store", false, false},
	{"cloud", "cold", "cloud", false, false},
	{"trial", "cold", "cloud/trial", false, true},
}

// on is the ground of a tier, as it is where g is.
func (r realm) on(g ground) (ground, bool) {
	system := "shared"
	switch {
	case r.local:
		system = g.system
	case !strings.HasPrefix(r.path, "/"):
		system = "store"
	}
	return ground{system, r.path}, !r.local || g.system == "n1" || g.system == "n2"
}

// thing is a replica as it really is, and as it is recorded.
type thing struct {
	record *datamovev1.Replica
	ground ground
	leased bool
}

type world struct {
	roll   func(n int) int // from 0 up to but without n
	realms []realm
	things []thing
	facts  Facts
	vague  bool // some text does not tell where something is: yes is not owed then
}

func (w *world) chance(percent int) bool { return w.roll(100) < percent }

func (w *world) word(all ...string) string { return all[w.roll(len(all))] }

func newWorld(roll func(int) int) *world {
	w := &world{roll: roll}
	w.facts.Now = noon
	for _, r := range realms {
		if !w.chance(70) {
			continue
		}
		w.realms = append(w.realms, r)
		at := r.path
		if !strings.HasPrefix(at, "/") {
			at = "s3://" + at
		}
		row := &datamovev1.Tier{Name: r.name, Level: r.level, Location: at, Ephemeral: r.ephemeral, TotalBytes: 1000, FreeBytes: int64(w.roll(300))}
		if !r.local {
			w.facts.Tiers = append(w.facts.Tiers, row)
			continue
		}
		for _, node := range []string{"n1", "n2"} {
			w.facts.Tiers = append(w.facts.Tiers, &datamovev1.Tier{Name: r.name, Level: r.level, Location: at, Ephemeral: r.ephemeral,
				Node: node, TotalBytes: 1000, FreeBytes: row.FreeBytes})
		}
	}
	for range 1 + w.roll(6) {
		w.addThing()
	}
	for range w.roll(3) {
		w.addLease(w.roll(len(w.things)))
	}
	for range w.roll(3) {
		w.addPin()
	}
	return w
}

func (w *world) somewhere() ground {
	below := w.word("a", "a/b", "a/b/c", "b", "ab", "temp/b", "temp/a/b", "cache/b", "spill/b", "x/b", "x/a", "trial/b", "b c")
	switch w.roll(8) {
	case 0, 1:
		return ground{w.word("n1", "n2"), "/nvme/" + below}
	case 2, 3, 4:
		return ground{"shared", "/lustre/p/" + below}
	case 5:
		return ground{"shared", "/home/" + below}
	case 6:
		return ground{"store", "store/" + below}
	}
	return ground{"store", "cloud/" + below}
}

// name gives a ground one of its names: text, the tier that it is said to be on,
// and the node.
func (w *world) name(g ground) (text, tier, node string) {
	node = w.word("", "n1", "n2")
	if g.system == "n1" || g.system == "n2" {
		node = g.system
	}
	text = g.path
	if g.system == "store" {
		text = "s3://" + g.path
	}
	var inside []realm
	for _, r := range w.realms {
		if at, ok := r.on(g); ok && at.covers(g) {
			inside = append(inside, r)
		}
	}
	if len(inside) > 0 && w.chance(85) {
		r := inside[w.roll(len(inside))]
		tier = r.name
		if w.chance(80) {
			return r.name + ":" + strings.TrimPrefix(g.path[len(r.path):], "/") + w.word("", "", "/"), tier, node
		}
	} else if node == g.system && w.chance(20) {
		node, w.vague = "", true
	}
	return w.disguise(text, tier), tier, node
}

// disguise writes a path in another way, some of which can not be followed. A
// relative path outside of the tiers could be anywhere at all, and so is none.
func (w *world) disguise(text, tier string) string {
	if strings.HasPrefix(text, "s3://") {
		return text + w.word("", "/")
	}
	switch w.roll(12) {
	case 0:
		return text + "/"
	case 1:
		return "/" + text
	case 2:
		return strings.Replace(text, "/", "/./", 1)
	case 3:
		return "file://" + strings.ReplaceAll(text, " ", "%20")
	case 4:
		w.vague = true
		return "/home/.." + text
	case 5:
		if tier != "" {
			w.vague = true
			return strings.TrimPrefix(text, "/")
		}
	}
	return text
}

func (w *world) addThing() {
	g := w.somewhere()
	if len(w.things) > 0 && w.chance(25) { // the same place again, by another name
		g = w.things[w.roll(len(w.things))].ground
	}
	r := &datamovev1.Replica{Dataset: w.word("d", "d", "e"), Digest: w.word(digest1, digest1, digest1, digest2), State: whole, Bytes: int64(1 + w.roll(400)),
		Level: datamovev1.Level(w.word("\x03", "\x04", "\x03", "\x04", "\x02", "\x01", "\x00", "\x05")[0]), CreateTime: timestamppb.New(noon.Add(-time.Duration(w.roll(5)) * time.Hour))}
	r.Location, r.Tier, r.Node = w.name(g)
	if w.chance(20) {
		r.State = datamovev1.ReplicaState(w.roll(5))
	}
	if w.chance(10) {
		r.Task = w.word("t1", "t2")
	}
	if w.chance(5) {
		r.PinnedUntil = timestamppb.New(noon.Add(w.span()))
	}
	if w.chance(2) && (strings.HasPrefix(r.Location, "/") || strings.Contains(r.Location, ":")) {
		r.Tier, w.vague = w.word("gone", "cloud", "cache"), true
	}
	w.vague = w.vague || slices.ContainsFunc(w.things, func(k thing) bool { // a lease may mean both
		return k.record.Dataset == r.Dataset && k.record.Digest == r.Digest && k.record.Tier == r.Tier
	})
	w.things = append(w.things, thing{record: r, ground: g})
	w.facts.Replicas = append(w.facts.Replicas, r)
}

// span is how long something lasts from now on, or how long ago it ended.
func (w *world) span() time.Duration {
	return []time.Duration{time.Hour, 1, 0, -1, -time.Hour}[w.roll(5)]
}

func (w *world) addLease(i int) {
	k := &w.things[i]
	l := &datamovev1.Lease{Id: "L", Holder: "slurm:1", Dataset: k.record.Dataset, Digest: k.record.Digest, Tier: k.record.Tier, Node: k.record.Node, Location: k.record.Location}
	switch w.roll(6) {
	case 0: // what is leased is called by another name
		if text, tier, node := w.name(k.ground); !strings.Contains(text, "..") && strings.Contains(text, "/") {
			w.vague = w.vague || tier != l.Tier // it is one on that tier, too
			l.Location, l.Tier, l.Node = text, tier, node
		}
	case 1:
		l.Location, w.vague = "", true
	}
	if lasts := w.span(); w.chance(95) {
		l.ExpireTime = timestamppb.New(noon.Add(lasts))
		k.leased = k.leased || lasts > 0
	} else {
		k.leased = true
	}
	w.facts.Leases = append(w.facts.Leases, l)
}

func (w *world) addPin() {
	p := &datamovev1.PinInfo{Dataset: w.word("d", "e"), Digest: w.word("", digest1, digest2), Until: timestamppb.New(noon.Add(w.span()))}
	if len(w.realms) > 0 && w.chance(60) {
		p.Tier = w.realms[w.roll(len(w.realms))].name
	}
	w.facts.Pins = append(w.facts.Pins, p)
}

func (w *world) pinned(r *datamovev1.Replica) bool {
	if until := r.PinnedUntil; until != nil && until.AsTime().After(noon) {
		return true
	}
	return slices.ContainsFunc(w.facts.Pins, func(p *datamovev1.PinInfo) bool {
		return p.Dataset == r.Dataset && (p.Digest == "" || p.Digest == r.Digest) && (p.Tier == "" || p.Tier == r.Tier) && p.Until.AsTime().After(noon)
	})
}

// innermost is the path of the smallest tier that holds g, or "".
func (w *world) innermost(g ground) (path string) {
	for _, r := range w.realms {
		if at, ok := r.on(g); ok && at.covers(g) && len(r.path) > len(path) {
			path = r.path
		}
	}
	return path
}

func (w *world) ephemeral(g ground) bool {
	return slices.ContainsFunc(w.realms, func(r realm) bool {
		at, ok := r.on(g)
		return r.ephemeral && ok && at.touches(g)
	})
}

// survives reports whether b is a copy of a that can be relied on once a is gone.
func (w *world) survives(a, b *thing) bool {
	return b.record.Dataset == a.record.Dataset && b.record.Digest == a.record.Digest && b.record.State == whole &&
		(b.record.Level == server || b.record.Level == read) && !b.ground.touches(a.ground) &&
		b.record.Tier != a.record.Tier && (w.innermost(a.ground) == "" || w.innermost(b.ground) != w.innermost(a.ground)) && !w.ephemeral(b.ground)
}

// loss says what goes wrong when a is released by a task; "" when nothing does.
func (w *world) loss(a *thing, task string) string {
	r := a.record
	ours := task != "" && r.Task == task
	switch {
	case r.Tier == "":
		return "it is on no tier"
	case r.Task != "" && !ours:
		return "another task works on it"
	case r.State != whole && (r.State != removing || !ours):
		return "it is not whole"
	case a.leased:
		return "it is leased"
	case w.pinned(r):
		return "it is pinned"
	}
	for _, tier := range w.realms {
		if at, ok := tier.on(a.ground); ok && a.ground.covers(at) {
			return "the tier " + tier.name + " goes, too"
		}
	}
	saved := false
	for i := range w.things {
		b := &w.things[i]
		if b != a && b.ground.touches(a.ground) {
			return fmt.Sprintf("replica %d goes, too", i)
		}
		saved = saved || b != a && w.survives(a, b)
	}
	if !saved {
		return "it is the only copy that can be relied on"
	}
	return ""
}

// damage says what goes wrong when a purge is done; "" when nothing does.
func (w *world) damage(p Purge) string {
	i := slices.IndexFunc(w.realms, func(r realm) bool { return r.name == p.Location.Tier })
	if i < 0 || p.Location.Scheme != location.InTier || !mover.ValidName(p.Location.Path) {
		return "it is no location of a tier"
	}
	tier := w.realms[i]
	g, ok := tier.on(ground{system: p.Node})
	switch {
	case !ok:
		return "nobody knows where it is"
	case !tier.ephemeral:
		return "the tier is not ephemeral"
	case p.Location.Path == "" && !p.Root:
		return "nobody said that all is meant"
	}
	if p.Location.Path != "" {
		g.path += "/" + p.Location.Path
	}
	for j, other := range w.realms {
		at, ok := other.on(g)
		if j != i && ok && (g.covers(at) || at.covers(g) && len(at.path) >= len(tier.path)) {
			return "it belongs to " + other.name
		}
	}
	for i := range w.things {
		b := &w.things[i]
		ours := p.Task != "" && b.record.Task == p.Task
		switch {
		case !b.ground.touches(g):
		case b.leased, w.pinned(b.record):
			return fmt.Sprintf("somebody needs replica %d", i)
		case b.record.Task != "" && !ours, b.record.State != whole && (b.record.State != removing || !ours):
			return fmt.Sprintf("replica %d is busy", i)
		case !g.covers(b.ground):
			return fmt.Sprintf("a part of replica %d goes", i)
		case !slices.ContainsFunc(w.realms, func(r realm) bool { return r.name == b.record.Tier && r.ephemeral }):
			return fmt.Sprintf("replica %d is not said to be ephemeral", i)
		}
	}
	return ""
}

// What the rules said, counted: a rule that never says yes keeps every promise.
type verdicts struct{ decisions, yes, careful int }

// judge compares an answer with what would happen. It says what is wrong; "" when
// nothing is.
func (n *verdicts) judge(w *world, err error, harm string) string {
	n.decisions++
	switch {
	case err == nil && harm != "":
		return "yes, but " + harm
	case err == nil:
		n.yes++
	case harm == "" && !w.vague:
		return "needlessly no: " + err.Error()
	case harm == "":
		n.careful++
	}
	return ""
}

func (n *verdicts) release(w *world) string {
	v := Look(w.facts)
	for i := range w.things {
		task := w.word("", "t1")
		if wrong := n.judge(w, v.MayRelease(w.things[i].record, task), w.loss(&w.things[i], task)); wrong != "" {
			return fmt.Sprintf("release of replica %d by task %q: %s", i, task, wrong)
		}
	}
	return ""
}

func (n *verdicts) purge(w *world) string {
	v := Look(w.facts)
	for range 4 {
		p := Purge{Node: w.word("n1", "n2", "n1", "n2", ""), Root: w.chance(50), Task: w.word("", "t1")}
		p.Location = location.Location{Scheme: location.InTier, Tier: realms[w.roll(len(realms))].name, Path: w.word("", "a", "b", "a/b/c", "spill", "x", "temp/b", "..", "a/../..")}
		if wrong := n.judge(w, v.MayPurge(p), w.damage(p)); wrong != "" {
			return fmt.Sprintf("purge of %s on %q, root %v, by %q: %s", p.Location, p.Node, p.Root, p.Task, wrong)
		}
	}
	return ""
}

// evict takes all at once what a tier gives up.
func (n *verdicts) evict(w *world) string {
	if len(w.facts.Tiers) == 0 {
		return ""
	}
	row := w.facts.Tiers[w.roll(len(w.facts.Tiers))]
	e := Look(w.facts).Evict(row, Watermarks{High: 50, Low: 1 + w.roll(50)})
	n.decisions += len(w.things)
	for i := range w.things {
		k := &w.things[i]
		if !slices.Contains(e.Replicas, k.record) {
			continue
		}
		n.yes++
		harm := w.loss(k, "")
		if row.Ephemeral && harm == "it is the only copy that can be relied on" && w.known(k, e) {
			harm = ""
		}
		if harm != "" {
			return fmt.Sprintf("evict replica %d from %s: %s", i, row.Name, harm)
		}
	}
	return ""
}

// known reports whether a whole copy is left elsewhere, checked or not.
func (w *world) known(a *thing, e Eviction) bool {
	return slices.ContainsFunc(w.things, func(b thing) bool {
		return b.record.Dataset == a.record.Dataset && b.record.Digest == a.record.Digest && b.record.State == whole &&
			!b.ground.touches(a.ground) && !w.ephemeral(b.ground) && !slices.Contains(e.Replicas, b.record)
	})
}

func (w *world) String() string {
	var b strings.Builder
	for _, t := range w.facts.Tiers {
		fmt.Fprintln(&b, "tier", prototext.MarshalOptions{}.Format(t))
	}
	for i, k := range w.things {
		fmt.Fprintf(&b, "replica %d at %v: %s\n", i, k.ground, prototext.MarshalOptions{}.Format(k.record))
	}
	for _, l := range w.facts.Leases {
		fmt.Fprintln(&b, "lease", prototext.MarshalOptions{}.Format(l))
	}
	for _, p := range w.facts.Pins {
		fmt.Fprintln(&b, "pin", prototext.MarshalOptions{}.Format(p))
	}
	return b.String()
}

// many asks for 50,000 decisions, or a million with DATAMOVE_SOAK=1, first in worlds that
// rapid can shrink. At least one in yes has to be granted.
func many(t *testing.T, ask func(*verdicts, *world) string, yes int) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(0, 1<<20)
		w := newWorld(func(n int) int { return small.Draw(t, "roll") % n })
		if wrong := ask(new(verdicts), w); wrong != "" {
			t.Fatalf("%s\n%s", wrong, w)
		}
	})
	random, want, n := seed.Rand(t), 50_000, verdicts{}
	if seed.Soak() {
		want = 1_000_000
	}
	for n.decisions < want {
		w := newWorld(random.IntN)
		if wrong := ask(&n, w); wrong != "" {
			t.Fatalf("%s\n%s", wrong, w)
		}
	}
	t.Logf("%d decisions, %d of them yes, %d no in doubt, 0 wrong", n.decisions, n.yes, n.careful)
	if n.yes*yes < n.decisions {
		t.Errorf("only %d of %d decisions are yes", n.yes, n.decisions)
	}
}

//safety:5/datasets the rules against a world of directories in which data is really lost
func TestNoWrongRelease(t *testing.T) { many(t, (*verdicts).release, 100) }

//safety:5/datasets with TestNoWrongRelease
func TestNoWrongPurge(t *testing.T) { many(t, (*verdicts).purge, 100) }

//safety:5/datasets with TestNoWrongRelease
func TestNoWrongEvict(t *testing.T) { many(t, (*verdicts).evict, 400) }
