package coordinator

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
)

const (
	watchEvery = 100 * time.Millisecond // at most ten times a second
	watchMost  = 20_000                 // watchers of all tasks
)

// watchers wait for tasks to change.
type watchers struct {
	mu sync.Mutex
	of map[string]map[chan struct{}]bool // by task; guarded by mu
	n  int                               // guarded by mu
}

func (w *watchers) add(id string) (chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n >= watchMost {
		return nil, &mover.Error{Op: "watch", Location: "task " + id, Err: mover.ErrRefused}
	}
	if w.of == nil {
		w.of = map[string]map[chan struct{}]bool{}
	}
	if w.of[id] == nil {
		w.of[id] = map[chan struct{}]bool{}
	}
	c := make(chan struct{}, 1)
	w.of[id][c] = true
	w.n++
	return c, nil
}

func (w *watchers) drop(id string, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of[id], c)
	if w.n--; len(w.of[id]) == 0 {
		delete(w.of, id)
	}
}

// tell wakes the watchers of a task. It does not wait.
func (w *watchers) tell(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.of[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// WatchTask implements pb.TaskServiceServer.
func (s *Service) WatchTask(r *pb.WatchTaskRequest, stream grpc.ServerStreamingServer[pb.Task]) error {
	ctx := stream.Context()
	if _, err := s.find(ctx, pb.TaskService_WatchTask_FullMethodName, r.GetId()); err != nil {
		return err
	}
	c, err := s.watch.add(r.GetId())
	if err != nil {
		return err
	}
	defer s.watch.drop(r.GetId(), c)
	for sent := uint64(0); ; {
		t, err := s.Task(r.GetId())
		if err != nil {
			return err
		}
		if t.GetRevision() != sent || task.Ended(t.GetState()) {
			sent = t.GetRevision()
			if err := stream.Send(t); err != nil {
				return err
			}
		}
		if task.Ended(t.GetState()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c:
		}
		if err := s.unhurried(ctx, r.GetId(), c); err != nil {
			return err
		}
	}
}

// unhurried waits a moment, so that a task is not told too often. Its end waits for nothing.
func (s *Service) unhurried(ctx context.Context, id string, changed <-chan struct{}) error {
	pause := time.NewTimer(watchEvery)
	defer pause.Stop()
	for {
		if t, err := s.Task(id); err != nil || task.Ended(t.GetState()) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-pause.C:
			return nil
		}
	}
}
