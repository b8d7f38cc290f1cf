package datasetserver

import (
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy/treecontext"
)

// treeFacts finds the replicas, leases and checkpoints at a location, or in a tree.
type records struct {
	*core
	spots  replicaIndex
	before levelsBefore
}

// tree reads the facts about a tree.
func (s *records) tree(tree catalog.Tree) (facts *treecontext.Context, err error) {
	o := treecontext.Options{Tier: s.conf().Tiers[tree.Tier], Project: s.rules().ProjectOf}
	if s.o.Catalog != nil {
		state, err := s.o.Catalog.State(tree)
		if err != nil {
			return nil, err
		}
		o.Reads = state.Reads
	}
	err = s.ledger.View(func(tx *state.Tx) error {
		v, err := s.view(tx, s.clock.Now())
		if err != nil {
			return err
		}
		facts, err = treecontext.Read(tx, tree, v, o)
		return err
	})
	return facts, err
}
