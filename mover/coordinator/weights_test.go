package coordinator

import (
	"fmt"
	"maps"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/authz"
)

// weighed is a desk with two projects, of which vision has a weight.
func weighed(t *testing.T, weight int) *desk {
	conf := site()
	conf.Projects = map[string]config.Project{"vision": {Weight: weight}, "audio": {}}
	conf.Quotas.Default.Slots = 100
	return newDesk(t, conf, authz.Input{UID: 990, Projects: map[string]authz.Project{
		"vision": {Roots: []string{"project:vision"}, Members: []string{"alice"}},
		"audio":  {Roots: []string{"project:audio"}, Members: []string{"carol"}},
	}})
}

// told are the limits that an agent was told of since the last time; nil is of none.
func (d *desk) told(agent string) (last *agentv1.Limits) {
	for len(d.orders[agent]) > 0 {
		if l := (<-d.orders[agent]).GetLimits(); l != nil {
			last = l
		}
	}
	return last
}

// TestWeightsAreTold: agents know the weights of projects, by which they give turns, also
// when they have changed, and are gone.
func TestWeightsAreTold(t *testing.T) {
	d := weighed(t, 3)
	for _, weight := range []int{3, 5, 1} {
		conf := *d.conf
		conf.Projects = map[string]config.Project{"vision": {Weight: weight}, "audio": {}}
		d.conf = &conf
		d.scheduler.tellLimits()
		for agent := range d.orders {
			want := map[string]int64{}
			if weight > 1 {
				want["vision"] = int64(weight)
			}
			if l := d.told(agent); l == nil || !maps.Equal(l.GetProjects(), want) {
				t.Errorf("%s was told %v, want %v", agent, l, want)
			}
		}
	}
	if d.scheduler.tellLimits(); d.told("n1") != nil {
		t.Error("n1 is told of nothing, again")
	}
}

// TestWeightsOfLeads: when agents have no room for all, a project has the part of the
// leads that its weight says.
func TestWeightsOfLeads(t *testing.T) {
	for weight, want := range map[int]int{0: 4, 1: 4, 3: 6} {
		d := weighed(t, weight)
		for i := range 8 {
			for project, ctx := range map[string]string{"vision": "alice", "audio": "carol"} {
				at := fmt.Sprintf("project:%s/%d", project, i)
				_, err := d.SubmitTask(as(ctx, uint32(1000+len(ctx))), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: at + "/in", Target: at + "/out"}})
				wants(t, at, err, nil)
			}
		}
		for _, a := range d.scheduler.agents {
			a.leads = 4
		}
		d.give()
		got := 0
		for _, l := range d.taken {
			if l.GetSpec().GetProject() == "vision" {
				got++
			}
		}
		if len(d.taken) != 8 || got != want {
			t.Errorf("with weight %d it has %d of %d leads, want %d", weight, got, len(d.taken), want)
		}
	}
}
