package checkpoint

import "slices"

// State is how far a checkpoint is on its way to one tier.
type State string

// The states. What ends before it is verified begins again, or is superseded: its source is gone, which is how trainers make room, and no error.
const (
	Seen       State = "seen"     // something is there, and is not complete
	Settling   State = "settling" // it is complete, and has not been still for long enough
	Complete   State = "complete"
	Copying    State = "copying"
	Copied     State = "copied"
	Verified   State = "verified" // at the tier, and visible there
	Retained   State = "retained" // retention has been asked, and keeps it
	Expired    State = "expired"  // retention has removed it
	Superseded State = "superseded"
)

var nextStates = map[State][]State{
	Seen:       {Settling, Superseded},
	Settling:   {Seen, Complete, Superseded},
	Complete:   {Seen, Settling, Copying, Superseded},
	Copying:    {Seen, Settling, Complete, Copied, Superseded}, // back: it changed, or the copy failed
	Copied:     {Seen, Settling, Complete, Verified, Superseded},
	Verified:   {Retained, Expired, Settling}, // it was saved again under its name
	Retained:   {Expired, Settling},
	Expired:    {Settling},
	Superseded: {Seen, Settling},
}

// May says whether a checkpoint can come from one state to another. From nothing it can come to be seen, and be found where it was brought before, or removed there.
func (s State) May(next State) bool {
	if s == "" {
		return next == Seen || next == Settling || next == Verified || next == Expired
	}
	return slices.Contains(nextStates[s], next)
}
