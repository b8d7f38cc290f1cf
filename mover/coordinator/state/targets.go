package state

import (
	"iter"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
)

// How what a task does to a place lies to another one: it is there, or below. What has ended is found by when.
const (
	at           = "at"
	below        = "below"
	endedAt      = "ended-at"
	endedBelow   = "ended-below"
	removesAt    = "removes-at"
	removesBelow = "removes-below"
	readsAt      = "reads-at"
	readsBelow   = "reads-below"
	readAt       = "read-at"
	readBelow    = "read-below"
)

const (
	depthMost   = 32 // names of a place that are told apart, from its root on
	sourcesMost = 16 // places that a task reads and that are told apart; of one with more only their roots are known
)

// targets are the keys by which a task is found that changes a place: [how it lies, the place, Time(end_time)].
func targets(m *datamovev1.Task) (keys [][]string) {
	here, under := at, below
	ended := Ended(m.GetState())
	switch {
	case IsHeldBack(m) || ended && m.GetStartTime() == nil: // it has written nothing
		return nil
	case removes(m.GetSpec()) && !ended:
		here, under = removesAt, removesBelow
	case !brings(m.GetSpec()):
		return nil
	case ended:
		here, under = endedAt, endedBelow
	}
	return lying(names(m, m.GetSpec().GetTarget()), here, under, Time(m.GetEndTime()))
}

// sources are the keys by which a task is found that is to read a place: [how it lies, the place].
func sources(m *datamovev1.Task) [][]string {
	if Ended(m.GetState()) || IsHeldBack(m) {
		return nil
	}
	return lying(sourcesOf(m), readsAt, readsBelow)
}

// pastSources are those of one that has ended, whether it has read or not: [how it lies, the place, Time(end_time)].
func pastSources(m *datamovev1.Task) [][]string {
	if !Ended(m.GetState()) || IsHeldBack(m) {
		return nil
	}
	return lying(sourcesOf(m), readAt, readBelow, Time(m.GetEndTime()))
}

// sourcesOf are the places that a task reads, in all their spellings; of many only the roots.
func sourcesOf(m *datamovev1.Task) (places []string) {
	for _, place := range Reads(m) {
		places = append(places, names(m, place)...)
	}
	if len(places) > sourcesMost {
		for i, place := range places {
			places[i] = rootOf(place)
		}
	}
	return places
}

// lying are keys for places and all that they lie in, each once.
func lying(places []string, here, under string, rest ...string) (keys [][]string) {
	seen := map[string]bool{}
	add := func(how, place string) {
		if key := how + place; !seen[key] {
			seen[key] = true
			keys = append(keys, append([]string{how, place}, rest...))
		}
	}
	for _, place := range places {
		for i, above := range lineage(place) {
			if i == 0 {
				add(here, above)
				continue
			}
			add(under, above)
		}
	}
	return keys
}

// names are the spellings under which a place of a task is found: as it was asked for, and without symbolic links.
func names(m *datamovev1.Task, place string) []string {
	all := []string{place}
	for _, r := range m.GetRealPaths() {
		if r.GetLocation() == place {
			all = append(all, r.GetReal())
		}
	}
	return all
}

// Reads are the locations from which a task takes content as it is. A dataset is none of them: its content is compared with a digest.
func Reads(m *datamovev1.Task) (places []string) {
	spec := m.GetSpec()
	add := func(texts ...string) {
		for _, text := range texts {
			if text != "" {
				places = append(places, text)
			}
		}
	}
	kind := task.Of(spec)
	if !kind.ReadsSource || kind.Brings() && m.GetDataset() != "" {
		return nil
	}
	if kind.ReadOnly {
		add(spec.GetTarget())
	}
	add(spec.GetSource())
	add(spec.GetSources()...)
	return places
}

// brings says whether a task makes of its target what its source is.
func brings(spec *datamovev1.TaskSpec) bool {
	return task.Of(spec).Brings() && spec.GetTarget() != ""
}

// removes says whether a task was asked to remove its target.
func removes(spec *datamovev1.TaskSpec) bool {
	kind := task.Of(spec)
	return kind.RemovesTarget && !kind.Replica && spec.GetTarget() != ""
}

// HeldBack is why a task is paused that was submitted to wait for a word.
const HeldBack = "submitted to wait until it is resumed"

// IsHeldBack says of such a task that it has not had it, also where it was cancelled meanwhile: it promises nothing.
func IsHeldBack(m *datamovev1.Task) bool {
	waits := m.GetState() == datamovev1.TaskState_TASK_STATE_PAUSED || Ended(m.GetState())
	return waits && m.GetStartTime() == nil && strings.HasPrefix(m.GetWhy(), HeldBack)
}

// lineage is a place and all that it lies in, each in one spelling. Of what is deeper than depthMost names the deeper ones are left out.
func lineage(text string) (places []string) {
	l, err := location.Parse(text)
	if err != nil {
		return []string{text}
	}
	for ok := true; ok; l, _, ok = l.Parent() {
		places = append(places, spelling(l))
	}
	return places[max(len(places)-depthMost, 0):]
}

// rootOf is the last of a lineage.
func rootOf(text string) string {
	l, err := location.Parse(text)
	if err != nil {
		return text
	}
	for above, _, ok := l.Parent(); ok; above, _, ok = above.Parent() {
		l = above
	}
	return spelling(l)
}

// spelling is a place as it stands in keys.
func spelling(l location.Location) string {
	place := l.String()
	if place != "/" {
		place = strings.TrimSuffix(place, "/")
	}
	return place
}

// Bringing yields the tasks, but for those that are held back, that are to bring data to a place, above or below it, as far as their targets are spelled as the place is. Where the place is
// deeper than depthMost names, those are among them that write beside it. One may come more than once; those with an id above a last one are left out.
func Bringing(tx *Tx, place, last string) iter.Seq2[*datamovev1.Task, error] {
	return byPlace(tx, tasksByTarget, place, at, below, nil, last)
}

// Brought yields those that have begun, and have ended after a time.
func Brought(tx *Tx, place string, after *timestamppb.Timestamp) iter.Seq2[*datamovev1.Task, error] {
	return byPlace(tx, tasksByTarget, place, endedAt, endedBelow, after, "")
}

// Removing yields those that are to remove a place, or something above or below it, as Bringing.
func Removing(tx *Tx, place, last string) iter.Seq2[*datamovev1.Task, error] {
	return byPlace(tx, tasksByTarget, place, removesAt, removesBelow, nil, last)
}

// Reading yields those that are to read there, as Bringing. Where they read many places, those are among them that read beside it.
func Reading(tx *Tx, place, last string) iter.Seq2[*datamovev1.Task, error] {
	return byPlace(tx, tasksBySource, place, readsAt, readsBelow, nil, last)
}

// Read yields those that were to read there, and have ended after a time, as Reading.
func Read(tx *Tx, place string, after *timestamppb.Timestamp) iter.Seq2[*datamovev1.Task, error] {
	return byPlace(tx, tasksByPastSource, place, readAt, readBelow, after, "")
}

func byPlace(tx *Tx, index *Index[*datamovev1.Task], place, here, under string, after *timestamppb.Timestamp, last string) iter.Seq2[*datamovev1.Task, error] {
	return func(yield func(*datamovev1.Task, error) bool) {
		line := lineage(place)
		ranges := []Range{targetRange(under, line[0], after)}
		for _, of := range line {
			ranges = append(ranges, targetRange(here, of, after))
		}
		for _, r := range ranges {
			for t, err := range index.All(tx, r) {
				if err == nil && last != "" && t.GetId() > last { // of those that have not ended, the ids rise
					break
				}
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
