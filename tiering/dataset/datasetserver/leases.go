package datasetserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task/convert"
	"datamove.dev/tiering/dataset"
)

// LeasesMost is how many leases one account may have on one replica, and as many that it waits for.
const LeasesMost = 10_000

const (
	holderMost = 256 // bytes of the name of a holder
)

// holderOf checks the requested holder of a lease; empty is the caller.
func holderOf(holder string, c authz.Caller) (string, error) {
	switch {
	case holder == "":
		return authz.NameOf(c), nil
	case len(holder) > holderMost || mover.Printable(holder) != holder:
		return "", mover.Usagef("the holder of a lease is a word of at most %d letters, like slurm:1234", holderMost)
	case strings.HasPrefix(holder, state.TaskHolder):
		return "", mover.Usagef("%s is for tasks of this service", holder)
	}
	return holder, nil
}

// newLease is a lease on a replica from now on.
func newLease(id string, r *pb.Replica, holder string, owner *pb.Account, now time.Time, ttl time.Duration) *pb.Lease {
	return &pb.Lease{
		Id: id, Dataset: r.GetDataset(), Digest: r.GetDigest(), Tier: r.GetTier(), Node: r.GetNode(), Location: r.GetLocation(),
		Holder: holder, Owner: owner, CreateTime: timestamppb.New(now), ExpireTime: timestamppb.New(now.Add(ttl)),
	}
}

// AcquireLease implements pb.DatasetServiceServer.
func (s *Server) AcquireLease(ctx context.Context, r *pb.AcquireLeaseRequest) (l *pb.Lease, err error) {
	c := authz.From(ctx)
	ttl, err := dataset.TTL(r.GetTtl())
	if err != nil {
		return nil, err
	}
	holder, err := holderOf(r.GetHolder(), c)
	if err != nil {
		return nil, err
	}
	key := r.GetIdempotencyKey()
	if err := idempotency.Check(key); err != nil {
		return nil, err
	}
	if err := errors.Join(convert.CheckLabels(r.GetLabels()), s.checkLabels(c, r.GetLabels())); err != nil {
		return nil, err
	}
	asked := &pb.TaskSpec{Source: tag(r.GetDataset(), r.GetDigest()), Target: r.GetTier(), Node: r.GetNode(), Labels: r.GetLabels(), Staging: &pb.Staging{Holder: r.GetHolder(), LeaseTtl: r.GetTtl()}}
	err = s.access.updateWithProbe(ctx, func(tx *state.Tx) error {
		now, err := s.records.moment(tx)
		if err != nil {
			return err
		}
		id := idempotency.ID(c, key, s.now())
		known, err := idempotency.Known(tx, c, key, asked)
		if err != nil {
			return err
		}
		if known {
			if l, err = lasting(tx, id, nil, now); l != nil || err != nil {
				return err
			}
		}
		x, err := s.records.present(tx, "lease", r.GetDataset(), r.GetDigest(), r.GetTier(), s.records.nodeOf(r.GetTier(), r.GetNode(), c))
		if err != nil {
			return err
		}
		if err := s.access.mayHave(tx, c, "", x); err != nil {
			return err
		}
		if doubtful(x) {
			return &mover.Error{Op: "lease", Location: x.GetLocation(), Err: mover.Because(mover.ErrConflict, "nobody knows any more what is there; stage it again, which mends it")}
		}
		if err := s.mayLease(tx, now, authz.AccountOf(c), x); err != nil {
			return err
		}
		if l, err = lasting(tx, id, x, now); l != nil || err != nil {
			return err
		}
		if err := s.c.MayHold(c, quota.Leases); err != nil {
			return err
		}
		l = newLease(id, x, holder, authz.AccountOf(c), now, ttl)
		l.Labels = r.GetLabels()
		return errors.Join(s.records.putLease(tx, l), s.keep(tx, c, key, asked))
	})
	return l, err
}

// isLeaseID reports whether a text can be what leaseID makes, with a key or without.
func isLeaseID(id string) bool {
	return len(id) == 20 && !strings.ContainsFunc(id, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') })
}

// lasting returns a lease if it lasts. One on another replica than r is an error: its id
// comes of a key that was used for something else.
func lasting(tx *state.Tx, id string, r *pb.Replica, now time.Time) (*pb.Lease, error) {
	l, err := state.Leases.Get(tx, id)
	if err != nil || dataset.Expired(l, now) {
		return nil, mover.IgnoreNotExist(err)
	}
	if r != nil && !slices.Equal(state.ReplicaKey(l), state.ReplicaKey(r)) {
		return nil, &mover.Error{Op: "lease", Location: r.GetLocation(), Err: fmt.Errorf("%w: the idempotency key was used for a lease on %s", mover.ErrConflict, mover.Printable(l.GetLocation()))}
	}
	return l, nil
}

// mayLease says why an account can not hold a replica.
func (s *Server) mayLease(tx *state.Tx, now time.Time, owner *pb.Account, r *pb.Replica) error {
	v, err := s.records.viewOf(tx, now, r.GetDataset(), r.GetDigest())
	if err == nil {
		err = v.MayLease(r)
	}
	if err == nil {
		err = crowded(tx, owner, r)
	}
	return err
}

// crowded refuses an account more leases on a replica than a component can look through. Those of other accounts do not count.
func crowded(tx *state.Tx, owner *pb.Account, r *pb.Replica) error {
	n := 0
	for l, err := range state.LeasesByReplica.All(tx, state.Range{Prefix: state.ReplicaKey(r)}) {
		if err != nil {
			return err
		}
		if proto.Equal(l.GetOwner(), owner) {
			n++
		}
	}
	if n >= LeasesMost {
		return &mover.Error{Op: "lease", Location: r.GetLocation(), Err: fmt.Errorf("%w: %s has %d leases on it; drop some", mover.ErrRefused, mover.Printable(authz.NameOfAccount(owner)), n)}
	}
	return nil
}

// getLease returns a lease that the caller may do something to.
func (s *Server) getLease(tx *state.Tx, c authz.Caller, method, id string) (*pb.Lease, error) {
	l, err := state.Leases.Get(tx, id)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(l.GetHolder(), state.TaskHolder) {
		return nil, &mover.Error{Op: "change", Location: "lease " + l.GetId(), Err: fmt.Errorf("%w: it ends with its %s", mover.ErrConflict, l.GetHolder())}
	}
	return l, s.rules().MayOn(c, authz.OfMethod(method), authz.OwnerOf(l.GetOwner(), "")).Err()
}

// RenewLease implements pb.DatasetServiceServer.
func (s *Server) RenewLease(ctx context.Context, r *pb.RenewLeaseRequest) (l *pb.Lease, err error) {
	ttl, err := dataset.TTL(r.GetTtl())
	if err != nil {
		return nil, err
	}
	err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		now, err := s.records.moment(tx)
		if err != nil {
			return err
		}
		l, err = s.getLease(tx, authz.From(ctx), pb.DatasetService_RenewLease_FullMethodName, r.GetId())
		if errors.Is(err, mover.ErrNotExist) {
			err = &mover.Error{Op: "renew", Location: "lease " + mover.Printable(r.GetId()), Err: fmt.Errorf("%w: it has ended; acquire a new one", mover.ErrNotExist)}
		}
		if err != nil {
			return err
		}
		end, err := dataset.Renewed(l, now, ttl)
		if err != nil {
			return err
		}
		l.ExpireTime = timestamppb.New(end)
		return s.records.putLease(tx, l)
	})
	return l, err
}

// DropLease implements pb.DatasetServiceServer.
func (s *Server) DropLease(ctx context.Context, r *pb.DropLeaseRequest) (*pb.DropLeaseResponse, error) {
	if !isLeaseID(r.GetId()) { // one that has ended is no error, and this can be none
		return nil, &mover.Error{Op: "find", Location: "lease " + mover.Printable(r.GetId()), Err: mover.ErrNotExist}
	}
	return &pb.DropLeaseResponse{}, s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		l, err := s.getLease(tx, authz.From(ctx), pb.DatasetService_DropLease_FullMethodName, r.GetId())
		if err != nil {
			return mover.IgnoreNotExist(err)
		}
		now, err := s.records.moment(tx)
		if err != nil {
			return err
		}
		if dataset.Expired(l, now) {
			now = l.GetExpireTime().AsTime()
		}
		return s.records.endLease(tx, l, now)
	})
}

// endLease ends a lease; the replica was of use until then.
func (s *records) endLease(tx *state.Tx, l *pb.Lease, now time.Time) error {
	if err := state.Leases.Delete(tx, l.GetId()); err != nil {
		return err
	}
	return s.wasUsed(tx, l, now)
}
