package taskorder

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
)

// A task that changes or removes what is at a location waits for earlier tasks that read there: else they would read a part, or what came
// later. Where such a reader does not come to its end, the change fails: what was to be saved first may be the only copy. A task waits, too, for earlier ones that
// are to change the same location and can begin: what is there in the end is what was asked for last. Only tasks of the same
// owner are waited for. A task needs no right to anything until it begins: with any other rule one user could stop the removals of another by reading there
// and pausing. What policies, retention and watermarks do, and a purge by root, waits for no reader: room is made whatever waits.

// changesAt are the locations at which a task changes content for its owner.
func changesAt(t *pb.Task) []string {
	spec := t.GetSpec()
	if kind := task.Of(spec); kind.Changes() || kind.RemovesTarget && !kind.Replica && t.GetOwner().GetUid() != 0 {
		return []string{spec.GetTarget()}
	}
	return nil
}

// Overtakes says which earlier task of its owner one would spoil by beginning now; empty is none.
func (s *Order) Overtakes(t *pb.Task) string {
	places := changesAt(t)
	reader, place, err := s.first(t, places, state.Reading, func(tx *state.Tx, r *pb.Task, place string) (bool, error) {
		if !task.SameOwner(r, t) {
			return false, nil
		}
		return s.readsThere(tx, r, t, place)
	})
	if reader != nil && err == nil {
		return fmt.Sprintf("task %s (%s), submitted before it, reads %s, which it changes", reader.GetId(), task.Word(reader.GetState()), mover.Printable(place))
	}
	changes := func(_ *state.Tx, w *pb.Task, place string) (bool, error) {
		return task.SameOwner(w, t) && w.GetState() == task.Queued && Meet(s.Addresses(t, place), s.Addresses(w, w.GetSpec().GetTarget())) && s.begins(w), nil
	}
	writer, place, err1 := s.first(t, places, state.Bringing, changes)
	if writer == nil && err1 == nil {
		writer, place, err1 = s.first(t, places, state.Removing, changes)
	}
	switch err = cmp.Or(err, err1); {
	case err != nil:
		return unreadable(err)
	case writer == nil:
		return ""
	}
	return fmt.Sprintf("task %s (%s), submitted before it, changes %s, too", writer.GetId(), task.Word(writer.GetState()), mover.Printable(place))
}

// Led reports whether an epoch was that of a lead of a task that brings, or brought, something to where this one does. Those that were forgotten count no more.
func (s *Order) Led(t *pb.Task, epoch uint64) (found bool, err error) {
	err = s.ledger.View(func(tx *state.Tx) error {
		for _, place := range s.spellings(t, t.GetSpec().GetTarget()) {
			for _, tasks := range []iter.Seq2[*pb.Task, error]{state.Bringing(tx, place, ""), state.Removing(tx, place, ""), state.Brought(tx, place, nil)} {
				for x, err := range tasks {
					if err != nil {
						return err
					}
					if found = x.GetEpoch() == epoch || slices.Contains(x.GetEpochs(), epoch); found {
						return nil
					}
				}
			}
		}
		return nil
	})
	return found, err
}

// Unread says why a task may not change a place: one of its owner was to read there first, and has not come to its end. One that never began counts, too.
func (s *Order) Unread(tx *state.Tx, t *pb.Task) error {
	for _, place := range changesAt(t) {
		last, err := s.lastRead(tx, t, place)
		if err != nil {
			return err
		}
		for deed, r := range last {
			if r.GetState() == task.Done {
				continue
			}
			again, err := againLater(state.Reading(tx, state.Reads(r)[0], ""), r, func(x *pb.Task) bool { return task.SameOwner(x, t) && readingOf(x) == deed })
			if err != nil {
				return err
			}
			op := "replace"
			if task.Destroys(t.GetSpec()) {
				op = "remove"
			}
			return &mover.Error{Op: op, Location: place, Err: mover.Because(undone(again), "task %s, which was to read there first, is %s; bring that to its end, or submit this task again to %s what is there all the same", r.GetId(), ending(r), op)}
		}
	}
	return nil
}

// readingOf is what a task reads, and what for, as one word: what else it is told does not change that.
func readingOf(t *pb.Task) string {
	spec := t.GetSpec()
	o := spec.GetOptions()
	text := fmt.Sprintf("%s %v %q %q", deedOf(t), spec.GetKind(), spec.GetNode(), o.GetNames())
	for _, rule := range o.GetRules() {
		text += fmt.Sprintf(" %v %q", rule.GetExclude(), rule.GetPattern())
	}
	return text + " " + o.GetReleased().String()
}

// lastRead are the last tasks, one for each reading, that have ended since a task was submitted that changes a place. They are those that it had to wait for,
// and those that did the same again.
func (s *Order) lastRead(tx *state.Tx, t *pb.Task, place string) (last map[string]*pb.Task, err error) {
	last = map[string]*pb.Task{}
	for _, text := range s.spellings(t, place) {
		for r, err := range state.Read(tx, text, t.GetCreateTime()) {
			if err != nil {
				return nil, err
			}
			if !task.SameOwner(r, t) {
				continue
			}
			reading := readingOf(r)
			was := last[reading]
			if was != nil && !was.GetEndTime().AsTime().Before(r.GetEndTime().AsTime()) {
				continue
			}
			counts := was != nil
			if !counts && SubmittedBefore(r, t) {
				if counts, err = s.readsThere(tx, r, t, place); err != nil {
					return nil, err
				}
			}
			if counts {
				last[reading] = r
			}
		}
	}
	return last, nil
}

// readsThere says whether a task reads where another one changes something. One that waits for what the other one brings again reads nothing before.
func (s *Order) readsThere(tx *state.Tx, reader, t *pb.Task, place string) (bool, error) {
	for _, from := range state.Reads(reader) {
		if !Meet(s.Addresses(t, place), s.Addresses(reader, from)) {
			continue
		}
		last, err := s.lastBrought(tx, reader, from)
		if was := last[deedOf(t)]; err != nil || was == nil || was.GetState() == task.Done {
			return true, err
		}
	}
	return false, nil
}
