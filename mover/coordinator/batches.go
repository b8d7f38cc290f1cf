package coordinator

import (
	"context"
	"errors"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
)

// batch is a part of a lead that other agents do. Its items and its result are in the
// ledger and are read on request. Its fields are guarded by scheduler.mu.
type batch struct {
	meta     *ledgerv1.Batch
	done     chan struct{}         // closed when answered
	answer   *agentv1.GiveResponse // unless stored
	stored   bool                  // the answer is a reply that the ledger has
	since    time.Time
	yielding bool
	span     string // that its lead gave it in; "" is no trace
}

// batchOf returns a batch of a lead, or nil. One that was given before a restart comes
// from the ledger on request: there may be a million, and most of them may never be
// requested again. scheduler.mu is held.
func (s *scheduler) batchOf(l *lead, id string) (*batch, error) {
	if b := l.batches[id]; b != nil || !l.resumed {
		return b, nil
	}
	var b *batch
	err := s.ledger.View(func(tx *state.Tx) error {
		m, err := state.Batches.Get(tx, l.task.GetId(), id)
		if err != nil || m.GetLeadEpoch() != l.epoch {
			return mover.IgnoreNotExist(err)
		}
		b, err = s.takenUp(tx, m)
		return err
	})
	if b != nil {
		l.batches[id] = b
	}
	return b, err
}

// takeUpTaken takes up the batches of a lead that agents are at work on.
func (s *scheduler) takeUpTaken(tx *state.Tx, l *lead) error {
	taken := state.Range{Prefix: []string{ledgerv1.BatchState_BATCH_STATE_TAKEN.String(), l.task.GetId()}}
	for m, err := range state.BatchesByState.All(tx, taken) {
		if err != nil {
			return err
		}
		if m.GetLeadEpoch() != l.epoch {
			continue // of a lead before; goes with the task
		}
		if l.batches[m.GetId()], err = s.takenUp(tx, m); err != nil {
			return err
		}
	}
	return nil
}

// takenUp makes a batch of what the ledger says of it.
func (s *scheduler) takenUp(tx *state.Tx, m *ledgerv1.Batch) (*batch, error) {
	b := &batch{meta: m, done: make(chan struct{}), since: s.now()}
	if m.GetState() != ledgerv1.BatchState_BATCH_STATE_ANSWERED {
		return b, nil
	}
	w, err := state.Works.Get(tx, m.GetTask(), m.GetId())
	if mover.IgnoreNotExist(err) != nil {
		return nil, err
	}
	if b.stored = w.GetReply() != nil; !b.stored { // the lead was told to do it itself
		b.answer = &agentv1.GiveResponse{Nobody: true, Over: m.GetOver()}
	}
	close(b.done)
	return b, nil
}

// answerOf is what came of a batch that is answered.
func (s *scheduler) answerOf(b *batch) (*agentv1.GiveResponse, error) {
	s.mu.Lock()
	a, stored := b.answer, b.stored
	s.mu.Unlock()
	if !stored {
		return a, nil
	}
	w, err := s.works(b.meta)
	return &agentv1.GiveResponse{Reply: w.GetReply()}, err
}

// works is what the ledger has of a batch; nothing once its lead is over.
func (s *scheduler) works(m *ledgerv1.Batch) (w *ledgerv1.Work, err error) {
	err = s.ledger.View(func(tx *state.Tx) (err error) {
		w, err = state.Works.Get(tx, m.GetTask(), m.GetId())
		return err
	})
	if errors.Is(err, mover.ErrNotExist) {
		err = lostBatch(m.GetId())
	}
	return w, err
}

func lostBatch(id string) error {
	return &mover.Error{Op: "do", Location: "batch " + mover.Printable(id), Err: errLost}
}

// storeGiven stores a batch with its work, and forgets those that its lead has heard the end of.
func (s *scheduler) storeGiven(ctx context.Context, b *batch, r *agentv1.GiveRequest) error {
	task := r.GetTask()
	return s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
		for _, id := range r.GetHeard() {
			if err := deleteBatch(tx, task, id); err != nil {
				return err
			}
		}
		if err := state.Batches.Put(tx, b.meta); err != nil {
			return err
		}
		return state.Works.Put(tx, &ledgerv1.Work{Task: task, Batch: r.GetBatch(), Work: r.GetWork()})
	})
}

// storeAnswer stores what came of a batch, and says whether its reply is in the ledger then.
// What is not stored the lead gives again after a restart, or hears that it is over.
func (s *scheduler) storeAnswer(m *ledgerv1.Batch, a *agentv1.GiveResponse) (stored bool, err error) {
	begun := a.GetNobody() && len(a.GetOver()) > 0
	keep := len(a.GetReply()) <= workMost && (a.GetReply() != nil || begun)
	err = s.ledger.Update(context.Background(), state.Soon, func(tx *state.Tx) error {
		if !keep {
			return deleteBatch(tx, m.GetTask(), m.GetId())
		}
		if err := state.Batches.Put(tx, m); err != nil {
			return err
		}
		return state.Works.Put(tx, &ledgerv1.Work{Task: m.GetTask(), Batch: m.GetId(), Reply: a.GetReply()})
	})
	return keep && !begun && err == nil, err
}

func deleteBatch(tx *state.Tx, task, id string) error {
	if err := state.Batches.Delete(tx, task, id); err != nil {
		return err
	}
	return state.Works.Delete(tx, task, id)
}

// batchesAtOnce bounds what one change deletes. What is left is of an epoch that is over,
// and goes with the task.
const batchesAtOnce = 1000

// dropBatches forgets the batches of a task.
func dropBatches(tx *state.Tx, id string) error {
	n := 0
	for b, err := range state.Batches.All(tx, state.Range{Prefix: []string{id}}) {
		if err != nil {
			return err
		}
		if n++; n > batchesAtOnce {
			break
		}
		if err := deleteBatch(tx, id, b.GetId()); err != nil {
			return err
		}
	}
	return nil
}
