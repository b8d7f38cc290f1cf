package burstserver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task/convert"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/lifecycle"
	"datamove.dev/tiering/burst/pricing"
)

// heldBurst is the task of a lead that the caller has, which is one of a burst.
func (s *Server) heldBurst(ctx context.Context, id string, epoch uint64) (*pb.Task, error) {
	t, err := s.o.Coordinator.Assigned(ctx, id, epoch)
	if err == nil && t.GetSpec().GetBurst() == nil {
		err = mover.Usagef("task %s is about no burst", id)
	}
	return t, err
}

// ReadBurst implements agentv1.LinkServiceServer.
func (s *Server) ReadBurst(ctx context.Context, r *agentv1.ReadBurstRequest) (*agentv1.ReadBurstResponse, error) {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	t, err := s.heldBurst(ctx, r.GetTask(), r.GetEpoch())
	if err != nil {
		return nil, err
	}
	work := t.GetSpec().GetBurst()
	all, err := burst.Read("declaration", []byte(work.GetDeclaration()))
	if err != nil {
		return nil, err
	}
	b, out := all[0], &agentv1.ReadBurstResponse{}
	err = s.o.Ledger.View(func(tx *state.Tx) error {
		row, err := newestBurst(tx, work.GetName())
		var since time.Time
		if err == nil && row.GetTeam() == work.GetTeam() { // one of another team is over
			since = row.GetCreateTime().AsTime()
			out.Record, err = textOf(tx, row.GetId())
		}
		if ignoreMissing(err) != nil {
			return err
		}
		out.Leases, err = s.leasesOn(tx, b, since)
		return err
	})
	if err != nil {
		return nil, err
	}
	name, text, err := s.pricesOf(b.Spec.Cloud.Region)
	if err != nil {
		return nil, err
	}
	out.PricesName, out.Prices = name, string(text)
	if name, text, err = s.admissionText(); err != nil {
		return nil, err
	}
	out.AdmissionName, out.Admission = name, string(text)
	return out, nil
}

// KeepBurst implements agentv1.LinkServiceServer.
func (s *Server) KeepBurst(ctx context.Context, r *agentv1.KeepBurstRequest) (*agentv1.KeepBurstResponse, error) {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	t, err := s.heldBurst(ctx, r.GetTask(), r.GetEpoch())
	if err != nil {
		return nil, err
	}
	_, b, err := readRecord(r.GetRecord())
	if err != nil {
		return nil, err
	}
	if string(b.Metadata.Name) != t.GetSpec().GetBurst().GetName() || string(b.Spec.Team) != t.GetSpec().GetBurst().GetTeam() || !convert.ChangesBurst(t.GetSpec()) {
		return nil, mover.Usagef("task %s keeps no record of burst %s of team %s", t.GetId(), b.Metadata.Name, b.Spec.Team)
	}
	return &agentv1.KeepBurstResponse{}, s.putBurst(ctx, fence{t.GetId(), r.GetEpoch()}, r.GetRecord(), func(tx *state.Tx, was *ledgerv1.BurstRecord, r *burst.Record) (*ledgerv1.BurstRecord, error) {
		row, err := s.mayKeep(tx, t, was, r)
		if err == nil && row.GetId() != was.GetId() {
			err = s.admitted(b)
		}
		return row, err
	})
}

// Spend implements agentv1.LinkServiceServer.
func (s *Server) Spend(ctx context.Context, r *agentv1.SpendRequest) (*agentv1.SpendResponse, error) {
	t, err := s.heldBurst(ctx, r.GetTask(), r.GetEpoch())
	if err != nil {
		return nil, err
	}
	team := t.GetSpec().GetBurst().GetTeam()
	err = s.o.Ledger.View(func(tx *state.Tx) error {
		row, err := newestBurst(tx, t.GetSpec().GetBurst().GetName())
		if err == nil && (row.GetId() != r.GetBurst() || row.GetTeam() != team || burst.State(row.GetState()).Ended() || !convert.ChangesBurst(t.GetSpec())) {
			err = mover.Usagef("task %s spends nothing for burst %s", t.GetId(), mover.Printable(r.GetBurst()))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	money, err := s.budgets(ctx)
	if err != nil {
		return nil, err
	}
	out, err := spend(fence{t.GetId(), r.GetEpoch()}.in(ctx), money, team, r)
	var none *budget.CapError
	switch {
	case errors.As(err, &none), errors.Is(err, mover.ErrPermission):
		out.Error, out.ErrorKind = err.Error(), mover.KindName(err)
	case err != nil:
		return nil, err
	}
	return out, nil
}

// spend does what is asked of the money of a team.
func spend(ctx context.Context, money *budget.Ledger, team string, r *agentv1.SpendRequest) (*agentv1.SpendResponse, error) {
	request := budget.Request{Team: team, Burst: r.GetBurst(), Amount: pricing.Money(r.GetMicros()), Why: r.GetWhy(), Key: r.GetKey()}
	var out budget.Outcome
	var err error
	switch r.GetKind() {
	case agentv1.SpendKind_SPEND_KIND_ALLOW:
		return &agentv1.SpendResponse{}, money.Allow(ctx, team, r.GetBurst(), request.Amount)
	case agentv1.SpendKind_SPEND_KIND_RESERVE:
		out, err = money.Reserve(ctx, request)
	case agentv1.SpendKind_SPEND_KIND_CHARGE:
		out, err = money.Charge(ctx, request)
	case agentv1.SpendKind_SPEND_KIND_SETTLE:
		out, err = money.Settle(ctx, request)
	default:
		err = mover.Usagef("money is asked for in no way %v", r.GetKind())
	}
	return &agentv1.SpendResponse{Repeated: out.Repeated, FreedMicros: int64(out.Freed), Warns: out.Warning != nil, Account: accountShown(out.Balance)}, err
}

func accountShown(b budget.Balance) *pb.BurstAccount {
	return &pb.BurstAccount{Team: b.Team, Period: b.Period, CapMicros: int64(b.Cap), SpentMicros: int64(b.Spent), ReservedMicros: int64(b.Reserved), FreeMicros: int64(b.Free)}
}

// Charge charges what runs by the hour, of bursts without a running step, which charges it itself.
func (s *Server) Charge(ctx context.Context) (err error) {
	var rows []*ledgerv1.BurstRecord
	err = s.o.Ledger.View(func(tx *state.Tx) error {
		for row, err := range state.Bursts.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			if !burst.State(row.GetState()).Ended() {
				rows = append(rows, row)
			}
		}
		return nil
	})
	for _, row := range rows {
		if cerr := s.chargeBurst(ctx, row); cerr != nil {
			err = errors.Join(err, &mover.Error{Op: "charge", Location: "burst " + row.GetName(), Err: cerr})
		}
	}
	return err
}

func (s *Server) chargeBurst(ctx context.Context, row *ledgerv1.BurstRecord) error {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	if s.o.Coordinator.BurstTask(row.GetName()) != "" {
		return nil
	}
	var r *burst.Record
	err := s.o.Ledger.View(func(tx *state.Tx) (err error) { r, err = recordOf(tx, row.GetId()); return err })
	if err != nil || len(r.Paid) == 0 {
		return err
	}
	b, err := r.Burst()
	if err != nil {
		return err
	}
	book, err := s.book(b.Spec.Cloud.Region)
	if err != nil {
		return err
	}
	money, err := s.budgets(ctx)
	if err != nil {
		return err
	}
	l := &lifecycle.Manager{Purse: money, Book: book, Now: s.o.Now, Keep: func(r *burst.Record) error { return s.keepCharged(ctx, r) }}
	return l.Charge(ctx, r)
}

// keepCharged keeps the record of a burst that was charged here. recordMu is held.
func (s *Server) keepCharged(ctx context.Context, r *burst.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.putBurst(ctx, fence{}, text, func(_ *state.Tx, was *ledgerv1.BurstRecord, r *burst.Record) (*ledgerv1.BurstRecord, error) {
		if was.GetId() != r.ID || was.GetState() != string(r.State) {
			return nil, &mover.Error{Op: "charge", Location: "burst " + r.ID, Err: mover.ErrChanged}
		}
		return was, nil
	})
}
