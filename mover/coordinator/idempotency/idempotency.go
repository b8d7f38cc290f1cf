// Package idempotency knows requests that came before, by the keys that their callers gave them. Keys are in the ledger: a key that a request
// stores is stored in the change that the request makes.
package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// KeyMost is how long a key may be.
const KeyMost = 128

// Check refuses a key that is too long.
func Check(key string) error {
	if len(key) > KeyMost {
		return mover.Usagef("an idempotency key of %d letters; at most %d", len(key), KeyMost)
	}
	return nil
}

// NoTask stands in keys for the task where a request made none. No task has that id.
const NoTask = "-"

// KeysLast is how long the key of a request that made no task is kept; other keys go with
// their task. A request that is repeated after that is a new one.
const KeysLast = 24 * time.Hour

// Before returns the task that the caller made with the same key.
func Before(tx *state.Tx, caller authz.Caller, key string, asked *pb.TaskSpec) (*pb.Task, error) {
	if key == "" {
		return nil, nil
	}
	k, err := state.Keys.Get(tx, state.User(&pb.Account{Name: caller.Name, Uid: caller.UID}), key)
	if errors.Is(err, mover.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(k.GetSpecDigest(), Digest(asked)) {
		return nil, &mover.Error{Op: "submit", Err: fmt.Errorf("%w: the idempotency key was used for another request", mover.ErrConflict)}
	}
	if k.GetTask() == NoTask {
		return nil, nil
	}
	return state.Tasks.Get(tx, k.GetTask())
}

// Digest is a request in few bytes.
func Digest(spec *pb.TaskSpec) []byte {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(spec) // of a message that came over the wire
	sum := sha256.Sum256(b)
	return sum[:]
}

// Known says whether a request came before under its key. Another one under that key is
// an error.
func Known(tx *state.Tx, c authz.Caller, key string, asked *pb.TaskSpec) (bool, error) {
	if key == "" {
		return false, nil
	}
	if _, err := Before(tx, c, key, asked); err != nil {
		return false, err
	}
	_, err := state.Keys.Get(tx, state.User(authz.AccountOf(c)), key)
	if errors.Is(err, mover.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Put stores the key of a request, and the task that it has made; NoTask is none.
func Put(tx *state.Tx, owner *pb.Account, key string, asked *pb.TaskSpec, made string, at *timestamppb.Timestamp) error {
	if key == "" {
		return nil
	}
	return state.Keys.Put(tx, &ledgerv1.Key{Caller: state.User(owner), Key: key, Task: made, SpecDigest: Digest(asked), CreateTime: at})
}

// ID is the id of what a request makes: the same for the same caller and key.
func ID(c authz.Caller, key string, now time.Time) string {
	if key == "" {
		return task.NewID(now)
	}
	sum := sha256.Sum256([]byte(state.User(authz.AccountOf(c)) + "\x00" + key))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:])[:20])
}

// keySteps are keys that are forgotten in one change.
const keySteps = 1000

// Forget forgets keys of requests that made no task and are long over.
func Forget(ctx context.Context, books *state.Ledger, now func() time.Time) error {
	for more := true; more; {
		more = false
		err := books.Update(ctx, state.Soon, func(tx *state.Tx) error {
			var over []*ledgerv1.Key
			for k, err := range state.KeysByTask.All(tx, state.Range{Prefix: []string{NoTask}}) {
				if err != nil {
					return err
				}
				if now().Sub(k.GetCreateTime().AsTime()) > KeysLast {
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

// quotas says what callers may hold.
type quotas interface {
	MayHold(c authz.Caller, what quota.Resource) error
}

// Remember stores the key of a request that made no task, if the caller may hold one more.
func Remember(tx *state.Tx, q quotas, c authz.Caller, key string, asked *pb.TaskSpec, now time.Time) error {
	if key == "" {
		return nil
	}
	if err := q.MayHold(c, quota.Requests); err != nil {
		return err
	}
	return Put(tx, authz.AccountOf(c), key, asked, NoTask, timestamppb.New(now))
}
