package datasetserver

import (
	"slices"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/tiering/dataset"
)

// replicaFacts collects the facts of a question about one replica, or one location: of all that the
// ledger has, what the answer can depend on. That is what [dataset.Facts] may not leave out:
// what is of the same version, and what lies where the replica or the location does, or may
// lie there because its address is unknown.
type replicaFacts struct {
	s        *records
	tx       *state.Tx
	facts    dataset.Facts
	replicas map[string]bool // that facts has, by spotKey
	leases   map[string]bool // by id
	pins     map[string]bool // by dataset
}

// viewAround is the view for a question about a replica that is recorded.
func (s *records) viewAround(tx *state.Tx, now time.Time, r *pb.Replica) (*dataset.View, error) {
	a, err := s.replicaFacts(tx, now)
	if err == nil {
		err = a.version(r)
	}
	if err == nil {
		err = a.where(r)
	}
	if err == nil {
		err = a.holders(r)
	}
	return a.look(), err
}

// viewAt is the view for a question about a location, and about each replica in its way.
func (s *records) viewAt(tx *state.Tx, now time.Time, location, node string) (*dataset.View, error) {
	a, err := s.replicaFacts(tx, now)
	if err == nil {
		err = a.keyed(s.spots.meeting(location, "", node))
	}
	for _, r := range slices.Clone(a.facts.Replicas) {
		if err == nil {
			err = a.where(r)
		}
		if err == nil {
			err = a.holders(r)
		}
	}
	return a.look(), err
}

// look looks at the facts in the order of the ledger, so that of several reasons to
// refuse the same one is the first.
func (a *replicaFacts) look() *dataset.View {
	slices.SortFunc(a.facts.Replicas, func(x, y *pb.Replica) int { return slices.Compare(state.ReplicaKey(x), state.ReplicaKey(y)) })
	return dataset.Look(a.facts)
}

// replicaFacts begins with what may lie anywhere.
func (s *records) replicaFacts(tx *state.Tx, now time.Time) (*replicaFacts, error) {
	a := &replicaFacts{
		s: s, tx: tx, replicas: map[string]bool{}, leases: map[string]bool{}, pins: map[string]bool{},
		facts: dataset.Facts{Now: now, Tiers: tierRows(s.conf())},
	}
	if err := s.readyIndex(tx); err != nil {
		return a, err
	}
	return a, a.keyed(s.spots.unplaced())
}

// version adds the replicas of the same content. What has no name is of no version: of it
// what says that it is the same one, from whatever node.
func (a *replicaFacts) version(r *pb.Replica) error {
	for other, err := range state.Replicas.All(a.tx, versionRange(r.GetDataset(), r.GetDigest())) {
		if err != nil {
			return err
		}
		if r.GetDataset() != "" || other.GetTier() == r.GetTier() && other.GetLocation() == r.GetLocation() {
			a.add(other)
		}
	}
	return nil
}

// where adds what lies where a replica does, above it or below it.
func (a *replicaFacts) where(r *pb.Replica) error {
	return a.keyed(a.s.spots.meeting(r.GetLocation(), r.GetTier(), r.GetNode()))
}

// keyed adds what has the keys: replicas, and leases on them, whether they are there or not.
func (a *replicaFacts) keyed(keys [][]string) error {
	for _, key := range keys {
		r, err := state.Replicas.Get(a.tx, key...)
		if mover.IgnoreNotExist(err) != nil {
			return err
		}
		if err == nil {
			a.add(r)
		}
		if err := a.held(key); err != nil {
			return err
		}
	}
	return nil
}

func (a *replicaFacts) add(r *pb.Replica) {
	if word := spotKey(r); !a.replicas[word] {
		a.replicas[word] = true
		a.facts.Replicas = append(a.facts.Replicas, r)
	}
}

// holders adds the leases on replicas of the same version, and the pins of the dataset.
func (a *replicaFacts) holders(r *pb.Replica) error {
	of := versionRange(r.GetDataset(), r.GetDigest()).Prefix
	if r.GetDataset() == "" {
		of = state.ReplicaKey(r)
	}
	if err := a.held(of); err != nil || a.pins[r.GetDataset()] {
		return err
	}
	a.pins[r.GetDataset()] = true
	pins, err := state.Collect(state.Pins.All(a.tx, state.Range{Prefix: []string{r.GetDataset()}}))
	a.facts.Pins = append(a.facts.Pins, pins...)
	return err
}

// held adds the leases on what has a key, or one that begins so.
func (a *replicaFacts) held(key []string) error {
	for l, err := range state.LeasesByReplica.All(a.tx, state.Range{Prefix: key}) {
		if err != nil {
			return err
		}
		if !a.leases[l.GetId()] {
			a.leases[l.GetId()] = true
			a.facts.Leases = append(a.facts.Leases, l)
		}
	}
	return nil
}
