package placement

import (
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// Room is how full a tier is, on a node if each has one.
type Room struct {
	*agentv1.Room
	Node string
	At   time.Time // when its agent said so
}
