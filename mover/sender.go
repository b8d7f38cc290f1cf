package mover

import "time"

// Sender is a target that is reached over a network, and takes a part whole before it sends
// it. It knows what its writers wait for.
type Sender interface {
	// Sending is how long its requests that bring bytes have taken so far, summed over all
	// of them, and for how much of that the bytes were on their way: not all of them were
	// taken by the connection.
	Sending() (onTheWay, all time.Duration)
}
