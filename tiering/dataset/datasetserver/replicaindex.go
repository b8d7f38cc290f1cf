package datasetserver

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/dataset"
)

// replicaIndex finds replicas, and what leases hold, by where that is. It may know some that are
// gone: what it says is looked up in the ledger.
type replicaIndex struct {
	mu    sync.Mutex
	conf  *config.Config         // by which addresses were made; guarded by mu, as all below
	rules *dataset.View          // of conf, without facts
	at    dataset.Places[string] // keys, by address
	lost  map[string]bool        // keys of what is on a tier at an unknown address
	known int                    // when all were read
	since int                    // that were added, again or anew
}

// spotted is what is to be found: a replica, or a lease.
type spotted interface {
	GetDataset() string
	GetDigest() string
	GetTier() string
	GetNode() string
	GetLocation() string
}

// spotKey is the key of a replica as one word; a location may have any letter.
func spotKey(m spotted) string { return strings.Join(state.ReplicaKey(m), "\x00") }

func keyOf(word string) []string { return strings.SplitN(word, "\x00", 5) }

// add is called in the change that stores m.
func (x *replicaIndex) add(m spotted) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conf == nil {
		return // it is found when all are read
	}
	x.put(m)
	x.since++
}

func (x *replicaIndex) put(m spotted) {
	where, sure := x.rules.Where(m.GetLocation(), m.GetTier(), m.GetNode())
	switch {
	case sure:
		x.at.Add(where, spotKey(m))
	case m.GetTier() != "":
		x.lost[spotKey(m)] = true
	}
}

// spotsLeast is how many are added before it is worth it to forget those that are gone.
const spotsLeast = 10_000

// readyIndex has the index of this configuration, within a change. What that has deleted is
// found, too: it may not come to be.
func (s *records) readyIndex(tx *state.Tx) error {
	return s.spots.make(s.conf(), func(read func(*state.Tx) error) error {
		return errors.Join(s.ledger.View(read), read(tx))
	})
}

// makeIndex makes the index before a change needs it.
func (s *records) makeIndex(ctx context.Context) {
	err := s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error { // so that no change goes on meanwhile
		return s.spots.make(s.conf(), func(read func(*state.Tx) error) error { return read(tx) })
	})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("replicas can not be read", "err", err)
	}
}

// make makes the index, unless it is there and not stale. from reads the ledger.
func (x *replicaIndex) make(c *config.Config, from func(read func(*state.Tx) error) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conf != nil && x.since <= max(spotsLeast, x.known) && (x.conf == c || reflect.DeepEqual(x.conf.Tiers, c.Tiers)) {
		x.conf = c
		return nil
	}
	x.conf, x.rules, x.known, x.since = nil, dataset.Look(dataset.Facts{Tiers: tierRows(c)}), 0, 0
	x.at, x.lost = dataset.Places[string]{}, map[string]bool{}
	if err := from(x.read); err != nil {
		return err
	}
	x.conf = c
	return nil
}

// read adds all that the ledger has.
func (x *replicaIndex) read(tx *state.Tx) error {
	for r, err := range state.Replicas.All(tx, state.Range{}) {
		if err != nil {
			return err
		}
		x.put(r)
		x.known++
	}
	for l, err := range state.Leases.All(tx, state.Range{}) {
		if err != nil {
			return err
		}
		x.put(l)
	}
	return nil
}

// meeting returns the keys of what may be where something is, above it, or below it. tier
// is the one that it is recorded for, if it is a record. An empty node is every node.
func (x *replicaIndex) meeting(at, tier, node string) (keys [][]string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if where, sure := x.rules.Where(at, tier, node); sure {
		for word := range x.at.Meeting(where) {
			keys = append(keys, keyOf(word))
		}
	}
	return keys
}

// unplaced returns the keys of what is on a tier at an unknown address.
func (x *replicaIndex) unplaced() (keys [][]string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, word := range slices.Sorted(maps.Keys(x.lost)) {
		keys = append(keys, keyOf(word))
	}
	return keys
}

// there returns the replicas that the target of a task meets, and its address.
func (s *records) there(tx *state.Tx, t *pb.Task) (found []*pb.Replica, where string, err error) {
	n, err := placement.Of(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
	if err != nil {
		return nil, "", err
	}
	return s.meeting(tx, t.GetSpec().GetTarget(), n.Node)
}

// meeting returns the replicas that are at a location, above it, or below it, and its address.
func (s *records) meeting(tx *state.Tx, at, node string) (found []*pb.Replica, where string, err error) {
	if err := s.readyIndex(tx); err != nil {
		return nil, "", err
	}
	c := s.conf()
	where = placement.Address(at, node, c)
	if !strings.HasPrefix(where, node+":") {
		node = "" // all nodes share what is there
	}
	for _, key := range s.spots.meeting(at, "", node) {
		r, err := state.Replicas.Get(tx, key...)
		if mover.IgnoreNotExist(err) != nil {
			return nil, "", err
		}
		if err == nil && placement.Overlap(where, placement.Address(r.GetLocation(), r.GetNode(), c)) {
			found = append(found, r)
		}
	}
	return found, where, nil
}

// mayWrite says why a task may not write where replicas are: they are needed, or they are this service's. It returns those where it may.
func (s *records) mayWrite(tx *state.Tx, t *pb.Task) (found []*pb.Replica, err error) {
	if !task.Of(t.GetSpec()).Overwrites {
		return nil, nil
	}
	if found, _, err = s.there(tx, t); err != nil {
		return nil, err
	}
	for _, r := range found {
		if err := s.mayOverwrite(tx, t, r); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// overwrites is mayWrite of a task that begins: from here on the replicas are not relied on any more.
func (s *records) overwrites(tx *state.Tx, t *pb.Task) error {
	found, err := s.mayWrite(tx, t)
	if err != nil {
		return err
	}
	for _, r := range found {
		level := r.GetLevel()
		r.Level = pb.Level_LEVEL_UNSPECIFIED
		if err := s.putReplica(tx, r); err != nil {
			return err
		}
		s.before.keep(r, t.GetId(), level)
	}
	return nil
}

// levelsBefore are those of replicas that are not relied on while a task writes around them. They count again when it was refused everywhere,
// and nothing else has made the replica doubted meanwhile. Nothing of it is stored: after a restart what was doubted stays so.
type levelsBefore struct {
	mu sync.Mutex
	of map[string]levelBefore // by spotKey; guarded by mu
}

type levelBefore struct {
	task  string
	level pb.Level
}

func (l *levelsBefore) keep(r *pb.Replica, task string, level pb.Level) {
	if level == pb.Level_LEVEL_UNSPECIFIED {
		return // it was doubted before
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]levelBefore{}
	}
	l.of[spotKey(r)] = levelBefore{task, level}
}

// take forgets what a level was, and returns it to the task that has had it forgotten.
func (l *levelsBefore) take(r *pb.Replica, task string) pb.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.of[spotKey(r)]
	delete(l.of, spotKey(r))
	if was.task != task {
		return pb.Level_LEVEL_UNSPECIFIED
	}
	return was.level
}

// mayOverwrite says why a task may not write where a replica is. Of what other accounts keep there its owner hears no names: it may write to a
// place above without a right to what is below.
func (s *records) mayOverwrite(tx *state.Tx, t *pb.Task, r *pb.Replica) error {
	foreign := t.GetOwner().GetUid() != 0 && (r.GetOwner().GetName() != t.GetOwner().GetName() || r.GetOwner().GetUid() != t.GetOwner().GetUid())
	no := func(kind error, why string) error {
		if foreign {
			return &mover.Error{Op: "write to", Location: t.GetSpec().GetTarget(), Err: mover.Because(kind,
				"what this service keeps for another account is there or below, and is in use or not to be changed; take another target, or ask an operator")}
		}
		return &mover.Error{Op: "write to", Location: r.GetLocation(), Err: mover.Because(kind, "a replica of dataset %s is there, and %s",
			mover.Printable(cmp.Or(r.GetDataset(), "without a name")), why)}
	}
	now, err := shown(tx, r, s.clock.Now())
	switch {
	case err != nil:
		return err
	case now.GetLeases() > 0:
		return no(mover.ErrHeld, "is held by "+leasesOf(now)+"; datamove lease list names who holds it")
	case now.GetPinnedUntil() != nil:
		return no(mover.ErrRefused, "it is pinned; unpin it first")
	case live(tx, r.GetTask()):
		return no(mover.ErrConflict, "task "+r.GetTask()+" works on it")
	case managed(r):
		return no(mover.ErrConflict, "this service has made it; release or purge it")
	}
	return nil
}

// written notes of the replicas where a task has written, also those that became ones
// meanwhile, that it is not known what they are. Where it was refused everywhere they are what they were.
func (s *records) written(tx *state.Tx, t *pb.Task, p taskkind.Result) error {
	if t.GetStartTime() == nil {
		return nil
	}
	found, _, err := s.there(tx, t)
	if err != nil {
		return nil //nolint:nilerr // its tier is not there any more, and of what was on it nothing is relied on
	}
	for _, r := range found {
		level, nothing := s.before.take(r, t.GetId()), untouched(t, p)
		switch {
		case nothing && level == pb.Level_LEVEL_UNSPECIFIED && r.GetLevel() != level: // it came meanwhile
			continue
		case !nothing:
			level = pb.Level_LEVEL_UNSPECIFIED
		}
		r.Level = level
		if err := s.putReplica(tx, r); err != nil {
			return err
		}
	}
	return nil
}

// vanished forgets the replicas that a task has removed.
func (s *records) vanished(tx *state.Tx, t *pb.Task) error {
	if t.GetState() != task.Done {
		return nil
	}
	found, where, err := s.there(tx, t)
	if err != nil {
		return err
	}
	for _, r := range found {
		at := placement.Address(r.GetLocation(), r.GetNode(), s.conf())
		if held, err := s.holds(tx, r); err != nil || held || at != where && !strings.HasPrefix(at, where+"/") {
			continue
		}
		if err := deleteReplica(tx, r); err != nil {
			return err
		}
	}
	return nil
}
