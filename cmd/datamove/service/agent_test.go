package service

import (
	"testing"

	pb "datamove.dev/api/datamove/v1"
)

// TestReachesText: an agent that lacks tiers is listed with them.
func TestReachesText(t *testing.T) {
	for want, g := range map[string]*pb.Agent{
		"":                         {},
		"cold, hot":                {Reaches: []string{"cold", "hot"}},
		"cold; lacks hot, warm":    {Reaches: []string{"cold"}, Lacks: []string{"hot", "warm"}},
		"no tier: lacks hot, warm": {Lacks: []string{"hot", "warm"}},
	} {
		if got := reachesText(g); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
