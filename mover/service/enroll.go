package service

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/access"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/trust"
)

var errNoAuthority = fmt.Errorf("%w: this service has no tcp:// address, so no node can join it", mover.ErrUnsupported)

// CreateJoinToken implements pb.AgentServiceServer.
func (s *Service) CreateJoinToken(ctx context.Context, r *pb.CreateJoinTokenRequest) (*pb.CreateJoinTokenResponse, error) {
	if s.o.Authority == nil {
		return nil, errNoAuthority
	}
	token, record, err := s.o.Authority.NewToken(r.GetName(), r.GetTtl().AsDuration())
	if err != nil {
		return nil, err
	}
	c := access.From(ctx)
	err = s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) error {
		return ledger.JoinTokens.Put(tx, &ledgerv1.JoinToken{
			Digest: []byte(record.ID), Hash: record.Hash[:], Name: record.Name, ExpireTime: timestamppb.New(record.Expires), CreateTime: timestamppb.New(s.now()),
			Creator: &pb.Account{Name: c.Name, Uid: c.UID},
		})
	})
	if err != nil {
		return nil, err
	}
	return &pb.CreateJoinTokenResponse{Token: token.Text(), ExpireTime: timestamppb.New(record.Expires)}, nil
}

// Join implements agentv1.EnrollServiceServer. The token is used up before the
// certificate is made: nobody joins twice with it.
func (s *Service) Join(ctx context.Context, r *agentv1.JoinRequest) (*agentv1.Certificate, error) {
	if s.o.Authority == nil {
		return nil, errNoAuthority
	}
	token, err := trust.ParseToken(r.GetToken())
	if err != nil {
		return nil, err
	}
	err = s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) error {
		m, err := ledger.JoinTokens.Get(tx, hex.EncodeToString([]byte(token.ID())))
		if errors.Is(err, mover.ErrNotExist) {
			return trust.ErrToken
		}
		if err != nil {
			return err
		}
		record := trust.TokenRecord{ID: string(m.GetDigest()), Name: m.GetName(), Expires: m.GetExpireTime().AsTime()}
		copy(record.Hash[:], m.GetHash())
		if err := record.Check(token, r.GetName()); err != nil {
			return err
		}
		return ledger.JoinTokens.Delete(tx, hex.EncodeToString(m.GetDigest()))
	})
	if err != nil {
		return nil, err
	}
	return s.issue(r.GetCsr(), trust.Identity{Role: trust.Agent, Name: r.GetName()})
}

// Renew implements agentv1.EnrollServiceServer.
func (s *Service) Renew(ctx context.Context, r *agentv1.RenewRequest) (*agentv1.Certificate, error) {
	name := access.From(ctx).Agent
	if s.o.Authority == nil || name == "" {
		return nil, errNoAuthority
	}
	return s.issue(r.GetCsr(), trust.Identity{Role: trust.Agent, Name: name})
}

func (s *Service) issue(csr []byte, id trust.Identity) (*agentv1.Certificate, error) {
	issued, err := s.o.Authority.Issue(csr, id, time.Duration(0))
	if err != nil {
		return nil, err
	}
	return &agentv1.Certificate{Certificate: issued.Certificate, Authority: issued.Authority, ExpireTime: timestamppb.New(issued.Expires)}, nil
}
