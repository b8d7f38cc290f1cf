package coordinator

import (
	"fmt"
	"slices"
	"strings"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
)

// A staging is one task for all accounts that wait for its replica. So no account may stop it for another one: a pause
// is refused while another account waits, and a pause or a cancel that a new waiter meets is undone. What an operator
// wants stays: the reason of the state tells the two apart.

// byOwner and byWaiter are the ends of reasons that no operator gave.
const (
	byOwner  = " by its owner"
	byWaiter = " by its last waiter"
)

// wantedBy is the reason of what is wanted of a running task when it was stored.
func wantedBy(t *pb.Task) string {
	word := task.Word(wanted(t))
	if strings.HasPrefix(t.GetWhy(), word+" by ") {
		return t.GetWhy()
	}
	return word + byOwner
}

// yields reports whether a state ends when another account waits: one that no operator wants.
func yields(why string) bool {
	return strings.HasSuffix(why, byOwner) || strings.HasSuffix(why, byWaiter)
}

// waited reports whether an account waits for a task that is to be in a state. A pause leaves those of its owner waiting.
func waited(tx *state.Tx, t *pb.Task, to pb.TaskState) (bool, error) {
	if !task.Of(t.GetSpec()).Shared {
		return false, nil
	}
	wishes, err := state.Collect(state.StageWaiters.All(tx, state.Range{Prefix: []string{t.GetId()}}))
	return slices.ContainsFunc(wishes, func(w *ledgerv1.Wish) bool {
		return to != task.Paused || state.User(w.GetLease().GetOwner()) != state.User(t.GetOwner())
	}), err
}

// mayStop says why a task may not be paused for a reason, and whether a cancel leaves it to those that wait.
func mayStop(tx *state.Tx, t *pb.Task, to pb.TaskState, why string) (left bool, err error) {
	if !yields(why) {
		return false, nil
	}
	left, err = waited(tx, t, to)
	if left && err == nil && to == task.Paused {
		err = &mover.Error{Op: "pause", Location: "task " + t.GetId(), Err: fmt.Errorf("%w: another account waits for this staging; cancel it to wait no more, or ask an operator to pause it", mover.ErrConflict)}
	}
	return left, err
}

// handedOn has a task that was paused or cancelled go on for an account that waits for it.
func handedOn(tx *state.Tx, t *pb.Task) (bool, error) {
	to := t.GetState()
	if to != task.Paused && to != task.Cancelled || !yields(t.GetWhy()) {
		return false, nil
	}
	left, err := waited(tx, t, to)
	if left && err == nil {
		t.State, t.Phase, t.Why, t.EndTime, t.ExitCode = task.Queued, "", "", nil, 0
		t.Revision++
	}
	return left, err
}
