package local

import (
	"context"
	"fmt"
	"iter"

	"datamove.dev/mover"
	"datamove.dev/mover/plan"
)

// fit passes the actions of a pair on. When all are known and the target has less room than they need, tell is told that, and a run that is not to wait
// for room ends. before is what others need that are not written yet. What a target has free at the beginning counts, and of it what others write meanwhile is not taken off: what does not fit then never does.
func (p *pair) fit(ctx context.Context, actions iter.Seq2[plan.Action, error], before int64, tell func(string)) iter.Seq2[plan.Action, error] {
	room, known := p.room(ctx)
	if !known {
		return actions
	}
	return func(yield func(plan.Action, error) bool) {
		need, most, late := before, int64(0), int64(0)
		for a, err := range actions {
			if err == nil {
				need, most, late = need+growth(&a), max(most, replacing(&a)), late+leaving(&a)
			}
			if !yield(a, err) {
				return
			}
		}
		p.need, need = need, max(need, most)
		if p.request.DeleteFirst { // in a dry run: else it is free by now
			room.Bytes, late = room.Bytes+late, 0
		}
		if need <= room.Bytes {
			return
		}
		why := fmt.Sprintf("%d bytes are to be written, and %d have room: %s", need, room.Bytes, room.Why)
		if late > 0 {
			why += fmt.Sprintf("; %d bytes become free only after that, when what the source does not have is removed: %s", late, removesFirst)
		}
		if p.request.OnFull == FullFail || need <= room.Bytes+late { // what the run itself removes at its end would never come
			yield(plan.Action{}, &mover.Error{Op: "copy to", Place: p.target.String(), Err: fmt.Errorf("%w: %s", mover.ErrFull, why)})
			return
		}
		tell(p.target.String() + ": " + why)
	}
}

// room is what the target takes, as far as that says something of this pair: within one volume contents may be shared.
func (p *pair) room(ctx context.Context) (room mover.Room, known bool) {
	if from := volumeOf(p.source); from != "" && from == volumeOf(p.target) && p.request.Reflink != ReflinkNever {
		return room, false
	}
	t, ok := mover.As[mover.RoomTeller](p.target)
	if !ok {
		return room, false
	}
	room, err := t.Room(ctx)
	return room, err == nil && room.Bytes >= 0
}

func volumeOf(p mover.Source) string {
	l, ok := mover.As[mover.Locator](p)
	if !ok {
		return ""
	}
	volume, _, err := l.Located()
	if err != nil {
		return ""
	}
	return volume
}

// replacing is what a file takes beside the one that it replaces.
func replacing(a *plan.Action) int64 {
	if a.Op != plan.Replace || a.Source.Kind != mover.File {
		return 0
	}
	return min(a.Source.Size, a.Source.Stored)
}

// leaving is what the removal of a file gives back. Removals come last.
func leaving(a *plan.Action) int64 {
	if a.Op != plan.Remove || a.Target.Kind != mover.File {
		return 0
	}
	return min(a.Target.Size, a.Target.Stored)
}

// growth is by how many bytes a target grows at the least by an action. A comparison may end with none.
func growth(a *plan.Action) int64 {
	if a.Op != plan.Create && a.Op != plan.Replace || a.Source.Kind != mover.File {
		return 0
	}
	return max(0, min(a.Source.Size, a.Source.Stored)-a.Target.Stored)
}
