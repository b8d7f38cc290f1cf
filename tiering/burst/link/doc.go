// Package link moves what a burst needs over the link to AWS, and back: it measures, sends, brings home, and verifies.
//
// A [Way] does so with the engine of package local and, for checkpoints, with package hop. Before each part that costs money its [Toll] is asked; where that refuses, nothing more is sent than
// the parts in flight, one for each stream, and the error is mover.ErrRefused. What was moved stays, and the same call goes on with the rest.
//
// [Estimate] says what a burst would send and cost, also without a service.
//
// Nothing is decided here but what is equal, and nothing remembered beside the journal of the engine. A Way may be used by many goroutines. TestToll, TestHome, TestCheckpoints and TestMeasure show it.
package link
