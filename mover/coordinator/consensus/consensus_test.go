package consensus

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
)

// three makes a cluster of three members, of which the first was alone.
func three(t *testing.T, net *network, prepare func(*node)) []*node {
	t.Helper()
	var nodes []*node
	for i, id := range []string{"a", "b", "c"} {
		n := newNode(t, net, id, uint64(i))
		if os.Getenv("DATAMOVE_RAFT_LOG") != "" {
			n.log = logTo(os.Stderr).With("node", id)
		}
		if prepare != nil {
			prepare(n)
		}
		nodes = append(nodes, n)
		if i == 0 {
			n.bootstrap(func(l *state.Ledger) {
				for k := range 30 {
					must.Do(t, put(t.Context(), l, fmt.Sprintf("alone-%d", k)))
				}
			})
			continue
		}
		n.start()
		must.Do(t, leader(t, nodes...).member.Join(t.Context(), id, id))
	}
	return nodes
}

// settled waits until all members have the same record last.
func settled(t *testing.T, nodes ...*node) {
	t.Helper()
	until(t, "the same content", func() bool {
		for _, n := range nodes {
			if n.ledger.Sequence() != nodes[0].ledger.Sequence() {
				return false
			}
		}
		return true
	})
}

// TestThree: from one to three, and changes of one leader after the other are on all.
func TestThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, newNetwork(1), nil)
		first := leader(t, nodes...)
		for k := range 20 {
			must.Do(t, put(context.Background(), first.ledger, fmt.Sprintf("first-%d", k)))
		}
		term, epoch := first.ledger.Term(), must.Get(first.ledger.Epoch(context.Background()))(t)
		settled(t, nodes...)
		same(t, nodes...)
		first.crash(false)
		second := leader(t, nodes...)
		if second.ledger.Term() <= term {
			t.Errorf("term %d after %d", second.ledger.Term(), term)
		}
		if next := must.Get(second.ledger.Epoch(context.Background()))(t); next <= epoch {
			t.Errorf("epoch %d after %d", next, epoch)
		}
		for k := range 20 {
			must.Do(t, put(context.Background(), second.ledger, fmt.Sprintf("second-%d", k)))
		}
		first.start()
		settled(t, nodes...)
		same(t, nodes...)
		for _, n := range nodes {
			if members := must.Get(n.member.Members())(t); len(members) != 3 {
				t.Errorf("%s knows the members %v", n.id, members)
			}
			n.close()
		}
	})
}

// TestOldSnapshot: a snapshot that comes late, to a member which has more by then, takes nothing from it.
func TestOldSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, newNetwork(1), nil)
		l := leader(t, nodes...)
		for k := range 20 {
			must.Do(t, put(context.Background(), l.ledger, fmt.Sprint(k)))
		}
		settled(t, nodes...)
		n := nodes[(slices.Index(nodes, l)+1)%3]
		first := must.Get(n.member.stores.newest())(t)
		meta, r, err := n.member.stores.snapshots.Open(first.ID)
		must.Do(t, err)
		body := must.Get(io.ReadAll(r))(t)
		must.Do(t, r.Close())
		answer := must.Get(n.wire.deliver(&raft.InstallSnapshotRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(l.id), Addr: []byte(l.id)}, SnapshotVersion: 1, Term: l.member.Status().Term, Leader: []byte(l.id),
			LastLogIndex: meta.Index, LastLogTerm: meta.Term, Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex, Size: int64(len(body)),
		}, body))(t)
		must.Do(t, answer.Error)
		for k := range 20 {
			must.Do(t, put(context.Background(), l.ledger, fmt.Sprint("more-", k)))
		}
		settled(t, nodes...)
		same(t, nodes...)
		for _, n := range nodes {
			if members := must.Get(n.member.Members())(t); len(members) != 3 {
				t.Errorf("%s knows the members %v", n.id, members)
			}
			n.close()
		}
	})
}
