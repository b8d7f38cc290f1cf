package datasetserver

import (
	"context"
	"sync"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/telemetry"
)

// storeMetrics tells what lies on tiers.
type storeMetrics struct {
	*core

	mu     sync.Mutex // guards all below
	stores []store
	at     time.Time // when they were read
	pins   int
	pause  time.Duration // until they are read again
}

// sampled has scrapes be told what lies on tiers, until ctx ends.
func (s *storeMetrics) sampled(ctx context.Context) {
	defer s.o.Metrics.Sample(s.sample)()
	<-ctx.Done()
}

// store is what lies on a tier.
type store struct {
	tier        string
	states      map[pb.ReplicaState]int
	bytes, held int64
	leases      int
}

// Stores are read at most so often, and for at most a twentieth of the time.
const (
	storesEvery = 10 * time.Second
	storesShare = 20
)

// sample tells what lies on tiers, as it was a moment ago.
func (s *storeMetrics) sample(m *telemetry.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun := time.Now(); begun.Sub(s.at) >= s.pause {
		if err := s.read(); err != nil {
			return
		}
		s.at = time.Now()
		s.pause = max(storesEvery, storesShare*s.at.Sub(begun))
	}
	m.Pins(s.pins)
	for _, st := range s.stores {
		m.Held(st.tier, st.bytes, st.held, st.leases)
		for state := range pb.ReplicaState_name {
			if state != 0 {
				m.Replicas(st.tier, pb.ReplicaState(state), st.states[pb.ReplicaState(state)])
			}
		}
	}
}

// read reads what lies on tiers. mu is held.
func (s *storeMetrics) read() error {
	byTier := map[string]*store{}
	of := func(tier string) *store {
		if byTier[tier] == nil {
			byTier[tier] = &store{tier: tier, states: map[pb.ReplicaState]int{}}
		}
		return byTier[tier]
	}
	for name := range s.conf().Tiers {
		of(name)
	}
	pins, now := 0, s.clock.Now()
	err := s.ledger.View(func(tx *state.Tx) error {
		for r, err := range state.Replicas.All(tx, state.Range{}) {
			if err == nil {
				r, err = shown(tx, r, now)
			}
			if err != nil {
				return err
			}
			of(r.GetTier()).add(r)
		}
		for p, err := range state.Pins.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			if p.GetUntil().AsTime().After(now) {
				pins++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.pins, s.stores = pins, s.stores[:0]
	for _, st := range byTier {
		s.stores = append(s.stores, *st)
	}
	return nil
}

// add counts a replica.
func (st *store) add(r *pb.Replica) {
	st.states[r.GetState()]++
	st.leases += int(r.GetLeases())
	if r.GetState() == staging {
		return
	}
	st.bytes += r.GetBytes()
	if r.GetLeases() > 0 || r.GetPinnedUntil() != nil {
		st.held += r.GetBytes()
	}
}
