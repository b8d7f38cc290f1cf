package datasetserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset"
)

// What a staging of a dataset needs is known before its first byte. It is compared with what its tier has when it is asked for, and again when it is about to
// begin. Then others go to make room for it, as far as they may, or it ends: nothing is begun that has no room, so that its neighbours do not find the tier full.

// roomPause is how long a staging waits before its room is looked at again.
const roomPause = time.Second

// fitting is whether a replica fits where it is to come.
type fitting struct {
	fit   dataset.Fit
	bytes int64 // of the replica
	room  dataset.Room
	row   *pb.Tier         // of the tier there
	goes  dataset.Eviction // what would make room
}

// fitting judges a replica that is to come. It fits if its size or the room of the tier is unknown. A replica that is there already
// takes no more.
func (s *roomKeeper) fitting(tx *state.Tx, r *pb.Replica, now time.Time) (f fitting, err error) {
	f.fit = dataset.Fits
	t, known := s.conf().Tiers[r.GetTier()]
	if !known || t.S3 != nil || r.GetDataset() == "" || r.GetState() == whole {
		return f, nil
	}
	rooms := s.c.Rooms(r.GetTier(), t.NodeLocal)
	i := slices.IndexFunc(rooms, func(x placement.Room) bool { return x.Node == r.GetNode() && x.GetTotalBytes() > 0 })
	if i < 0 {
		return f, nil
	}
	v, err := findVersion(tx, "stage", r.GetDataset(), r.GetDigest())
	if err != nil {
		return f, err
	}
	f.bytes = v.GetVersion().GetBytes()
	f.row = tierRow(r.GetTier(), t)
	f.row.Node, f.row.TotalBytes, f.row.FreeBytes = r.GetNode(), rooms[i].GetTotalBytes(), rooms[i].GetFreeBytes()
	f.room = dataset.Room{
		TotalBytes: rooms[i].GetTotalBytes(), FreeBytes: rooms[i].GetFreeBytes(), KeepPercent: int(t.KeepFree),
		Stale: !s.current(r.GetTier(), r.GetNode(), rooms[i].At),
	}
	if f.room.ComingBytes, err = s.coming(tx, r); err != nil {
		return f, err
	}
	if f.fit = f.room.Fit(f.bytes, 0); f.fit != dataset.Full {
		return f, nil
	}
	return f, s.evictable(tx, &f, t.Cache != nil, now)
}

// evictable judges anew with what may go, or goes already.
func (s *roomKeeper) evictable(tx *state.Tx, f *fitting, cache bool, now time.Time) error {
	v, err := s.viewOn(tx, now, f.row)
	if err != nil {
		return err
	}
	f.room.LeavingBytes = v.Leaving(f.row)
	if cache {
		f.goes = v.MakeRoom(f.row, f.bytes-f.room.Left())
	}
	f.fit = f.room.Fit(f.bytes, f.goes.Bytes)
	return nil
}

// viewOn is the view for a question about all replicas of a tier, on one node where each has its own.
func (s *roomKeeper) viewOn(tx *state.Tx, now time.Time, row *pb.Tier) (*dataset.View, error) {
	a, err := s.records.replicaFacts(tx, now)
	if err != nil {
		return nil, err
	}
	for r, err := range state.ReplicasByTier.All(tx, state.Range{Prefix: []string{row.GetName(), row.GetNode()}}) {
		if err == nil {
			err = a.version(r)
		}
		if err == nil {
			err = a.where(r)
		}
		if err == nil {
			err = a.holders(r)
		}
		if err != nil {
			return nil, err
		}
	}
	return a.look(), nil
}

// coming are the bytes of stagings that go on where a replica is to come, and that have not written them yet.
func (s *roomKeeper) coming(tx *state.Tx, r *pb.Replica) (bytes int64, err error) {
	type staged struct {
		dataset string
		done    int64
	}
	var all []staged
	s.c.EachRunning(func(t *pb.Task) {
		spec := t.GetSpec()
		if spec.GetStaging().GetTier() == r.GetTier() && task.Of(spec).Shared && (r.GetNode() == "" || spec.GetNode() == r.GetNode()) && t.GetId() != r.GetTask() {
			all = append(all, staged{t.GetDataset(), t.GetProgress().GetBytesDone()})
		}
	})
	for _, x := range all {
		l, err := location.Parse("dataset:" + x.dataset)
		if x.dataset == "" || err != nil {
			continue // a copy of a location, of unknown size
		}
		v, err := findVersion(tx, "stage", l.Name, l.Digest)
		if mover.IgnoreNotExist(err) != nil {
			return 0, err
		}
		bytes += max(0, v.GetVersion().GetBytes()-x.done)
	}
	return bytes, nil
}

// mayCome refuses a replica for which there is no room, and will be none by itself.
func (s *roomKeeper) mayCome(tx *state.Tx, r *pb.Replica, now time.Time) error {
	f, err := s.fitting(tx, r, now)
	if err != nil {
		return err
	}
	return f.refusal(r)
}

// refusal says why a replica can not come; nil is that it can, now or later.
func (f fitting) refusal(r *pb.Replica) error {
	at := r.GetTier()
	if r.GetNode() != "" {
		at += " on " + r.GetNode()
	}
	var why error
	switch f.fit {
	case dataset.TooLarge:
		why = mover.Because(mover.ErrRefused, "it has %s, and %s takes %s at most: of its %s %d%% stay free (keep_free); stage it elsewhere, or read it where it is",
			units.Bytes(f.bytes), at, units.Bytes(f.room.Most()), units.Bytes(f.room.TotalBytes), f.room.KeepPercent)
	case dataset.Full:
		why = mover.Because(mover.ErrFull, "it has %s, and %s has room for %s: %s; make room there, or stage it later", units.Bytes(f.bytes), at, units.Bytes(f.room.Left()), f.taken())
	default:
		return nil
	}
	return &mover.Error{Op: "stage", Location: "dataset:" + r.GetDataset(), Err: why}
}

// taken says what the room of a tier is for.
func (f fitting) taken() string {
	words := []string{units.Bytes(f.room.FreeBytes) + " are free"}
	for _, part := range []struct {
		bytes int64
		what  string
	}{
		{f.room.Kept(), "stay free"}, {f.room.ComingBytes, "are on their way"}, {f.room.LeavingBytes + f.goes.Bytes, "can go"},
		{f.goes.Kept.Leased, "are leased"}, {f.goes.Kept.Pinned, "are pinned"}, {f.goes.Kept.Alone, "are the only copy"},
	} {
		if part.bytes > 0 {
			words = append(words, units.Bytes(part.bytes)+" "+part.what)
		}
	}
	return strings.Join(words, ", ")
}

// makesRoom has others go for a staging that is about to begin for the first time, and says how long it waits for that, or why it can not begin.
func (s *roomKeeper) makesRoom(ctx context.Context, t *pb.Task) (wait time.Duration, why error) {
	var f fitting
	var r *pb.Replica
	err := s.ledger.View(func(tx *state.Tx) (err error) {
		if r, err = stagedBy(tx, t); err == nil {
			f, err = s.fitting(tx, r, s.clock.Now())
		}
		return mover.IgnoreNotExist(err)
	})
	if err != nil {
		s.log.Warn("the room for a staging is not known", "task", t.GetId(), "err", err)
		return roomPause, nil
	}
	switch f.fit {
	case dataset.Evicts:
		if err := s.evict(ctx, f.goes, f.row); err != nil {
			s.log.Warn("no room can be made", "tier", f.row.GetName(), "node", f.row.GetNode(), "err", err)
		}
	case dataset.Waits:
	default:
		return 0, f.refusal(r)
	}
	s.c.Waits(ctx, t, fmt.Sprintf("room is being made for %s on %s", units.Bytes(f.bytes), r.GetTier()))
	return roomPause, nil
}
