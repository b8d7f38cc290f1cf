package datasetserver

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

// grant gives the caller a hold on what is there.
func (s *Server) grant(tx *state.Tx, o *order, r *pb.Replica, out *pb.StageResponse, now time.Time) error {
	out.Replica = r
	if err := s.access.mayHave(tx, o.caller, o.asked.GetProject(), r); err != nil {
		return err
	}
	if err := s.keep(tx, o.caller, o.key, o.asked); err != nil {
		return err
	}
	if o.pin != nil {
		if err := s.putPin(tx, o.caller, o.pinOn(r), now); err != nil {
			return err
		}
	}
	if o.ttl == 0 {
		return nil
	}
	var err error
	if out.Lease, err = lasting(tx, o.lease, r, now); out.Lease != nil || err != nil { // of the same request, before
		return err
	}
	if err := s.mayLease(tx, now, authz.AccountOf(o.caller), r); err != nil {
		return err
	}
	if err := s.c.MayHold(o.caller, quota.Leases); err != nil {
		return err
	}
	out.Lease = newLease(o.lease, r, o.holder, authz.AccountOf(o.caller), now, o.ttl)
	out.Lease.Labels = o.asked.GetLabels()
	return s.records.putLease(tx, out.Lease)
}

// join has the caller wait for a staging that is under way.
func (s *Server) join(tx *state.Tx, o *order, r *pb.Replica, out *pb.StageResponse) (err error) {
	if out.Task, err = state.Tasks.Get(tx, r.GetTask()); err != nil {
		return err
	}
	if !authz.IsOwner(out.GetTask().GetOwner(), o.caller) { // its owner reads the source anyway
		if err := s.access.mayHave(tx, o.caller, o.asked.GetProject(), r); err != nil {
			return err
		}
	}
	out.Replica = r
	if err := idempotency.Put(tx, authz.AccountOf(o.caller), o.key, o.asked, r.GetTask(), timestamppb.New(s.now())); err != nil {
		return err
	}
	if err := s.wish(tx, o, r); err != nil {
		return err
	}
	if o.resumes, err = s.c.HandOn(tx, out.GetTask()); !o.resumes || err != nil {
		return err
	}
	return state.Tasks.Put(tx, out.GetTask())
}

// wish remembers what the caller wants as soon as the replica is whole.
func (s *Server) wish(tx *state.Tx, o *order, r *pb.Replica) error {
	if _, err := lasting(tx, o.lease, r, s.clock.Now()); err != nil {
		return err
	}
	w := &ledgerv1.Wish{Task: r.GetTask()}
	w.Lease = newLease(o.lease, r, o.holder, authz.AccountOf(o.caller), s.now(), 0)
	w.Lease.ExpireTime, w.Lease.Labels = nil, o.asked.GetLabels()
	if o.ttl > 0 {
		w.Ttl = durationpb.New(o.ttl)
	}
	if o.pin != nil {
		w.Pin = o.pinOn(r)
	}
	wishes, err := state.Collect(state.StageWaiters.All(tx, state.Range{Prefix: []string{r.GetTask()}}))
	if err != nil {
		return err
	}
	wishes = slices.DeleteFunc(wishes, func(w *ledgerv1.Wish) bool { return !authz.IsOwner(w.GetLease().GetOwner(), o.caller) })
	if n := len(wishes); n >= LeasesMost {
		return &mover.Error{Op: "stage", Location: r.GetLocation(), Err: fmt.Errorf("%w: %s waits %d times for it; cancel some", mover.ErrRefused, mover.Printable(authz.NameOf(o.caller)), n)}
	}
	if err := s.c.MayHold(o.caller, quota.Leases); err != nil {
		return err
	}
	return state.StageWaiters.Put(tx, w)
}
