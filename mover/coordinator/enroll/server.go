// Package enroll has nodes and persons join the service: join tokens, certificates, and which of them are believed no more. The ledger is the truth. Nodes that
// were forgotten and certificates that were revoked are noted in files beside it as well, because a restore of the ledger must not restore trust.
package enroll

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
)

// Options are what a Server is made of. Ledger, Rules, Data, Logger and Now are needed.
type Options struct {
	Ledger    *state.Ledger
	Rules     func() *authz.Rules
	Authority *pki.Authority // nil refuses each join
	// Vouch says of which node a join token is that is none of ours; nil knows none. What it does not
	// believe is of kind mover.ErrPermission.
	Vouch  func(ctx context.Context, token string) (node string, err error)
	Data   string // a directory: what a restore has to know lies in it
	Logger *slog.Logger
	Now    func() time.Time
}

// Server implements agentv1.EnrollServiceServer, and what pb.AgentServiceServer and pb.AdminServiceServer have for tokens and certificates.
type Server struct {
	agentv1.UnimplementedEnrollServiceServer
	o  Options
	mu sync.Mutex // of the files
}

// New returns a server, when what a restore has to know is in its files.
func New(o Options) (*Server, error) {
	s := &Server{o: o}
	return s, s.KeepForgotten()
}

var errNoAuthority = fmt.Errorf("%w: this service has no tcp:// address, so no node can join it", mover.ErrUnsupported)

// CreateJoinToken implements pb.AgentServiceServer.
func (s *Server) CreateJoinToken(ctx context.Context, r *pb.CreateJoinTokenRequest) (*pb.CreateJoinTokenResponse, error) {
	if s.o.Authority == nil {
		return nil, errNoAuthority
	}
	token, record, err := s.o.Authority.NewToken(r.GetName(), r.GetTtl().AsDuration())
	if err != nil {
		return nil, err
	}
	c := authz.From(ctx)
	err = s.o.Ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		if err := invite(tx, record.Name); err != nil {
			return err
		}
		return state.JoinTokens.Put(tx, &ledgerv1.JoinToken{
			Digest: []byte(record.ID), Hash: record.Hash[:], Name: record.Name, ExpireTime: timestamppb.New(record.Expires), CreateTime: timestamppb.New(s.o.Now()),
			Creator: &pb.Account{Name: c.Name, Uid: c.UID},
		})
	})
	if err == nil {
		err = s.KeepForgotten()
	}
	if err != nil {
		return nil, err
	}
	return &pb.CreateJoinTokenResponse{Token: token.Text(), ExpireTime: timestamppb.New(record.Expires)}, nil
}

// Join implements agentv1.EnrollServiceServer. The token is used up in the change in which
// the certificate is made: a token admits one node, once.
func (s *Server) Join(ctx context.Context, r *agentv1.JoinRequest) (cert *agentv1.Certificate, err error) {
	if s.o.Authority == nil {
		return nil, errNoAuthority
	}
	if s.o.Vouch != nil && !pki.IsToken(r.GetToken()) {
		return s.joinVouched(ctx, r)
	}
	token, err := pki.ParseToken(r.GetToken())
	if err != nil {
		return nil, err
	}
	err = s.o.Ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		m, err := state.JoinTokens.Get(tx, hex.EncodeToString([]byte(token.ID())))
		if errors.Is(err, mover.ErrNotExist) {
			return pki.ErrToken
		}
		if err != nil {
			return err
		}
		record := pki.TokenRecord{ID: string(m.GetDigest()), Name: m.GetName(), Expires: m.GetExpireTime().AsTime()}
		copy(record.Hash[:], m.GetHash())
		if err := record.Check(token, r.GetName()); err != nil {
			return err
		}
		if err := state.JoinTokens.Delete(tx, hex.EncodeToString(m.GetDigest())); err != nil {
			return err
		}
		if err := s.joined(tx, r.GetName()); err != nil {
			return err
		}
		cert, err = s.issue(tx, r.GetCsr(), r.GetName())
		return err
	})
	return s.certified(cert, err)
}

// certified is a certificate, when what was noted for it would outlast a restore, too.
func (s *Server) certified(cert *agentv1.Certificate, err error) (*agentv1.Certificate, error) {
	if err == nil {
		err = s.KeepForgotten()
	}
	if err != nil {
		return nil, err
	}
	return cert, nil
}

// joinVouched issues a certificate to a node with a token of another issuer, which [Options.Vouch] checks. The node
// may join repeatedly, because the issuer vouches anew each time. A node that was cut off is refused.
func (s *Server) joinVouched(ctx context.Context, r *agentv1.JoinRequest) (cert *agentv1.Certificate, err error) {
	node, err := s.o.Vouch(ctx, r.GetToken())
	switch {
	case err != nil:
		return nil, err
	case node != r.GetName():
		return nil, fmt.Errorf("%w: the token is of a pod on node %s", mover.ErrPermission, mover.Printable(node))
	}
	err = s.o.Ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		if err := cutOff(tx, node); err != nil {
			return err
		}
		if err := s.joined(tx, node); err != nil {
			return err
		}
		cert, err = s.issue(tx, r.GetCsr(), node)
		return err
	})
	return s.certified(cert, err)
}

// joined notes a node, which may never be heard of: it can be forgotten all the same.
func (s *Server) joined(tx *state.Tx, name string) error {
	if _, err := state.Agents.Get(tx, name); !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	now := timestamppb.New(s.o.Now())
	return state.Agents.Put(tx, &ledgerv1.AgentRecord{Agent: &pb.Agent{Name: name, JoinTime: now, SeenTime: now}})
}

// Renew implements agentv1.EnrollServiceServer.
func (s *Server) Renew(ctx context.Context, r *agentv1.RenewRequest) (cert *agentv1.Certificate, err error) {
	c := authz.From(ctx)
	if s.o.Authority == nil || c.Agent == "" {
		return nil, errNoAuthority
	}
	err = s.o.Ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		if err := Remembered(tx, c.Agent, c.Serial); err != nil { // just now: it may have been when the call began
			return err
		}
		cert, err = s.issue(tx, r.GetCsr(), c.Agent)
		return err
	})
	return s.certified(cert, err)
}

func (s *Server) issue(tx *state.Tx, csr []byte, name string) (*agentv1.Certificate, error) {
	issued, err := s.o.Authority.Issue(csr, pki.Identity{Role: pki.Agent, Name: name}, time.Duration(0))
	if err == nil {
		err = s.gave(tx, name, issued)
	}
	if err != nil {
		return nil, err
	}
	return &agentv1.Certificate{Certificate: issued.Certificate, Authority: issued.Authority, ExpireTime: timestamppb.New(issued.Expires)}, nil
}
