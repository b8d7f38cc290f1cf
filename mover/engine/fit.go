package engine

import (
	"context"
	"fmt"
	"iter"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/units"
)

// fit passes the actions of a pair on. When all are known and the target has less room than they need, tell is told that, and a run that is not to wait
// for room ends. before is what others need that are not written yet. What a target has free at the beginning counts, and of it what others write meanwhile is not taken off: what does not fit then never does,
// unless others make room.
func (p *pair) fit(ctx context.Context, actions iter.Seq2[plan.Action, error], before int64, tell func(string)) iter.Seq2[plan.Action, error] {
	room, known := p.room(ctx)
	if !known {
		return actions
	}
	return func(yield func(plan.Action, error) bool) {
		f := fitting{need: before}
		for a, err := range actions {
			if err == nil {
				f.add(&a)
			}
			if !yield(a, err) {
				return
			}
		}
		p.need = f.need
		if p.request.DeleteFirst { // in a dry run: else it is free by now
			room.Bytes, f.late = room.Bytes+f.late, 0
		}
		switch why := f.lacks(room); {
		case why == "":
		case p.request.OnNoSpace == NoSpaceFail || f.removes(room) && !p.grown.Load(): // what the run itself removes at its end would never come
			yield(plan.Action{}, p.full(why))
		default:
			tell(p.target.String() + ": " + why)
		}
	}
}

func (p *pair) full(why string) error {
	return &mover.Error{Op: "copy to", Location: p.target.String(), Err: fmt.Errorf("%w: %s", mover.ErrFull, why)}
}

// fitting is what a plan takes of a target, in bytes.
type fitting struct {
	need int64 // by which the target grows
	most int64 // that one file takes beside the one that it replaces
	late int64 // that are removed at the end
}

func (f *fitting) add(a *plan.Action) {
	f.need, f.most, f.late = f.need+growth(a), max(f.most, replacing(a)), f.late+leaving(a)
}

// lacks says that there is less room than is needed; "" is enough.
func (f *fitting) lacks(room mover.Room) string {
	need := max(f.need, f.most)
	if need <= room.Bytes {
		return ""
	}
	why := fmt.Sprintf("%s are to be written, and there is room for %s, which is %s too little: %s", units.Bytes(need), units.Bytes(room.Bytes), units.Bytes(need-room.Bytes), room.Why)
	if f.late > 0 {
		why += fmt.Sprintf("; %s become free only after that, when what the source does not have is removed: %s", units.Bytes(f.late), removesFirst)
	}
	return why
}

// removes says whether there is room enough after the removals.
func (f *fitting) removes(room mover.Room) bool { return max(f.need, f.most) <= room.Bytes+f.late }

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
