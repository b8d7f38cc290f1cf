package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/dataset"
)

// evictedLabel is on tasks that make room: the tier.
const evictedLabel = "evicts-from"

// shelfRoom is how full a tier is, on a node if each has one.
type shelfRoom struct {
	*agentv1.Room
	node string
	at   time.Time // when its agent said so
}

// rooms is how full a tier is: for a node-local tier on each node, else by the latest report of an agent.
func (s *datasetServer) rooms(tier string, local bool) (rooms []shelfRoom) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	for _, n := range s.c.scheduler.agents {
		r := n.room[tier]
		switch {
		case r == nil || n.orders == nil:
		case local:
			rooms = append(rooms, shelfRoom{r, n.name, n.seen})
		case len(rooms) == 0:
			rooms = append(rooms, shelfRoom{r, "", n.seen})
		case n.seen.After(rooms[0].at):
			rooms[0] = shelfRoom{r, "", n.seen}
		}
	}
	return rooms
}

// evictShare is the part of the time, one of so many, in which is looked for what may go.
const evictShare = 20

// keepCaches makes room on tiers that are fuller than they should be.
func (s *datasetServer) keepCaches(ctx context.Context) {
	var v *dataset.View // of all that there is, for all tiers
	if time.Now().Before(s.evictAfter) {
		return
	}
	for name, t := range s.conf().Tiers {
		if t.Cache == nil {
			continue
		}
		for _, room := range s.rooms(name, t.NodeLocal) {
			row := tierRow(name, t)
			row.Node, row.TotalBytes, row.FreeBytes = room.node, room.GetTotalBytes(), room.GetFreeBytes()
			if !tooFull(row, marksOf(t.Cache)) || !room.at.After(s.freed(name, room.node).Add(roomLag)) {
				continue // or what was removed last may still be counted
			}
			var err error
			if v == nil {
				begun := time.Now()
				v, err = s.viewAll()
				s.evictAfter = begun.Add(evictShare * time.Since(begun))
			}
			if err == nil {
				err = s.evict(ctx, v.Evict(row, marksOf(t.Cache)), row)
			}
			if err != nil {
				s.log.Warn("no room can be made", "tier", name, "node", room.node, "err", err)
			}
		}
	}
}

// viewAll is the view of what could be evicted. It takes as long as there is much, and
// others go on meanwhile.
func (s *datasetServer) viewAll() (v *dataset.View, err error) {
	err = s.ledger.View(func(tx *state.Tx) error {
		v, err = s.c.agents.view(tx, s.clock.now())
		return err
	})
	return v, err
}

func marksOf(c *config.Cache) dataset.Watermarks {
	return dataset.Watermarks{High: int(c.High), Low: int(c.Low)}
}

// roomLag is how old a word about the room of a tier can be.
const roomLag = 3 * time.Second

// evict removes from a tier that is too full what was chosen to go.
func (s *datasetServer) evict(ctx context.Context, e dataset.Eviction, row *pb.Tier) error {
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
func (s *datasetServer) evictSome(ctx context.Context, row *pb.Tier, chosen []*pb.Replica) error {
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
		s.c.submitted(ctx, t)
	}
	return nil
}

// refused says whether an error is the answer of a rule, and not a failure.
func refused(err error) bool {
	return errors.Is(err, mover.ErrRefused) || errors.Is(err, mover.ErrHeld) || errors.Is(err, mover.ErrConflict) || errors.Is(err, mover.ErrNotExist)
}

// evicts makes the task that removes a replica to make room. From where nothing else is
// promised it just goes; elsewhere its other copy is looked at first.
func (s *datasetServer) evicts(tx *state.Tx, row *pb.Tier, r *pb.Replica) (*pb.Task, error) {
	r, err := getReplica(tx, r) // it may have been used meanwhile
	if err == nil {
		err = s.mayEvict(tx, r, "")
	}
	if err != nil {
		return nil, err
	}
	t := s.byMaker(r, map[string]string{evictedLabel: row.GetName()})
	if row.GetEphemeral() {
		return s.removes(tx, t, r)
	}
	return s.releases(tx, t, r, func(string) error { return nil })
}

// tooFull says whether a look at the replicas of a tier is worth it.
func tooFull(row *pb.Tier, marks dataset.Watermarks) bool {
	used := float64(row.GetTotalBytes() - row.GetFreeBytes())
	return row.GetTotalBytes() > 0 && used*100 > float64(max(marks.High, 1))*float64(row.GetTotalBytes())
}

// blocked says that nothing could be done where something has to be.
func (s *datasetServer) blocked(row *pb.Tier, e dataset.Eviction) {
	if e.Short == 0 || len(e.Replicas) > 0 {
		return
	}
	s.o.Metrics.EvictionBlocked(row.GetName())
	s.log.Warn("a tier is too full, and nothing may be evicted", "tier", row.GetName(), "node", row.GetNode(), "short", e.Short,
		"leased", e.Kept.Leased, "pinned", e.Kept.Pinned, "busy", e.Kept.Busy, "alone", e.Kept.Alone, "other", e.Kept.Other)
}

// evicted notes that a replica is gone.
func (s *datasetServer) evicted(t *pb.Task, r *pb.Replica) {
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
func (s *datasetServer) came(r *pb.Replica) {
	s.freedMu.Lock()
	defer s.freedMu.Unlock()
	s.cameAt[r.GetTier()+"\x00"+r.GetNode()] = s.now()
}

// current says whether all that has come to a tier, and all that has gone, is counted in a word of then about its room.
func (s *datasetServer) current(tier, node string, then time.Time) bool {
	s.freedMu.Lock()
	defer s.freedMu.Unlock()
	key := tier + "\x00" + node
	return then.After(s.freedAt[key].Add(roomLag)) && then.After(s.cameAt[key].Add(roomLag))
}

// freed is when a replica on a tier has gone last.
func (s *datasetServer) freed(tier, node string) time.Time {
	s.freedMu.Lock()
	defer s.freedMu.Unlock()
	return s.freedAt[tier+"\x00"+node]
}
