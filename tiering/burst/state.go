package burst

import "slices"

// State is how far a burst is. What is done in a state may be done again after a crash.
type State string

// The states of a burst.
const (
	Declared  State = "declared"  // it is admitted, and its money is reserved; nothing is in AWS
	Staging   State = "staging"   // its data goes to the bucket
	Creating  State = "creating"  // its file system is made, and joined to the bucket
	Importing State = "importing" // the file system reads the names that are in the bucket
	Ready     State = "ready"     // jobs may run
	Leaving   State = "leaving"   // what has to come home is home and verified, or was abandoned by name; what is in AWS goes
	Gone      State = "gone"      // nothing of it is in AWS any more; its money is settled
)

// next are the states that may come after each.
var next = map[State][]State{
	Declared:  {Staging, Leaving},
	Staging:   {Creating, Ready, Leaving}, // without a file system it is ready
	Creating:  {Importing, Leaving},
	Importing: {Ready, Leaving},
	Ready:     {Staging, Leaving}, // more data is staged
	Leaving:   {Gone},
	Gone:      nil,
}

// States are all, in the order in which they come.
func States() []State { return []State{Declared, Staging, Creating, Importing, Ready, Leaving, Gone} }

// May reports whether a state may come after this one.
func (s State) May(then State) bool { return slices.Contains(next[s], then) }

// Ended reports whether nothing is to be done any more. What is no state has not ended: it is unknown what of it is in AWS.
func (s State) Ended() bool {
	then, known := next[s]
	return known && len(then) == 0
}

// Known reports whether it is a state.
func (s State) Known() bool {
	_, known := next[s]
	return known
}
