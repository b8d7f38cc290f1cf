package datasetserver

import (
	"context"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
)

// once does what makes a task, or returns the task that the caller made with the same
// key before.
func (s *Server) once(ctx context.Context, key string, asked *pb.TaskSpec, do func(*state.Tx) (*pb.Task, error)) (t *pb.Task, err error) {
	if err := idempotency.Check(key); err != nil {
		return nil, err
	}
	made := false
	err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		made = false
		if t, err = idempotency.Before(tx, authz.From(ctx), key, asked); err != nil || t != nil {
			return err
		}
		if t, err = do(tx); err != nil {
			return err
		}
		made, t.IdempotencyKey, t.TraceParent = true, key, telemetry.Inject(ctx)
		return s.c.Claim(tx, authz.From(ctx), t, asked, key)
	})
	switch {
	case err != nil:
		return nil, err
	case made:
		s.c.Submitted(ctx, t)
		return t, nil
	}
	return s.c.Task(t.GetId())
}

// keep remembers the key of a request that made no task.
func (s *Server) keep(tx *state.Tx, c authz.Caller, key string, asked *pb.TaskSpec) error {
	return idempotency.Remember(tx, s.c, c, key, asked, s.now())
}

// newTask makes a queued task of a caller. It is not stored yet.
func (s *Server) newTask(c authz.Caller, spec *pb.TaskSpec) *pb.Task {
	return state.NewTask(spec, authz.AccountOf(c), s.now())
}
