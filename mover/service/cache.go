package service

import (
	"context"
	"errors"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/task"
	"datamove.dev/tiering"
)

// evictedLabel is on tasks that make room: the tier.
const evictedLabel = "evicts-from"

// shelfRoom is how full a tier is, on a node if each has one.
type shelfRoom struct {
	*agentv1.Room
	node string
	at   time.Time // when its agent said so
}

// rooms is how full a tier is on each node that has one, or by whoever spoke last.
func (s *Service) rooms(tier string, local bool) (rooms []shelfRoom) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.agents {
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

// keepCaches makes room on tiers that are fuller than they should be.
func (s *Service) keepCaches(ctx context.Context) {
	for name, t := range s.conf().Tiers {
		if t.Cache == nil {
			continue
		}
		for _, room := range s.rooms(name, t.NodeLocal) {
			if !room.at.After(s.freed(name, room.node).Add(roomLag)) {
				continue // what was removed last may still be counted
			}
			row := tierRow(name, t)
			row.Node, row.TotalBytes, row.FreeBytes = room.node, room.GetTotalBytes(), room.GetFreeBytes()
			if err := s.evict(ctx, row, marksOf(t.Cache)); err != nil {
				s.log.Warn("no room can be made", "tier", name, "node", room.node, "err", err)
			}
		}
	}
}

func marksOf(c *config.Cache) tiering.Watermarks {
	return tiering.Watermarks{High: int(c.High), Low: int(c.Low)}
}

// roomLag is how old a word about the room of a tier can be.
const roomLag = 3 * time.Second

// evict removes from a tier that is too full what may go.
func (s *Service) evict(ctx context.Context, row *pb.Tier, marks tiering.Watermarks) error {
	if !tooFull(row, marks) {
		return nil
	}
	var tasks []*pb.Task
	var e tiering.Eviction
	err := s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) error {
		tasks = nil
		now, err := s.moment(tx)
		if err != nil {
			return err
		}
		v, err := s.view(tx, now)
		if err != nil {
			return err
		}
		e = v.Evict(row, marks)
		for _, r := range e.Replicas[:min(len(e.Replicas), removalsMost)] {
			t, err := s.evicts(tx, row, r)
			if errors.Is(err, mover.ErrRefused) { // nobody can look at its other copy
				continue
			}
			if err != nil {
				return err
			}
			tasks = append(tasks, t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		s.log.Info("a replica makes room", "task", t.GetId(), "dataset", t.GetDataset(), "location", t.GetSpec().GetTarget(), "node", row.GetNode())
		s.submitted(ctx, t)
	}
	s.blocked(row, e)
	return nil
}

// evicts makes the task that removes a replica to make room. From where nothing else is
// promised it just goes; elsewhere its other copy is looked at first.
func (s *Service) evicts(tx *ledger.Tx, row *pb.Tier, r *pb.Replica) (*pb.Task, error) {
	t := s.byMaker(r, map[string]string{evictedLabel: row.GetName()})
	if row.GetEphemeral() {
		return s.removes(tx, t, r)
	}
	return s.releases(tx, t, r, func(string) error { return nil })
}

// tooFull says whether a look at the replicas of a tier is worth it.
func tooFull(row *pb.Tier, marks tiering.Watermarks) bool {
	used := float64(row.GetTotalBytes() - row.GetFreeBytes())
	return row.GetTotalBytes() > 0 && used*100 > float64(max(marks.High, 1))*float64(row.GetTotalBytes())
}

// blocked says that nothing could be done where something has to be.
func (s *Service) blocked(row *pb.Tier, e tiering.Eviction) {
	if e.Short == 0 || len(e.Replicas) > 0 {
		return
	}
	s.o.Metrics.EvictionBlocked(row.GetName())
	s.log.Warn("a tier is too full, and nothing may be evicted", "tier", row.GetName(), "node", row.GetNode(), "short", e.Short,
		"leased", e.Kept.Leased, "pinned", e.Kept.Pinned, "busy", e.Kept.Busy, "alone", e.Kept.Alone, "other", e.Kept.Other)
}

// evicted notes that a replica is gone.
func (s *Service) evicted(t *pb.Task, r *pb.Replica) {
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

// freed is when a replica on a tier has gone last.
func (s *Service) freed(tier, node string) time.Time {
	s.freedMu.Lock()
	defer s.freedMu.Unlock()
	return s.freedAt[tier+"\x00"+node]
}
