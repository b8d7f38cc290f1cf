package consensus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// world is a cluster that changes while its members, the network and the disks fail.
type world struct {
	t      *testing.T
	random *rand.Rand // of the steps
	net    *network
	nodes  []*node
	seed   uint64

	mu     sync.Mutex // guards all below
	next   int
	calm   bool // clients rest
	acked  map[string]bool
	tried  map[string]bool
	by     map[int]string // the change that has a number
	epochs map[uint64][]uint64
	counts map[string]int
}

// clients change the ledger of the leader, and look whether it has what former leaders have promised.
func (w *world) clients(ctx context.Context, n *node, term uint64) error {
	w.mu.Lock()
	acked := maps.Clone(w.acked)
	w.counts["leaders"]++
	w.mu.Unlock()
	for id := range acked {
		if !has(w.t, n.ledger, id) {
			w.t.Errorf("%s leads in term %d without the change %s", n.id, term, id)
		}
	}
	var all sync.WaitGroup
	for client := range uint64(3) {
		all.Go(func() { w.client(ctx, n, term, rand.New(rand.NewPCG(w.seed<<8|client, term))) })
	}
	all.Wait()
	return ctx.Err()
}

func (w *world) client(ctx context.Context, n *node, term uint64, random *rand.Rand) {
	for ctx.Err() == nil {
		switch {
		case w.resting():
		case random.IntN(20) == 0:
			w.takeEpochs(n, term, 1+random.IntN(1500))
		default:
			w.change(ctx, n)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.IntN(40)) * time.Millisecond):
		}
	}
}

func (w *world) resting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

func (w *world) change(ctx context.Context, n *node) {
	w.mu.Lock()
	w.next++
	id := strconv.Itoa(w.next)
	w.tried[id] = true
	w.mu.Unlock()
	var number int
	err := n.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		count, err := state.Keys.Get(tx, "count", "count")
		if err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
		number, _ = strconv.Atoi(count.GetTask()) // of the change before
		number++
		return errors.Join(putIn(tx, id), state.Keys.Put(tx, &ledgerv1.Key{Caller: "count", Key: "count", Task: strconv.Itoa(number)}))
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		if other := w.by[number]; other != "" {
			w.t.Errorf("the change %s and the change %s are both number %d", other, id, number)
		}
		w.by[number], w.acked[id] = id, true
		w.counts["changes"]++
	case errors.Is(err, state.ErrUnknown):
		w.counts["unknown"]++
	case errors.Is(err, state.ErrNotLeader):
		w.counts["refused"]++
	case !errors.Is(err, mover.ErrTransient) && !errors.Is(err, context.Canceled) && !errors.Is(err, mover.ErrUsage): // of a ledger that was closed
		w.t.Errorf("change %s: %v", id, err)
	}
}

func (w *world) takeEpochs(n *node, term uint64, many int) {
	for range many {
		epoch, err := n.ledger.Epoch(context.Background())
		if err != nil || n.ledger.Term() != term { // another leadership may have begun
			return
		}
		w.mu.Lock()
		w.epochs[term] = append(w.epochs[term], epoch)
		w.mu.Unlock()
	}
}

// step does one thing.
func (w *world) step() {
	n := w.nodes[w.random.IntN(len(w.nodes))]
	other := w.nodes[w.random.IntN(len(w.nodes))]
	switch k := w.random.IntN(20); {
	case k < 6 && n.up():
		power := w.random.IntN(2) == 0
		w.count("crash")
		n.crash(power)
	case k < 6:
		n.start()
	case k < 9:
		w.count("cut")
		w.net.cut(n.id, other.id, true)
		if w.random.IntN(2) == 0 {
			w.net.cut(other.id, n.id, true)
		}
	case k < 11: // from all
		w.count("cut")
		for _, other := range w.nodes {
			w.net.cut(other.id, n.id, true)
			w.net.cut(n.id, other.id, true)
		}
	case k < 14:
		w.net.heal()
	case k < 16:
		n.disk.mu.Lock()
		n.disk.slow = time.Duration(w.random.IntN(3)) * 100 * time.Millisecond
		n.disk.mu.Unlock()
	case k < 17 && n.up():
		_ = n.member.StepDown() // it may not lead, or not find a successor
	case k < 19:
		w.rejoin(n)
	}
}

// rejoin removes a member, and has it join with empty directories, as far as the cluster can now.
func (w *world) rejoin(n *node) {
	for _, l := range w.nodes {
		if l == n || !l.up() || !l.member.Status().Leads {
			continue
		}
		if err := l.member.Remove(n.id); err != nil {
			continue
		}
		w.count("removed")
		if n.up() {
			n.crash(false)
		}
		w.seed += 1000
		n.wipe(w.seed)
		n.start()
		w.join(l, n)
		return
	}
}

func (w *world) join(leader, n *node) bool {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	err := leader.member.Join(ctx, n.id, n.id)
	if err == nil {
		w.count("joined")
	}
	return err == nil
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// play makes the cluster, lets things happen, and compares when all is quiet again.
func (w *world) play(members, steps int) {
	w.net.late, w.net.lossy = 20*time.Millisecond, 0.02
	for i := range members {
		n := newNode(w.t, w.net, string(rune('a'+i)), w.seed<<4|uint64(i))
		n.every, n.work = 60, w.clients
		if os.Getenv("DATAMOVE_RAFT_LOG") != "" {
			n.log = logTo(os.Stderr).With("node", n.id)
		}
		w.nodes = append(w.nodes, n)
		if i == 0 {
			n.bootstrap(nil)
			continue
		}
		n.start()
		until(w.t, "joining of "+n.id, func() bool { return w.join(leader(w.t, w.nodes...), n) })
	}
	for range steps {
		time.Sleep(time.Duration(w.random.IntN(3000)) * time.Millisecond)
		w.step()
		if w.t.Failed() {
			break
		}
	}
	w.settle()
}

// settle ends all faults, and compares.
func (w *world) settle() {
	w.net.heal()
	w.net.lossy = 0
	for _, n := range w.nodes {
		n.disk.mu.Lock()
		n.disk.slow = 0
		n.disk.mu.Unlock()
		if !n.up() {
			n.start()
		}
	}
	for _, n := range w.nodes {
		until(w.t, "a vote of "+n.id, func() bool { return w.votes(n) || w.join(leader(w.t, w.nodes...), n) })
	}
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	leader(w.t, w.nodes...)
	settled(w.t, w.nodes...)
	time.Sleep(5 * time.Second)
	settled(w.t, w.nodes...)
	same(w.t, w.nodes...)
	w.check(w.nodes[0].ledger)
	for _, n := range w.nodes {
		n.close()
	}
}

// votes says whether the leader counts a member as a voter.
func (w *world) votes(n *node) bool {
	members := must.Get(leader(w.t, w.nodes...).member.Members())(w.t)
	for _, m := range members {
		if m.ID == n.id {
			return m.Voter
		}
	}
	return false
}

func (w *world) check(l *state.Ledger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.tried {
		if there := has(w.t, l, id); !there && w.acked[id] {
			w.t.Errorf("change %s is lost", id)
		}
	}
	last := uint64(0)
	for term := uint64(1); term <= 10_000; term++ {
		slices.Sort(w.epochs[term]) // of one leader, several clients take them
		for _, e := range w.epochs[term] {
			w.counts["epochs"]++
			if e <= last {
				w.t.Errorf("epoch %d of term %d after %d", e, term, last)
			}
			last = max(last, e)
		}
	}
}

// TestWorlds plays clusters of three and five members: they are killed, lose what their ledgers have not synced and parts of what is on its way to their logs, are cut off in one direction
// or both, have slow disks, give away the lead, are removed and join again, while clients change the ledger. Each change that returned is in the ledger of each later
// leader and of all at the end, one that failed is there whole or not at all, each sees those before it, epochs increase, and all ledgers are equal.
//
//safety:3 clusters of three and five coordinators from a seed, with crashes, lost writes, partitions, slow disks and changes of the members: no accepted change of the ledger is lost, and each change sees those of all leaders before
func TestWorlds(t *testing.T) {
	worlds, steps := uint64(6), 25
	first := uint64(1)
	if seed.Soak() {
		worlds, steps = 200, 60
		first = seed.Rand(t).Uint64N(1 << 40)
	}
	if one, err := strconv.ParseUint(os.Getenv("DATAMOVE_WORLD"), 10, 64); err == nil {
		first, worlds = one, 1
	}
	for s := first; s < first+worlds; s++ {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{
					t: t, seed: s, random: rand.New(rand.NewPCG(s, 1)), net: newNetwork(s),
					acked: map[string]bool{}, tried: map[string]bool{}, by: map[int]string{}, epochs: map[uint64][]uint64{}, counts: map[string]int{},
				}
				w.play(3+2*int(s%2), steps)
				t.Log(w.counts)
			})
		})
	}
}
