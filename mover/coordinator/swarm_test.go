package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/server/authz"
)

// names are the members that an agent was told, seeds with a star.
func names(o *agentv1.Swarm) (all []string) {
	for _, m := range o.GetMembers() {
		name := m.GetAgent()
		if m.GetSeed() {
			name += "*"
		}
		all = append(all, name)
	}
	return all
}

// present are those among which homes are chosen.
func present(o *agentv1.Swarm) []string { return o.GetHomes()[len(o.GetHomes())-1].GetAgents() }

// TestSwarm: from the first node that stages a version to the last one that has it.
func TestSwarm(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.attend("n3")
	d.add(root, "vision", "project:vision", 1)
	stage := func(node string) string {
		a, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: node})
		wants(t, "stage", err, nil)
		d.give()
		return a.GetTask().GetId()
	}
	first := stage("n1")
	o := d.heard["n1"]
	if !slices.Equal(names(o), []string{"n1"}) || !slices.Equal(present(o), []string{"n1"}) || o.GetDigest() != digestOf(1) || len(o.GetTicket()) < 20 || o.GetPieceBytes() == 0 ||
		o.GetMembers()[0].GetAddress() != "n1.site:7645" || o.GetLocation() != "scratch:.datasets/vision/"+digestOf(1)+"/data" {
		t.Fatalf("the first one was told %v", o)
	}
	second := stage("n2")
	if o := d.heard["n2"]; !slices.Equal(names(o), []string{"n1", "n2"}) || !slices.Equal(present(o), []string{"n1"}) || o.GetTicket() != d.heard["n1"].GetTicket() {
		t.Errorf("the second one was told %v, before it has settled", o)
	}
	d.pass(settling)
	d.scheduler.tendSwarms()
	d.give()
	for _, name := range []string{"n1", "n2"} {
		if o := d.heard[name]; !slices.Equal(names(o), []string{"n1", "n2"}) || !slices.Equal(present(o), []string{"n1", "n2"}) || len(o.GetHomes()) != 2 {
			t.Errorf("%s was told %v", name, o)
		}
	}
	wants(t, "finish", d.finish(first, 1, nil), nil)
	d.give()
	if o := d.heard["n2"]; !slices.Equal(names(o), []string{"n2", "n1*"}) || !slices.Equal(present(o), []string{"n2"}) {
		t.Errorf("n1 has it, and n2 was told %v", o)
	}
	if d.heard["n1"].GetTicket() == "" {
		t.Error("who has it gives it to nobody")
	}
	wants(t, "finish", d.finish(second, 1, nil), nil)
	d.give()
	for _, name := range []string{"n1", "n2"} {
		if d.heard[name].GetTicket() != "" {
			t.Errorf("nobody stages it any more, and %s was told %v", name, d.heard[name])
		}
	}
	if len(d.scheduler.swarms) > 0 {
		t.Errorf("%d swarms are left", len(d.scheduler.swarms))
	}
	third := stage("n3")
	if o := d.heard["n3"]; !slices.Equal(names(o), []string{"n3", "n1*", "n2*"}) || !slices.Equal(present(o), []string{"n3"}) {
		t.Errorf("two have it, and who comes late was told %v", o)
	}
	if d.heard["n1"].GetTicket() != d.heard["n3"].GetTicket() || d.heard["n1"].GetLocation() != "scratch:.datasets/vision/"+digestOf(1)+"/data" {
		t.Errorf("who has it was told %v", d.heard["n1"])
	}
	wants(t, "finish", d.finish(third, 1, nil), nil)
}

// TestSwarmOfNone: what is shared by nodes, or is no dataset, is not given around; and an agent that gives nothing reads for itself.
func TestSwarmOfNone(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "vision", "archive:vision", 1)
	for _, r := range []*pb.StageRequest{{Source: "dataset:vision", Tier: "project"}, {Source: "project:here", Tier: "scratch", Node: "n1"}} {
		_, err := d.datasets.Stage(root, r)
		wants(t, "stage", err, nil)
	}
	d.give()
	d.Service.scheduler.agents["n2"].hello.PeerPort = 0
	_, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2"})
	wants(t, "stage", err, nil)
	d.give()
	d.scheduler.tendSwarms()
	if len(d.scheduler.swarms) > 0 {
		t.Errorf("%v", d.scheduler.swarms)
	}
}

// TestSwarmAgain: a coordinator that begins anew tells those who are at work still.
func TestSwarmAgain(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "vision", "project:vision", 1)
	for _, node := range []string{"n1", "n2"} {
		_, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: node})
		wants(t, "stage", err, nil)
	}
	d.give()
	before := d.heard["n1"]
	d.close()
	d.open()
	d.scheduler.tendSwarms()
	d.pass(settling)
	d.scheduler.tendSwarms()
	d.give()
	for _, name := range []string{"n1", "n2"} {
		if o := d.heard[name]; !slices.Equal(present(o), []string{"n1", "n2"}) || o.GetTicket() == before.GetTicket() || o.GetPieceBytes() != before.GetPieceBytes() {
			t.Errorf("%s was told %v, and before %v", name, o, before)
		}
	}
}

// TestSwarmNews: who comes is told at once who is there, and is told to who is alone at once; what happens among many in a moment they
// are told once.
func TestSwarmNews(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "vision", "project:vision", 1)
	var all []string
	told := map[string]int{}
	hear := func() {
		d.scheduler.tendSwarms()
		for _, name := range all {
			for len(d.orders[name]) > 0 {
				if o := (<-d.orders[name]).GetSwarm(); o != nil {
					told[name]++
					d.heard[name] = o
				}
			}
		}
	}
	ids := map[string]string{}
	for i := range 20 {
		name := fmt.Sprintf("m%02d", i)
		all = append(all, name)
		d.attend(name)
		a, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: name})
		wants(t, "stage", err, nil)
		ids[name] = a.GetTask().GetId()
		d.give()
		if o := d.heard[name]; !slices.Equal(names(o), all) {
			t.Fatalf("%s was told %v when it came", name, names(o))
		}
		if i == 1 && !slices.Equal(names(d.heard["m00"]), all) {
			t.Fatalf("the first one was told %v when the second one came", names(d.heard["m00"]))
		}
	}
	hear()
	if n := len(names(d.heard["m00"])); n > 3 {
		t.Errorf("m00 was told of %d at once", n)
	}
	clear(told)
	d.pass(settling)
	hear()
	for _, name := range all {
		if o := d.heard[name]; told[name] != 1 || !slices.Equal(names(o), all) || !slices.Equal(present(o), all) {
			t.Errorf("%s was told %d times, at last that %v are there, and %v home", name, told[name], names(o), present(o))
		}
	}
	clear(told)
	for _, name := range all[:10] {
		d.scheduler.lose(t.Context(), d.scheduler.leads[ids[name]], "it is gone")
	}
	hear()
	d.pass(settling)
	hear()
	for _, name := range all[10:] {
		if o := d.heard[name]; told[name] > 2 || !slices.Equal(names(o), all[10:]) || !slices.Equal(present(o), all[10:]) {
			t.Errorf("%s was told %d times, at last that %v are there, and %v home", name, told[name], names(o), present(o))
		}
	}
}

// TestSwarmReturns: a coordinator begins anew, and agents come one after the other. Nobody is told to be alone, and who is new waits, until all
// have been heard who stage the version since before; those who do not come are waited for no longer than agents need.
func TestSwarmReturns(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(d *desk)
		homes []string
	}{
		"all come":   {func(d *desk) { d.attend("n2") }, []string{"n1", "n2"}},
		"one is out": {func(d *desk) { d.pass(returning + time.Second) }, []string{"n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, site(), authz.Input{})
			d.add(root, "vision", "project:vision", 1)
			stage := func(node string) string {
				a, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: node})
				wants(t, "stage", err, nil)
				return a.GetTask().GetId()
			}
			stage("n1")
			stage("n2")
			d.give()
			d.close()
			d.start()
			clear(d.heard)
			d.attend("n1")
			d.attend("n3")
			late := stage("n3")
			d.scheduler.tendSwarms()
			d.give()
			if len(d.heard) > 0 || d.taken[late] != nil {
				t.Errorf("n2 has not been heard, and others were told %v and given %v", d.heard, d.taken[late])
			}
			if now := d.state(late); !strings.Contains(now.GetWhy(), "yet to be heard") {
				t.Errorf("the new one waits because %q", now.GetWhy())
			}
			c.then(d)
			d.scheduler.tendSwarms()
			d.give()
			for _, node := range c.homes {
				if o := d.heard[node]; o == nil || !slices.Equal(present(o), c.homes) || !o.GetOlderHomes() {
					t.Errorf("%s was told %v", node, o)
				}
			}
			if o := d.heard["n3"]; d.taken[late] == nil || !slices.Contains(names(o), "n1") {
				t.Errorf("n3 was told %v and given %v", o, d.taken[late])
			}
		})
	}
}

// TestSwarmLoses: an agent that is lost is nobody's home.
func TestSwarmLoses(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "vision", "project:vision", 1)
	ids := map[string]string{}
	for _, node := range []string{"n1", "n2"} {
		a, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: node})
		wants(t, "stage", err, nil)
		ids[node] = a.GetTask().GetId()
	}
	d.give()
	d.pass(settling)
	d.scheduler.tendSwarms()
	d.scheduler.lose(t.Context(), d.scheduler.leads[ids["n1"]], "it is gone")
	for len(d.orders["n2"]) > 0 {
		if o := (<-d.orders["n2"]).GetSwarm(); o != nil {
			d.heard["n2"] = o
		}
	}
	if o := d.heard["n2"]; !slices.Equal(names(o), []string{"n2"}) || !slices.Equal(present(o), []string{"n2"}) || len(o.GetHomes()) < 2 {
		t.Errorf("n2 was told %v", o)
	}
}
