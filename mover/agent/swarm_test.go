package agent

import (
	"strings"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/p2p/peer"
)

// TestJoins: what the agent is told of a swarm while it starts a process is not lost. One that did not know it would take the first home for that of
// all pieces, and would be the last to give others what it is to read for them.
func TestJoins(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	told := func(homes ...string) *agentv1.Swarm {
		return &agentv1.Swarm{Digest: digest, Ticket: "ticket", Homes: []*agentv1.SwarmHomes{{Agents: homes}}}
	}
	homes := func(o *agentv1.Swarm) string { return strings.Join(o.GetHomes()[0].GetAgents(), " ") }
	a := &Agent{o: Options{Peers: &Peers{Server: peer.NewServer(peer.Options{}), Authorities: func() [][]byte { return nil }}}, procs: map[string]*process{}}
	a.swarmed(told("n1"))
	p := newProcess(a, &pb.Task{Id: "task", Dataset: "bulk@" + digest, Owner: &pb.Account{}}, &agentv1.Job{})
	p.lead = new(session)
	a.swarmed(told("n1", "n2")) // it is being started
	a.mu.Lock()
	a.enlist(p)
	a.mu.Unlock()
	if got := homes(p.job.GetSwarm()); got != "n1 n2" {
		t.Errorf("it begins with the homes %s", got)
	}
	a.swarmed(told("n1", "n2", "n3"))
	select {
	case o := <-p.orders:
		if got := homes(o.GetSwarm()); got != "n1 n2 n3" {
			t.Errorf("it hears of the homes %s", got)
		}
	default:
		t.Error("it does not hear who is home now")
	}
}
