package lifecycle

import (
	"context"
	"fmt"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
)

// Look sees all in the region that may be ours, and says of each whether it may go. records are by ID. Nothing is changed.
func (l *Manager) Look(ctx context.Context, records map[string]*burst.Record) ([]burst.Verdict, error) {
	systems, err := l.Cloud.FileSystems(ctx)
	if err != nil {
		return nil, err
	}
	var all []burst.Observed
	for _, fs := range systems {
		s := burst.Observed{ID: fs.ID, Kind: burst.FileSystemSight, State: fs.State, Tags: fs.Tags, Since: fs.Since}
		if err := l.regard(ctx, &s, records[fs.Tags[burst.TagBurst]]); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	instances, err := l.Cloud.Instances(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		s := burst.Observed{ID: i.ID, Kind: burst.InstanceSight, State: i.State, Tags: i.Tags, Since: i.Since, Type: i.Type}
		if err := l.regard(ctx, &s, records[i.Tags[burst.TagBurst]]); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return burst.Judge(all, records, l.now()), nil
}

// regard adds what is known of something of which there is a record: of others nothing is asked.
func (l *Manager) regard(ctx context.Context, s *burst.Observed, r *burst.Record) error {
	if r == nil {
		return nil
	}
	b, err := r.Burst()
	if err != nil {
		return err
	}
	if l.Leases != nil {
		s.Leases = l.Leases(b)
	}
	looks, of := l.Cloud.FileSystemActivity, l.now().Add(-2*b.Spec.Idles())
	if s.Kind == burst.InstanceSight {
		looks = l.Cloud.InstanceActivity
	} else if err := l.pending(ctx, s); err != nil {
		return err
	}
	if h := oldest(r); !h.IsZero() && h.Before(of) {
		of = h
	}
	a, err := looks(ctx, s.ID, of, l.now())
	if err != nil && ctx.Err() == nil {
		l.tell("warning: %v: it is taken for busy", err)
		return nil
	}
	s.Activity = &a
	return err
}

// oldest is when that began to come home which came first: what was written since has to be known.
func oldest(r *burst.Record) (at time.Time) {
	for _, h := range r.Home {
		if at.IsZero() || h.At.Before(at) {
			at = h.At
		}
	}
	return at
}

func (l *Manager) pending(ctx context.Context, s *burst.Observed) error {
	tasks, err := l.Cloud.Tasks(ctx, s.ID)
	for _, t := range tasks {
		if !t.Ended() {
			s.Pending++
		}
	}
	return err
}

// Reap takes away what was judged to be idle: a file system with all of its burst, after everything that [Manager.Down] looks at; an instance is stopped. r is the record of its burst, which the caller holds. What is not
// to be taken is mover.ErrRefused.
func (l *Manager) Reap(ctx context.Context, v burst.Verdict, r *burst.Record) error {
	if !v.Take || !v.Ours || r == nil || v.Sight.Tags[burst.TagBurst] != r.ID {
		return fmt.Errorf("%w: %s %s: %s", mover.ErrRefused, v.Sight.Kind, v.Sight.ID, v.Why)
	}
	if v.Sight.Kind == burst.InstanceSight {
		if err := l.Charge(ctx, r); err != nil { // it is seen for the last time
			return err
		}
		l.tell("stopping instance %s of burst %s: %s", v.Sight.ID, v.Burst, v.Why)
		return l.Cloud.Stop(ctx, v.Sight.ID)
	}
	l.tell("taking down burst %s: %s", v.Burst, v.Why)
	careful := *l
	careful.Settle = max(l.Settle, 0) // no person is there to know that no client runs
	return careful.Down(ctx, r, nil)
}
