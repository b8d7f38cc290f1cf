// Package burst decides what a burst is: training that overflows into AWS, with its data staged there before, and its checkpoints brought home.
//
// Its words: a [Burst] is the declaration of one, a file of `kind: Burst`; a [Record] is what is known of one, in a [State] of a table; [Admission] are the
// rules by which a job may burst at all; an [Estimate] is what it will take, of time and of what is paid for; a [Sight] is what AWS shows of a resource,
// and a [Verdict] of the reaper whether it may go. Money is of tiering/burst/budget, rates are of tiering/burst/pricing.
//
// Everything here is pure, and for any number of goroutines: files that people write are read, and nothing is asked or done. AWS is asked by burst/aws, records are kept by
// the coordinator, and what is decided here burst/lifecycle does. Declarations are hostile: names, paths and sizes are bounded, and what does not fit has its line.
//
// TestRead, TestAdmit, TestSize, TestEstimate, TestResidency, TestStates and TestReap show it.
package burst
