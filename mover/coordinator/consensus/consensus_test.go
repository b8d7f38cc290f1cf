package consensus

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
)

// three makes a cluster of three members, of which the first was alone.
func three(t *testing.T, net *network, prepare func(*node)) []*node {
	t.Helper()
	var nodes []*node
	for i, id := range []string{"a", "b", "c"} {
		n := newNode(t, net, id, uint64(i))
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
			n.close()
		}
	})
}
