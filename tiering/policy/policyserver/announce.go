package policyserver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/tiering/policy"
)

// announcement is the one of the next run of a policy; nil where there is none, or the policy is another one by now.
func (s *Server) announcement(p *policy.Program) (row *ledgerv1.Announcement, err error) {
	return row, s.ledger.View(func(tx *state.Tx) error {
		a, err := state.Announcements.Get(tx, string(p.Policy.Metadata.Name))
		if err != nil || a.GetPolicyDigest() != p.Policy.Digest() {
			return mover.IgnoreNotExist(err)
		}
		if _, err = state.Runs.Get(tx, a.GetPlan()); errors.Is(err, mover.ErrNotExist) { // it was not run yet
			row, err = a, nil
		}
		return err
	})
}

// announced is what the next run of a policy will do; nil where it was not announced.
func (s *Server) announced(p *policy.Program) (*pb.Plan, error) {
	row, err := s.announcement(p)
	if err != nil || row == nil {
		return nil, err
	}
	f, err := s.openPlan(row.GetPlan())
	if err != nil {
		return nil, mover.IgnoreNotExist(err)
	}
	return f.Plan, f.Close()
}

// announce plans a run some time before, and tells owners what it will do to their files.
func (s *Server) announce(ctx context.Context, p *policy.Program, next time.Time) error {
	preview := time.Duration(p.Policy.Spec.Report.Preview)
	if preview == 0 || next.IsZero() || next.Sub(s.now()) > preview {
		return nil
	}
	head, err := s.announced(p)
	if err != nil {
		return err
	}
	if head != nil {
		return s.tellOwners(ctx, p, head)
	}
	if head, err = s.plan(ctx, p); err != nil {
		return err
	}
	row := &ledgerv1.Announcement{Policy: head.GetPolicy(), PolicyDigest: head.GetPolicyDigest(), Plan: head.GetId(), DueTime: timestamppb.New(next)}
	if err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error { return state.Announcements.Put(tx, row) }); err != nil {
		return err
	}
	return s.tellOwners(ctx, p, head)
}

// tellOwners has owners told of an announcement, once: after a crash some may be told twice. A run in the mode plan takes nothing away.
func (s *Server) tellOwners(ctx context.Context, p *policy.Program, head *pb.Plan) error {
	row, err := s.announcement(p)
	if err != nil || row == nil || row.GetTold() || modeOf(p) == string(policy.ModePlan) || s.conf().Mail.Server == "" || s.telling[head.GetPolicy()] == head.GetId() {
		return err
	}
	letters, err := s.lettersOf(p, head, row.GetDueTime().AsTime())
	if err != nil {
		return err
	}
	if s.telling == nil {
		s.telling = map[string]string{}
	}
	s.telling[head.GetPolicy()] = head.GetId()
	var left atomic.Int64
	left.Store(int64(len(letters)))
	over := func() {
		if left.Add(-1) > 0 {
			return
		}
		err := s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
			a, err := state.Announcements.Get(tx, row.GetPolicy())
			if err != nil || a.GetPlan() != row.GetPlan() {
				return mover.IgnoreNotExist(err)
			}
			a.Told = true
			return state.Announcements.Put(tx, a)
		})
		if err != nil {
			s.log.Warn("that owners were told of a run could not be noted", "policy", row.GetPolicy(), "err", err)
		}
	}
	if len(letters) == 0 {
		over()
	}
	for _, m := range letters {
		s.notifier.Post(m, over)
	}
	return nil
}

// overAnnounced forgets what was announced of a policy: it has run.
func (s *Server) overAnnounced(ctx context.Context, name string) error {
	return s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		return state.Announcements.Delete(tx, name)
	})
}
