// Package taskorder says which tasks wait for which other tasks: by what they read and change, and when they were submitted. It decides by the ledger, and
// has no state and no lock of its own.
package taskorder

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
)

// Order says which tasks wait for which: by what they read and change, and when they were submitted. It has no state but the ledger's.
type Order struct {
	ledger *state.Ledger
	conf   func() *config.Config
	begins func(*pb.Task) bool // an agent is there that could work on it
}

// New returns the order of the tasks in a ledger.
func New(books *state.Ledger, conf func() *config.Config, begins func(*pb.Task) bool) *Order {
	return &Order{books, conf, begins}
}

// A task that reads a location waits for earlier copies, syncs and stagings that bring data there: else it would read a part. Only
// earlier ones are waited for, so tasks that read what each other writes never wait in a circle. What has begun and has not come to its end leaves a part
// behind; a task that was submitted meanwhile relied on the whole, and fails. One that is submitted later reads what is there. Only tasks of the same owner, and of
// root, which brings data for others, count: a task needs no right to its target until it begins. With any other rule one account could stop the readers of another
// one for ever, by a copy to there that is paused; and why would tell an account of tasks that it may not see.

// Addresses are those of a location of a task: as it is spelled, and without symbolic links.
func (s *Order) Addresses(t *pb.Task, place string) []string {
	node := t.GetSpec().GetNode()
	at := []string{placement.Address(place, node, s.conf())}
	for _, r := range t.GetRealPaths() {
		if r.GetLocation() == place {
			at = append(at, placement.Address(r.GetReal(), cmp.Or(node, r.GetNode()), s.conf()))
		}
	}
	return at
}

// Meet says whether one of some addresses overlaps one of others.
func Meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool { return placement.Overlap(x, y) })
	})
}

// spellings are the ways in which another task can name a place of one, or the root of a tier that lies in it.
func (s *Order) spellings(t *pb.Task, place string) (all []string) {
	texts := []string{place}
	for _, r := range t.GetRealPaths() {
		if r.GetLocation() == place {
			texts = append(texts, r.GetReal())
		}
	}
	for _, text := range texts {
		for _, name := range spelled(text, s.conf()) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// spelled are those of one text.
func spelled(text string, c *config.Config) []string {
	at := placement.Address(text, "", c)
	all := []string{strings.TrimPrefix(at, ":")}
	for name := range c.Tiers {
		root := placement.Address(name+":", "", c)
		switch {
		case !placement.Overlap(at, root):
		case len(at) <= len(root):
			all = append(all, name+":")
		default:
			all = append(all, name+":"+strings.TrimPrefix(at[len(root):], "/"))
		}
	}
	return all
}

// SubmittedBefore says whether a task was submitted before another one. Every two tasks have an order.
func SubmittedBefore(a, b *pb.Task) bool {
	x, y := a.GetCreateTime().AsTime(), b.GetCreateTime().AsTime()
	return x.Before(y) || x.Equal(y) && a.GetId() < b.GetId()
}

// lastBefore is an id above those of all tasks that were submitted before one: ids begin with the millisecond.
func lastBefore(t *pb.Task) string {
	return t.GetId()[:min(len(t.GetId()), task.IDTime)] + "~"
}

// ToldAs is a task as the owner of another one is told of it: an account hears no ids of tasks that it may not see.
func ToldAs(other, t *pb.Task) string {
	if task.Concerns(other, t) {
		return "task " + other.GetId()
	}
	return "a task of another account"
}

// meets says whether a task brings data to where another one reads, concerns that, and was submitted before it.
func (s *Order) meets(writer, reader *pb.Task, place string) bool {
	return SubmittedBefore(writer, reader) && task.Concerns(writer, reader) && Meet(s.Addresses(reader, place), s.Addresses(writer, writer.GetSpec().GetTarget()))
}

// first finds one of the tasks that were submitted before another one and meet one of its places.
func (s *Order) first(t *pb.Task, places []string, find finder, is func(tx *state.Tx, other *pb.Task, place string) (bool, error)) (found *pb.Task, at string, err error) {
	err = s.ledger.View(func(tx *state.Tx) error {
		for _, place := range places {
			for _, text := range s.spellings(t, place) {
				for other, err := range find(tx, text, lastBefore(t)) {
					if err != nil {
						return err
					}
					if !SubmittedBefore(other, t) {
						continue
					}
					if yes, err := is(tx, other, place); err != nil || yes {
						found, at = other, place
						return err
					}
				}
			}
		}
		return nil
	})
	return found, at, err
}

// finder is one of the indexes of the ledger.
type finder func(tx *state.Tx, place, last string) iter.Seq2[*pb.Task, error]

// Behind says for which earlier task one waits, because that brings data to where it reads; empty is none.
func (s *Order) Behind(t *pb.Task) string {
	w, place, err := s.first(t, state.Reads(t), state.Bringing, func(_ *state.Tx, w *pb.Task, place string) (bool, error) { return s.meets(w, t, place), nil })
	switch {
	case err != nil:
		return unreadable(err)
	case w == nil:
		return ""
	}
	return fmt.Sprintf("task %s (%s), submitted before it, brings data to %s, which it reads", w.GetId(), task.Word(w.GetState()), mover.Printable(place))
}

func unreadable(err error) string { return "the tasks before it can not be read: " + err.Error() }

// HalfBrought says why a task may not read: what it has waited for has left a part of the data.
func (s *Order) HalfBrought(tx *state.Tx, t *pb.Task) error {
	for _, place := range state.Reads(t) {
		last, err := s.lastBrought(tx, t, place)
		if err != nil {
			return err
		}
		for same, w := range last {
			if w.GetState() == task.Done {
				continue
			}
			again, err := againLater(state.Bringing(tx, w.GetSpec().GetTarget(), ""), w, func(x *pb.Task) bool { return task.Concerns(x, t) && deedOf(x) == same })
			if err != nil {
				return err
			}
			return &mover.Error{Op: "read", Location: place, Err: mover.Because(undone(again), "task %s, which was to bring data there first, is %s; bring the data again, or submit this task again to read what is there", w.GetId(), ending(w))}
		}
	}
	return nil
}

// deedOf is what a task brings where, as one word.
func deedOf(t *pb.Task) string {
	spec := t.GetSpec()
	return strings.Join(append(append([]string{}, spec.GetSources()...), spec.GetSource(), spec.GetTarget()), "\x00")
}

// againLater says whether a later one of some tasks is about to do what one has not brought to its end.
func againLater(all iter.Seq2[*pb.Task, error], was *pb.Task, same func(*pb.Task) bool) (bool, error) {
	for x, err := range all {
		if err != nil || SubmittedBefore(was, x) && same(x) {
			return err == nil, err
		}
	}
	return false, nil
}

// undone is of what kind it is that an earlier task was not brought to its end: where that is done again, the same request may help later.
func undone(again bool) error {
	if again {
		return mover.ErrConflict
	}
	return mover.ErrRefused
}

// ending is how a task has ended: its state and its error.
func ending(t *pb.Task) string {
	return strings.TrimSuffix(task.Word(t.GetState())+": "+t.GetError(), ": ")
}

// lastBrought are the last tasks, one for each source and target, that have brought data to where a task reads since that was submitted. They are those that
// it had to wait for, and those that did the same again.
func (s *Order) lastBrought(tx *state.Tx, t *pb.Task, place string) (last map[string]*pb.Task, err error) {
	last = map[string]*pb.Task{}
	for _, text := range s.spellings(t, place) {
		for w, err := range state.Brought(tx, text, t.GetCreateTime()) {
			if err != nil {
				return nil, err
			}
			deed := deedOf(w)
			was := last[deed]
			if task.Concerns(w, t) && (was != nil || s.meets(w, t, place)) && (was == nil || was.GetEndTime().AsTime().Before(w.GetEndTime().AsTime())) {
				last[deed] = w
			}
		}
	}
	return last, nil
}
