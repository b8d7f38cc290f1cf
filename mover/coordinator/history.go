package coordinator

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
)

// How often the rate of all tasks is remembered, and for how long.
const (
	rateEvery = 5 * time.Second
	rateFor   = 10 * time.Minute
)

// history is how fast all tasks were over the last minutes.
type history struct {
	mu      sync.Mutex
	moments []*pb.RateMoment // the oldest first; guarded by mu
}

// add takes a moment in, and forgets those that are too old.
func (h *history) add(now time.Time, bytesPerSecond float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moments = slices.DeleteFunc(h.moments, func(m *pb.RateMoment) bool { return now.Sub(m.GetTime().AsTime()) > rateFor })
	h.moments = append(h.moments, &pb.RateMoment{Time: timestamppb.New(now), BytesPerSecond: bytesPerSecond})
}

// since returns the moments after t.
func (h *history) since(t time.Time) (all []*pb.RateMoment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.moments {
		if m.GetTime().AsTime().After(t) {
			all = append(all, m)
		}
	}
	return all
}

// rememberRate is a chore: it remembers how fast all tasks are.
func (s *metricsCollector) rememberRate(context.Context) error {
	s.c.scheduler.mu.Lock()
	_, rate := s.c.admin.working()
	s.c.scheduler.mu.Unlock()
	s.rates.add(s.now(), rate)
	return nil
}
