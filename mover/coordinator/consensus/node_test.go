package consensus

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protodelim"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
)

// node is the host of a member.
type node struct {
	t     testing.TB
	net   *network
	id    string
	dir   string
	disk  *disk
	every uint64 // entries to a snapshot
	log   *slog.Logger
	work  func(ctx context.Context, n *node, term uint64) error

	wire   *wire
	ledger *state.Ledger
	member *Member
	stop   context.CancelFunc
	served chan error
	dying  bool // images are of the living
}

func newNode(t testing.TB, net *network, id string, seed uint64) *node {
	t.Cleanup(func() { time.Sleep(2 * time.Second) }) // Raft does not wait for the message by which it gives away the lead
	n := &node{t: t, net: net, id: id, dir: t.TempDir(), disk: newDisk(seed), work: func(ctx context.Context, _ *node, _ uint64) error { <-ctx.Done(); return ctx.Err() }}
	return n
}

func (n *node) ledgerDir() string { return filepath.Join(n.dir, "ledger") }
func (n *node) raftDir() string   { return filepath.Join(n.dir, "raft") }
func (n *node) imageDir() string  { return filepath.Join(n.dir, "image") }

// mirror takes an image of the ledger when that is synced.
type mirror struct {
	state.Log
	n *node
}

func (m mirror) Sync(ctx context.Context) error {
	err := m.Log.Sync(ctx)
	if err == nil {
		m.n.image()
	}
	return err
}

// image keeps the ledger as a power cut leaves it. It is taken when nothing is under way.
func (n *node) image() {
	time.Sleep(time.Nanosecond)
	if !n.dying {
		imageOf(n.t, n.ledgerDir(), n.imageDir())
	}
}

func (n *node) open() *state.Ledger {
	return must.Get(state.Open(n.ledgerDir(), state.Options{Follow: true, SyncEvery: time.Hour, Log: func(own state.Log) state.Log { return mirror{own, n} }}))(n.t)
}

func (n *node) options() Options {
	return Options{ID: n.id, Transport: n.wire, Ledger: n.ledger, SnapshotEvery: n.every, Logger: n.log, open: func(dir string) (*stores, error) {
		if n.disk == nil {
			return openFiles(dir)
		}
		must.Do(n.t, os.MkdirAll(dir, 0o700))
		snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, hclog.NewNullLogger())
		return &stores{n.disk, n.disk, snapshots, func() error { return nil }}, err
	}}
}

// bootstrap makes the node, which has a ledger of its own, the first member.
func (n *node) bootstrap(change func(*state.Ledger)) {
	n.t.Helper()
	n.ledger = must.Get(state.Open(n.ledgerDir(), state.Options{}))(n.t)
	if change != nil {
		change(n.ledger)
	}
	n.wire = n.net.connect(n.id)
	must.Do(n.t, Bootstrap(n.raftDir(), n.options()))
	must.Do(n.t, n.ledger.Close())
	n.start()
}

// start begins a life.
func (n *node) start() {
	n.t.Helper()
	n.dying = false
	n.wire = n.net.connect(n.id)
	n.wire.received = n.image
	n.ledger = n.open()
	had := n.ledger.Sequence()
	n.member = must.Get(Open(n.raftDir(), n.options()))(n.t)
	if _, err := os.Stat(n.imageDir()); err != nil || n.ledger.Sequence() != had {
		n.image()
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop, n.served = stop, make(chan error, 1)
	go func(m *Member) {
		n.served <- m.Serve(ctx, func(ctx context.Context, term uint64) error { return n.work(ctx, n, term) })
	}(n.member)
}

func (n *node) up() bool { return n.member != nil }

// close ends a life in order.
func (n *node) close() {
	n.t.Helper()
	if !n.up() {
		return
	}
	n.stop()
	must.Tell(n.t, n.member.Close())
	n.ended()
}

// crash ends a life at once. With power, what the ledger has not synced is lost.
func (n *node) crash(power bool) {
	n.t.Helper()
	n.dying = true
	must.Do(n.t, n.wire.Close())
	if n.disk != nil {
		n.disk.freeze()
	}
	n.stop()
	n.member.shutdown()
	<-n.member.watched
	must.Tell(n.t, n.member.stores.close())
	n.ended()
	if n.disk != nil {
		n.disk.thaw()
	}
	if power {
		imageOf(n.t, n.imageDir(), n.ledgerDir())
	}
}

func (n *node) ended() {
	n.t.Helper()
	if err := <-n.served; err != nil && !errors.Is(err, context.Canceled) {
		n.t.Errorf("%s: Serve = %v", n.id, err)
	}
	must.Tell(n.t, n.member.Err())
	must.Tell(n.t, n.ledger.Close())
	n.member, n.ledger = nil, nil
}

// wipe gives a node empty directories.
func (n *node) wipe(seed uint64) {
	for _, dir := range []string{n.ledgerDir(), n.raftDir(), n.imageDir()} {
		must.Do(n.t, os.RemoveAll(dir))
	}
	if n.disk != nil {
		n.disk = newDisk(seed)
	}
}

// rows are what a ledger has, as in its backup.
func rows(t testing.TB, l *state.Ledger) map[string]string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, l.Backup(&b))
	r := bufio.NewReader(&b)
	_, err := r.ReadString('\n')
	must.Do(t, err)
	header := &ledgerv1.BackupHeader{}
	must.Do(t, protodelim.UnmarshalFrom(r, header))
	all := map[string]string{"ledger": header.GetLedger(), "sequence": fmt.Sprint(header.GetSequence())}
	for {
		record := &ledgerv1.Record{}
		must.Do(t, protodelim.UnmarshalFrom(r, record))
		if len(record.GetChanges()) == 0 {
			return all
		}
		for _, c := range record.GetChanges() {
			all[c.GetTable()+"/"+string(c.GetKey())] = string(c.GetValue())
		}
	}
}

// same compares the contents of ledgers.
func same(t testing.TB, nodes ...*node) {
	t.Helper()
	want := rows(t, nodes[0].ledger)
	for _, n := range nodes[1:] {
		got := rows(t, n.ledger)
		if maps.Equal(want, got) {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if got[k] != want[k] {
				t.Errorf("%s has %q = %q, and %s %q", nodes[0].id, k, want[k], n.id, got[k])
			}
		}
		t.Errorf("%s has %d rows, and %s %d", nodes[0].id, len(want), n.id, len(got))
	}
}

// until waits in virtual time.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 6000 {
		if is() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("it never happens: ", what)
}

// leader waits until one of the nodes leads with its ledger.
func leader(t testing.TB, nodes ...*node) (found *node) {
	t.Helper()
	until(t, "a leader", func() bool {
		for _, n := range nodes {
			if n.up() && n.member.Status().Leads && n.ledger.Term() > 0 {
				found = n
			}
		}
		return found != nil
	})
	return found
}

// put makes one change of two rows.
func put(ctx context.Context, l *state.Ledger, id string) error {
	return l.Update(ctx, state.Soon, func(tx *state.Tx) error { return putIn(tx, id) })
}

func putIn(tx *state.Tx, id string) error {
	return errors.Join(state.Keys.Put(tx, &ledgerv1.Key{Caller: "a", Key: id, Task: id}), state.Keys.Put(tx, &ledgerv1.Key{Caller: "b", Key: id, Task: id}))
}

// has says whether a change is there; half a one is an error.
func has(t testing.TB, l *state.Ledger, id string) (there bool) {
	t.Helper()
	must.Tell(t, l.View(func(tx *state.Tx) error {
		_, err1 := state.Keys.Get(tx, "a", id)
		_, err2 := state.Keys.Get(tx, "b", id)
		if (err1 == nil) != (err2 == nil) {
			return fmt.Errorf("half of %s is there: %w, %w", id, err1, err2)
		}
		there = err1 == nil
		return nil
	}))
	return there
}

// logTo writes all that a member logs, to look for a fault.
func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
