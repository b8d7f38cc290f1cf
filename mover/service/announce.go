package service

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/ledger"
	"datamove.dev/tiering/policy"
)

// announced is what the next run of a policy will do; nil where it was not announced, or the policy is another one by now.
func (s *Service) announced(p *policy.Program) (head *pb.Plan, err error) {
	var row *ledgerv1.Announcement
	err = s.ledger.View(func(tx *ledger.Tx) error {
		a, err := ledger.Announcements.Get(tx, string(p.Policy.Metadata.Name))
		if err != nil || a.GetPolicyDigest() != p.Policy.Digest() {
			return ignoreGone(err)
		}
		if _, err = ledger.Runs.Get(tx, a.GetPlan()); errors.Is(err, mover.ErrNotExist) { // it was not run yet
			row, err = a, nil
		}
		return err
	})
	if err != nil || row == nil {
		return nil, err
	}
	f, err := s.openPlan(row.GetPlan())
	if err != nil {
		return nil, ignoreGone(err)
	}
	return f.Plan, f.Close()
}

// announce plans a run some time before, so that owners can see what it will do to their files.
func (s *Service) announce(ctx context.Context, p *policy.Program, next time.Time) error {
	preview := time.Duration(p.Policy.Spec.Report.Preview)
	if preview == 0 || next.IsZero() || next.Sub(s.now()) > preview {
		return nil
	}
	if head, err := s.announced(p); head != nil || err != nil {
		return err
	}
	head, err := s.plan(ctx, p)
	if err != nil {
		return err
	}
	row := &ledgerv1.Announcement{Policy: head.GetPolicy(), PolicyDigest: head.GetPolicyDigest(), Plan: head.GetId(), DueTime: timestamppb.New(next)}
	return s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) error { return ledger.Announcements.Put(tx, row) })
}

// overAnnounced forgets what was announced of a policy: it has run.
func (s *Service) overAnnounced(ctx context.Context, name string) error {
	return s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) error {
		return ledger.Announcements.Delete(tx, name)
	})
}
