package datasetserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

const (
	reasonMost = 1 << 10 // bytes of why something is pinned
	pinMost    = 100 * 365 * 24 * time.Hour
)

// Pin implements pb.DatasetServiceServer.
func (s *Server) Pin(ctx context.Context, r *pb.PinRequest) (p *pb.PinInfo, err error) {
	c := authz.From(ctx)
	l, err := parseDataset(r.GetSource())
	if err != nil {
		return nil, err
	}
	if len(r.GetReason()) > reasonMost {
		return nil, mover.Usagef("a reason of %d bytes; at most %d", len(r.GetReason()), reasonMost)
	}
	if _, known := s.conf().Tiers[r.GetTier()]; r.GetTier() != "" && !known {
		return nil, placement.NoTier("pin", r.GetTier(), s.conf())
	}
	key := r.GetIdempotencyKey()
	if err := idempotency.Check(key); err != nil {
		return nil, err
	}
	asked := &pb.TaskSpec{Source: r.GetSource(), Target: r.GetTier(), Staging: &pb.Staging{PinUntil: r.GetUntil(), Holder: r.GetReason()}}
	p = &pb.PinInfo{Dataset: l.Name, Digest: l.Digest, Tier: r.GetTier(), Until: r.GetUntil(), Reason: r.GetReason(), Owner: authz.AccountOf(c)}
	return p, s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		if known, err := idempotency.Known(tx, c, key, asked); err != nil || known {
			return err // whatever became of it
		}
		now, err := s.records.moment(tx)
		if err == nil {
			err = pinUntil(p.GetUntil(), now)
		}
		if err != nil {
			return err
		}
		if _, err := findVersion(tx, "pin", l.Name, l.Digest); err != nil {
			return err
		}
		if _, err := s.ownDataset(tx, c, pb.DatasetService_Pin_FullMethodName, l.Name); err != nil {
			return err
		}
		return errors.Join(s.putPin(tx, c, p, now), s.keep(tx, c, key, asked))
	})
}

// pinUntil checks the date of a pin.
func pinUntil(until *timestamppb.Timestamp, now time.Time) error {
	if err := until.CheckValid(); err != nil {
		return mover.Usagef("a pin needs a date: %v", err)
	}
	if t := until.AsTime(); !t.After(now) || t.After(now.Add(pinMost)) {
		return mover.Usagef("a pin until %s, where it is %s now", t.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// putPin replaces a pin. To shorten one, the caller needs the right to remove it.
func (s *Server) putPin(tx *state.Tx, c authz.Caller, p *pb.PinInfo, now time.Time) error {
	was, err := state.Pins.Get(tx, p.GetDataset(), p.GetDigest(), p.GetTier())
	if mover.IgnoreNotExist(err) != nil {
		return err
	}
	if err == nil && was.GetUntil().AsTime().After(now) && was.GetUntil().AsTime().After(p.GetUntil().AsTime()) {
		if err := s.rules().MayOn(c, authz.OfMethod(pb.DatasetService_Unpin_FullMethodName), authz.OwnerOf(was.GetOwner(), "")).Err(); err != nil {
			return &mover.Error{Op: "pin", Location: "dataset:" + p.GetDataset(), Err: fmt.Errorf("%s has pinned it until %s: %w",
				authz.NameOfAccount(was.GetOwner()), was.GetUntil().AsTime().Format(time.RFC3339), err)}
		}
	}
	return state.Pins.Put(tx, p)
}

// Unpin implements pb.DatasetServiceServer.
func (s *Server) Unpin(ctx context.Context, r *pb.UnpinRequest) (*pb.UnpinResponse, error) {
	c := authz.From(ctx)
	l, err := parseDataset(r.GetSource())
	if err != nil {
		return nil, err
	}
	return &pb.UnpinResponse{}, s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		p, err := state.Pins.Get(tx, l.Name, l.Digest, r.GetTier())
		if err != nil {
			return mover.IgnoreNotExist(err)
		}
		project := ""
		if d, err := state.Datasets.Get(tx, l.Name); err == nil {
			project = d.GetProject()
		}
		if err := s.rules().MayOn(c, authz.OfMethod(pb.DatasetService_Unpin_FullMethodName), authz.OwnerOf(p.GetOwner(), project)).Err(); err != nil {
			return err
		}
		return state.Pins.Delete(tx, l.Name, l.Digest, r.GetTier())
	})
}

// ListPins implements pb.DatasetServiceServer.
func (s *Server) ListPins(ctx context.Context, r *pb.ListPinsRequest) (*pb.ListPinsResponse, error) {
	now := s.clock.Now()
	out := &pb.ListPinsResponse{}
	return out, s.ledger.View(func(tx *state.Tx) (err error) {
		of := state.Range{After: r.GetPageToken()}
		if r.GetDataset() != "" {
			of.Prefix = []string{r.GetDataset()}
		}
		lasting := func(p *pb.PinInfo) bool { return p.GetUntil() == nil || p.GetUntil().AsTime().After(now) }
		out.Pins, out.NextPageToken, err = state.Page(ctx, state.Pins.All(tx, of), lasting, state.PageSize(r.GetPageSize()), state.Pins.Token)
		return err
	})
}

// EndPins forgets pins that have expired.
func (s *Server) EndPins(ctx context.Context) error {
	return s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
		pins, err := state.Collect(state.Pins.All(tx, state.Range{}))
		if err != nil {
			return err
		}
		now := s.clock.Now()
		for _, p := range pins {
			if p.GetUntil() != nil && !p.GetUntil().AsTime().After(now) {
				if err := state.Pins.Delete(tx, p.GetDataset(), p.GetDigest(), p.GetTier()); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
