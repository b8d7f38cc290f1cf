package cluster

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// lateOrders is a network on which what an agent is told takes its time.
type lateOrders time.Duration

func (l lateOrders) Message(agentName, _ string, sent bool) rig.Fate {
	if agentName == "" || sent {
		return rig.Fate{}
	}
	return rig.Fate{Delay: time.Duration(l)}
}

func (lateOrders) Call(string, int, string) (time.Duration, bool) { return 0, false }

// TestLateLead: a lead reaches its agent when it is over already, just before the next task for the same target. The worker of the first one is
// gone, or never begins, when that of the second one takes the lock.
func TestLateLead(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		source := c.Tree("source", 20, 1, 2<<20)
		for i := range 8 { // the two begin at one instant, in either order
			target := filepath.Join(c.Dir, fmt.Sprint("target", i))
			c.SetWeather(lateOrders(3 * time.Second))
			first := c.Copy(source, target).GetId()
			c.Until("it is led", func() bool { return c.Now(first).GetAgent() != "" })
			must.Get(c.CancelTask(t.Context(), &pb.CancelTaskRequest{Id: first}))(t)
			c.Ends(c.Now(first), nil)
			second := c.Copy(source, target).GetId()
			c.Until("the next one is led", func() bool { return c.Now(second).GetAgent() != "" })
			c.SetWeather(nil)
			c.Done(second)
			c.Same(source, target)
		}
	})
}
