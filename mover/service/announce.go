package service

import (
	"context"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/tiering/policy"
)

// announced is what the next run of a policy will do; nil where it was not announced, or the policy is another one by now.
func (s *Service) announced(p *policy.Program) (*pb.Plan, error) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	head := s.announcedAs[string(p.Policy.Metadata.Name)]
	if head.GetPolicyDigest() != p.Policy.Digest() {
		return nil, nil
	}
	return head, nil
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
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if s.announcedAs == nil {
		s.announcedAs = map[string]*pb.Plan{}
	}
	s.announcedAs[head.GetPolicy()] = head
	return nil
}
