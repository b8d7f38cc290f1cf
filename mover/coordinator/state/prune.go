package state

import (
	"bytes"
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// pruneRows is how many rows one step of Prune deletes; others get their turn in between.
const pruneRows = 500

// Prune forgets tasks that have ended: those that ended before a time, and of the
// rest all but the newest. 0 keeps any number. With a task goes what is its alone:
// batches, drafts, idempotency keys, wishes. It returns how many tasks are gone.
func (l *Ledger) Prune(ctx context.Context, before time.Time, newest int) (tasks int, err error) {
	p := pruning{}
	if p.limit, err = l.pruneLimit(before, newest); err != nil {
		return 0, err
	}
	for more := true; more; {
		next := p
		err := l.Update(ctx, Soon, func(tx *Tx) (err error) {
			more, err = next.step(tx)
			return err
		})
		if err != nil {
			return p.tasks, err
		}
		p = next
	}
	return p.tasks, nil
}

// pruneLimit returns the key of TasksByEnd from which on tasks stay.
func (l *Ledger) pruneLimit(before time.Time, newest int) (limit []byte, err error) {
	limit = appendKey(nil, Time(timestamppb.New(before)))
	if newest <= 0 {
		return limit, nil
	}
	err = l.View(func(tx *Tx) error {
		n := 0
		for f, err := range tx.scan(TasksByEnd.prefix(), Range{Reverse: true}, false) {
			if err != nil || bytes.Compare(f.key, limit) < 0 {
				return err
			}
			if n++; n > newest {
				limit = append(f.key, 0) // behind this one
				return nil
			}
		}
		return nil
	})
	return limit, err
}

// pruning is how far a Prune is. Each step goes on where the one before ended,
// because passing what was just deleted takes time.
type pruning struct {
	limit []byte // of TasksByEnd, itself excluded
	last  []byte // of TasksByEnd that is gone
	tasks int
}

// step forgets a few tasks, or a part of one with many rows.
func (p *pruning) step(tx *Tx) (more bool, err error) {
	left := pruneRows
	r := Range{}
	if p.last != nil {
		r.After = token(p.last)
	}
	for f, err := range tx.scan(TasksByEnd.prefix(), r, false) {
		if err != nil || bytes.Compare(f.key, p.limit) >= 0 {
			return false, err
		}
		task, err := Tasks.get(tx, after(f.key, TasksByEnd.parts))
		if err == nil {
			left, err = forget(tx, task, left)
		}
		if err != nil || left < 0 {
			return true, err
		}
		p.last = f.key
		p.tasks++
	}
	return false, nil
}

// forget deletes the rows of a task, and itself last. It returns how many rows may
// still be deleted; below 0, they were too many and some are left.
func forget(tx *Tx, task *datamovev1.Task, left int) (int, error) {
	of := Range{Prefix: []string{task.GetId()}}
	left, err1 := forgetAll(tx, Works, Works.All(tx, of), left)
	left, err2 := forgetAll(tx, Batches, Batches.All(tx, of), left)
	left, err3 := forgetAll(tx, Drafts, Drafts.All(tx, of), left)
	left, err6 := forgetAll(tx, Pieces, Pieces.All(tx, of), left)
	left, err4 := forgetAll(tx, Keys, KeysByTask.All(tx, of), left)
	left, err5 := forgetAll(tx, StageWaiters, StageWaiters.All(tx, of), left)
	err := errors.Join(err1, err2, err3, err4, err5, err6)
	if left--; err != nil || left < 0 {
		return left, err
	}
	return left, Tasks.Delete(tx, task.GetId())
}

// ForgetOf forgets tasks of an owner that have ended, those that were submitted first, until their records have so
// many bytes, within one change. It returns how many bytes that are.
func ForgetOf(tx *Tx, owner string, bytes int64) (gone int64, err error) {
	left := pruneRows
	for t, err := range FindTasks(tx, TaskFilter{Owner: owner, States: endedStates, Oldest: true}) {
		if err != nil || gone >= bytes {
			return gone, err
		}
		size := int64(proto.Size(t))
		if left, err = forget(tx, t, left); err != nil || left < 0 {
			return gone, err
		}
		gone += size
	}
	return gone, nil
}

var endedStates = []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_DONE, datamovev1.TaskState_TASK_STATE_FAILED, datamovev1.TaskState_TASK_STATE_CANCELLED}
