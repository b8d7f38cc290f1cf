package datasetserver

import (
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
)

// TestLooksRemembered: what was seen counts for a while, and what is remembered has a bound.
func TestLooksRemembered(t *testing.T) {
	var l looks
	l.note("seen since it was asked", 0)
	x, mine := l.begin("seen since it was asked", LookCounts-1)
	if mine {
		t.Error("it is looked again at what was seen since it was asked")
	}
	<-x.done
	if _, mine = l.begin("seen since it was asked", LookCounts); !mine {
		t.Error("what was seen counts for ever")
	}
	for i := range 3 * seenKept {
		l.note(lookKey(&pb.Account{Uid: uint32(i)}, &pb.Replica{}), time.Duration(i))
	}
	if len(l.of) > seenKept {
		t.Errorf("%d are remembered", len(l.of))
	}
}
