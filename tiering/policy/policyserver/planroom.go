package policyserver

import (
	"errors"
	"maps"
	"slices"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

// hasRoom refuses a plan that brings more to a tier than that takes, before its run begins. Of a tier on the disks of nodes, of one that makes room by itself, and
// of one of unknown room, it says nothing.
func (s *Server) hasRoom(head *pb.Plan) error {
	err := s.ledger.View(func(tx *state.Tx) error { _, err := state.Runs.Get(tx, head.GetId()); return err })
	if !errors.Is(err, mover.ErrNotExist) {
		return err // it has begun
	}
	needs, err := s.planNeeds(head.GetId())
	if err != nil {
		return err
	}
	for _, tier := range slices.Sorted(maps.Keys(needs)) {
		t := s.conf().Tiers[tier]
		rooms := s.c.Rooms(tier, false)
		if t.NodeLocal || t.Cache != nil || len(rooms) == 0 || rooms[0].GetTotalBytes() == 0 {
			continue
		}
		room := dataset.Room{TotalBytes: rooms[0].GetTotalBytes(), FreeBytes: rooms[0].GetFreeBytes(), KeepPercent: int(t.KeepFree)}
		if room.Left() < needs[tier] {
			return refusedPlan(head.GetPolicy(), "it brings %s to %s, which has room for %s: %s are free, and %s stay free (keep_free); make room there, or limit the run (limits)",
				units.Bytes(needs[tier]), tier, units.Bytes(room.Left()), units.Bytes(room.FreeBytes), units.Bytes(room.Kept()))
		}
	}
	return nil
}

// planNeeds sums what a plan copies, by tier.
func (s *Server) planNeeds(id string) (needs map[string]int64, err error) {
	f, err := s.openPlan(id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	needs, tiers := map[string]int64{}, map[string]string{}
	for item, err := range f.Items() {
		if err != nil {
			return nil, err
		}
		to := item.GetTarget()
		tier, known := tiers[to]
		if !known {
			l, err := convert.Locate(policy.Target(to))
			if err == nil {
				tier, _, err = placement.TierOf(l, s.conf())
			}
			if err != nil {
				tier = "" // of the disk of another node, or gone
			}
			tiers[to] = tier
		}
		if to != "" && tier != "" {
			needs[tier] += item.GetBytes()
		}
	}
	return needs, nil
}
