package ledger

import (
	"iter"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/location"
)

// How the target of a task lies to a place: it is there, or below. What has ended is found by when.
const (
	at         = "at"
	below      = "below"
	endedAt    = "ended-at"
	endedBelow = "ended-below"
)

// depthMost is how many names of a place are told apart, from its root on.
const depthMost = 32

// targets are the keys by which a task is found that brings data to a place: [at or below, the place, Time(end_time)].
func targets(m *datamovev1.Task) (keys [][]string) {
	here, under := at, below
	switch ended := Ended(m.GetState()); {
	case !brings(m.GetSpec()) || heldBack(m) || ended && m.GetStartTime() == nil: // it has written nothing
		return nil
	case ended:
		here, under = endedAt, endedBelow
	}
	when := Time(m.GetEndTime())
	for i, place := range lineage(m.GetSpec().GetTarget()) {
		if i == 0 {
			keys = append(keys, []string{here, place, when})
			continue
		}
		keys = append(keys, []string{under, place, when})
	}
	return keys
}

// brings says whether a task makes of its target what its source is.
func brings(spec *datamovev1.TaskSpec) bool {
	switch spec.GetKind() {
	case datamovev1.TaskKind_TASK_KIND_COPY, datamovev1.TaskKind_TASK_KIND_SYNC, datamovev1.TaskKind_TASK_KIND_STAGE:
		return spec.GetTarget() != ""
	}
	return false
}

// HeldBack is why a task is paused that was submitted to wait for a word.
const HeldBack = "submitted to wait until it is resumed"

// heldBack says of such a task that it has not had it: it promises nothing.
func heldBack(m *datamovev1.Task) bool {
	return m.GetState() == datamovev1.TaskState_TASK_STATE_PAUSED && m.GetStartTime() == nil && m.GetWhy() == HeldBack
}

// lineage is a place and all that it lies in, each in one spelling. Of what is deeper than depthMost names the deeper ones are left out.
func lineage(text string) (places []string) {
	l, err := location.Parse(text)
	if err != nil {
		return []string{text}
	}
	for ok := true; ok; l, _, ok = l.Parent() {
		place := l.String()
		if place != "/" {
			place = strings.TrimSuffix(place, "/")
		}
		places = append(places, place)
	}
	return places[max(len(places)-depthMost, 0):]
}

// Bringing yields the tasks, but for those that are held back, that are to bring data to a place, above or below it, as far as their targets are spelled as the place is. Where the place is
// deeper than depthMost names, those are among them that write beside it.
func Bringing(tx *Tx, place string) iter.Seq2[*datamovev1.Task, error] {
	return byTarget(tx, place, at, below, nil)
}

// Brought yields those that have begun, and have ended after a time.
func Brought(tx *Tx, place string, after *timestamppb.Timestamp) iter.Seq2[*datamovev1.Task, error] {
	return byTarget(tx, place, endedAt, endedBelow, after)
}

func byTarget(tx *Tx, place, here, under string, after *timestamppb.Timestamp) iter.Seq2[*datamovev1.Task, error] {
	return func(yield func(*datamovev1.Task, error) bool) {
		line := lineage(place)
		ranges := []Range{targetRange(under, line[0], after)}
		for _, of := range line {
			ranges = append(ranges, targetRange(here, of, after))
		}
		for _, r := range ranges {
			for t, err := range tasksByTarget.All(tx, r) {
				if !yield(t, err) || err != nil {
					return
				}
			}
		}
	}
}

func targetRange(how, place string, after *timestamppb.Timestamp) Range {
	r := Range{Prefix: []string{how, place}}
	if after != nil {
		r.After = token(appendKey(nil, how, place, Time(after)))
	}
	return r
}
