package coordinator

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
)

// noTask stands in keys for the task where a request made none. No task has that id.
const noTask = "-"

// keysLast is how long the key of a request that made no task is kept; other keys go with
// their task. A request that is repeated after that is a new one.
const keysLast = 24 * time.Hour

// keep remembers the key of a request that made no task.
func (s *agentServer) keep(tx *state.Tx, c authz.Caller, key string, asked *pb.TaskSpec) error {
	if key == "" {
		return nil
	}
	if err := s.c.usage.mayHold(c, quota.Requests); err != nil {
		return err
	}
	return state.Keys.Put(tx, &ledgerv1.Key{Caller: state.User(accountOf(c)), Key: key, Task: noTask, SpecDigest: digest(asked), CreateTime: timestamppb.New(s.now())})
}

// known says whether a request came before under its key. Another one under that key is
// an error.
func (s *agentServer) known(tx *state.Tx, c authz.Caller, key string, asked *pb.TaskSpec) (bool, error) {
	if key == "" {
		return false, nil
	}
	if _, err := before(tx, c, key, asked); err != nil {
		return false, err
	}
	_, err := state.Keys.Get(tx, state.User(accountOf(c)), key)
	if errors.Is(err, mover.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// keySteps are keys that are forgotten in one change.
const keySteps = 1000

// endKeys forgets keys of requests that made no task and are long over.
func (s *agentServer) endKeys(ctx context.Context) error {
	for more := true; more; {
		more = false
		err := s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
			var over []*ledgerv1.Key
			for k, err := range state.KeysByTask.All(tx, state.Range{Prefix: []string{noTask}}) {
				if err != nil {
					return err
				}
				if s.now().Sub(k.GetCreateTime().AsTime()) > keysLast {
					over = append(over, k)
				}
				if more = len(over) == keySteps; more {
					break
				}
			}
			for _, k := range over {
				if err := state.Keys.Delete(tx, k.GetCaller(), k.GetKey()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// once does what makes a task, or returns the task that the caller made with the same
// key before.
func (s *agentServer) once(ctx context.Context, key string, asked *pb.TaskSpec, do func(*state.Tx) (*pb.Task, error)) (t *pb.Task, err error) {
	if len(key) > maxKey {
		return nil, mover.Usagef("an idempotency key of %d letters; at most %d", len(key), maxKey)
	}
	made := false
	err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		made = false
		if t, err = before(tx, authz.From(ctx), key, asked); err != nil || t != nil {
			return err
		}
		if t, err = do(tx); err != nil {
			return err
		}
		made, t.IdempotencyKey, t.TraceParent = true, key, telemetry.Inject(ctx)
		return s.c.claim(tx, authz.From(ctx), t, asked, key)
	})
	switch {
	case err != nil:
		return nil, err
	case made:
		s.c.submitted(ctx, t)
		return t, nil
	}
	return s.c.task(t.GetId())
}
