package enroll

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/pki"
)

// Certificates of people end by themselves: after a month, or after what is asked for, up to a year.
const (
	PersonLife = 30 * 24 * time.Hour
	PersonMost = 366 * 24 * time.Hour
)

// IssueIdentity implements pb.AdminServiceServer. The configuration says which account a name is of: a certificate alone makes no person known.
func (s *Server) IssueIdentity(_ context.Context, r *pb.IssueIdentityRequest) (*pb.IssuedIdentity, error) {
	if s.o.Authority == nil {
		return nil, fmt.Errorf("%w: this service has no tcp:// address, so no person can call it from another machine", mover.ErrUnsupported)
	}
	account, known := s.o.Rules().Person(r.GetName())
	if !known {
		return nil, mover.Usagef("issue an identity for %s: the configuration maps this name to no account; add users: {ACCOUNT: {certificate: %s}}, and then datamove service reload", mover.Printable(r.GetName()), mover.Printable(r.GetName()))
	}
	issued, err := s.o.Authority.Issue(r.GetCsr(), pki.Identity{Role: pki.User, Name: r.GetName()}, cmp.Or(r.GetLife().AsDuration(), PersonLife))
	if err != nil {
		return nil, err
	}
	s.o.Logger.Info("an identity was issued", "name", r.GetName(), "account", account, "serial", issued.Serial, "until", issued.Expires)
	return &pb.IssuedIdentity{Certificate: issued.Certificate, Authority: issued.Authority, Serial: issued.Serial, ExpireTime: timestamppb.New(issued.Expires), Account: account}, nil
}

// RevokeIdentity implements pb.AdminServiceServer. Which certificates there are is noted nowhere, so that of any serial is refused.
func (s *Server) RevokeIdentity(ctx context.Context, r *pb.RevokeIdentityRequest) (*pb.RevokeIdentityResponse, error) {
	n, ok := new(big.Int).SetString(r.GetSerial(), 16)
	if !ok || n.Sign() <= 0 || n.BitLen() > serialBits {
		return nil, mover.Usagef("%q is no serial of a certificate: want what datamove service identity has printed", mover.Printable(r.GetSerial()))
	}
	now := s.o.Now()
	revoked := &ledgerv1.Revoked{Serial: n.Text(16), Reason: "by an operator", RevokeTime: timestamppb.New(now), ExpireTime: timestamppb.New(now.Add(PersonMost))}
	err := s.o.Ledger.Update(ctx, state.Durable, func(tx *state.Tx) error { return state.Revoked.Put(tx, revoked) })
	if err == nil {
		err = s.keepRevoked()
	}
	if err != nil {
		return nil, err
	}
	s.o.Logger.Info("an identity was revoked", "serial", revoked.GetSerial())
	return &pb.RevokeIdentityResponse{}, nil
}

// serialBits is how long a serial is at most.
const serialBits = 160
