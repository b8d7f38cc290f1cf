package datasetserver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/dataset"
)

// roomKeeper makes room on tiers: for what is to come, and where they are fuller than they should be.
type roomKeeper struct {
	*core
	evictAfter time.Time // of the chore alone: not again before

	freedMu sync.Mutex
	freedAt map[string]time.Time // when a replica has gone last, by tier and node; guarded by freedMu
	cameAt  map[string]time.Time // when a staging has ended last; guarded by freedMu
}

// evictedLabel is on tasks that make room: the tier.
const evictedLabel = "evicts-from"

// evictShare is the part of the time, one of so many, in which is looked for what may go.
const evictShare = 20

// keepCaches makes room on tiers that are fuller than they should be.
func (s *roomKeeper) keepCaches(ctx context.Context) {
	var v *dataset.View // of all that there is, for all tiers
	if time.Now().Before(s.evictAfter) {
		return
	}
	for name, t := range s.conf().Tiers {
		if t.Cache == nil {
			continue
		}
		for _, room := range s.c.Rooms(name, t.NodeLocal) {
			if !room.At.After(s.freed(name, room.Node).Add(RoomLag)) {
				continue // what was removed last may still be counted
			}
			row := tierRow(name, t)
			row.Node, row.TotalBytes, row.FreeBytes = room.Node, room.GetTotalBytes(), room.GetFreeBytes()
			err := s.makeRoom(ctx, row, marksOf(t.Cache), func() (*dataset.View, error) {
				if v != nil {
					return v, nil
				}
				begun := time.Now()
				all, err := s.viewAll()
				if s.evictAfter = begun.Add(evictShare * time.Since(begun)); err == nil {
					v = all
				}
				return all, err
			})
			if err != nil {
				s.log.Warn("no room can be made", "tier", name, "node", room.Node, "err", err)
			}
		}
	}
}

// makeRoom evicts from a tier that is fuller than its marks. It asks for a view only then.
func (s *roomKeeper) makeRoom(ctx context.Context, row *pb.Tier, marks dataset.Watermarks, view func() (*dataset.View, error)) error {
	if !tooFull(row, marks) {
		return nil
	}
	v, err := view()
	if err != nil {
		return err
	}
	return s.evict(ctx, v.Evict(row, marks), row)
}

// viewAll is the view of what could be evicted. It takes as long as there is much, and
// others go on meanwhile.
func (s *roomKeeper) viewAll() (v *dataset.View, err error) {
	err = s.ledger.View(func(tx *state.Tx) error {
		v, err = s.records.view(tx, s.clock.Now())
		return err
	})
	return v, err
}

func marksOf(c *config.Cache) dataset.Watermarks {
	return dataset.Watermarks{High: int(c.High), Low: int(c.Low)}
}

// RoomLag is how old a word about the room of a tier can be.
const RoomLag = 3 * time.Second

// evict removes from a tier that is too full what was chosen to go.
func (s *roomKeeper) evict(ctx context.Context, e dataset.Eviction, row *pb.Tier) error {
	s.blocked(row, e)
	for chosen := range slices.Chunk(e.Replicas[:min(len(e.Replicas), removalsMost)], evictionsAtOnce) {
		if err := s.evictSome(ctx, row, chosen); err != nil {
			return err
		}
	}
	return nil
}

// evictionsAtOnce are begun in one change.
const evictionsAtOnce = 20

// evictSome submits the removal of the chosen replicas. It skips those that are needed by now.
func (s *roomKeeper) evictSome(ctx context.Context, row *pb.Tier, chosen []*pb.Replica) error {
	var tasks []*pb.Task
	err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		tasks = nil
		for _, r := range chosen {
			switch t, err := s.evicts(tx, row, r); {
			case refused(err): // it is needed, or no agent can check its other copy
			case err != nil:
				return err
			default:
				tasks = append(tasks, t)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		s.log.Info("a replica makes room", "task", t.GetId(), "dataset", t.GetDataset(), "location", t.GetSpec().GetTarget(), "node", row.GetNode())
		s.c.Submitted(ctx, t)
	}
	return nil
}

// refused says whether an error is the answer of a rule, and not a failure.
func refused(err error) bool {
	return errors.Is(err, mover.ErrRefused) || errors.Is(err, mover.ErrHeld) || errors.Is(err, mover.ErrConflict) || errors.Is(err, mover.ErrNotExist)
}

// evicts makes the task that removes a replica to make room. From where nothing else is
// promised it just goes; elsewhere its other copy is looked at first.
func (s *roomKeeper) evicts(tx *state.Tx, row *pb.Tier, r *pb.Replica) (*pb.Task, error) {
	r, err := getReplica(tx, r) // it may have been used meanwhile
	if err == nil {
		err = s.server.mayEvict(tx, r, "")
	}
	if err != nil {
		return nil, err
	}
	t := s.server.byMaker(r, map[string]string{evictedLabel: row.GetName()})
	if row.GetEphemeral() {
		return s.server.removes(tx, t, r)
	}
	return s.server.releases(tx, t, r, func(string) error { return nil })
}

// tooFull says whether a look at the replicas of a tier is worth it.
func tooFull(row *pb.Tier, marks dataset.Watermarks) bool {
	used := float64(row.GetTotalBytes() - row.GetFreeBytes())
	return row.GetTotalBytes() > 0 && used*100 > float64(max(marks.High, 1))*float64(row.GetTotalBytes())
}

// blocked says that nothing could be done where something has to be.
func (s *roomKeeper) blocked(row *pb.Tier, e dataset.Eviction) {
	if e.Short == 0 || len(e.Replicas) > 0 {
		return
	}
	s.o.Metrics.EvictionBlocked(row.GetName())
	s.log.Warn("a tier is too full, and nothing may be evicted", "tier", row.GetName(), "node", row.GetNode(), "short", e.Short,
		"leased", e.Kept.Leased, "pinned", e.Kept.Pinned, "busy", e.Kept.Busy, "alone", e.Kept.Alone, "other", e.Kept.Other)
}

// evicted notes that a replica is gone.
func (s *roomKeeper) evicted(t *pb.Task, r *pb.Replica) {
	if t.GetState() != task.Done {
		return
	}
	if t.GetSpec().GetLabels()[evictedLabel] != "" {
		s.o.Metrics.Evicted(r.GetTier(), r.GetBytes())
	}
	s.freedMu.Lock()
	defer s.freedMu.Unlock()
	s.freedAt[r.GetTier()+"\x00"+r.GetNode()] = s.now()
}

// came notes that a staging has ended.
func (s *roomKeeper) came(r *pb.Replica) {
	s.freedMu.Lock()
	defer s.freedMu.Unlock()
	s.cameAt[r.GetTier()+"\x00"+r.GetNode()] = s.now()
}

// current says whether all that has come to a tier, and all that has gone, is counted in a word of then about its room.
func (s *roomKeeper) current(tier, node string, then time.Time) bool {
	s.freedMu.Lock()
	defer s.freedMu.Unlock()
	key := tier + "\x00" + node
	return then.After(s.freedAt[key].Add(RoomLag)) && then.After(s.cameAt[key].Add(RoomLag))
}

// freed is when a replica on a tier has gone last.
func (s *roomKeeper) freed(tier, node string) time.Time {
	s.freedMu.Lock()
	defer s.freedMu.Unlock()
	return s.freedAt[tier+"\x00"+node]
}
