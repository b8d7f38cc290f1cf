// Package consensus keeps the ledgers of several coordinators equal, by the Raft algorithm of github.com/hashicorp/raft: a change of the
// ledger is made when a majority of the members has it on stable storage.
//
// It owns one directory beside that of the ledger, with the log of Raft (package raftlog), the vote and snapshots. Its words are those of the field: a
// [Member] is one coordinator of a cluster; a voter counts for a majority, a non-voter only gets the records; the leader
// proposes entries, the others follow; a term has at most one leader. The ledger is the state machine: an entry has records of it, a
// snapshot is a backup of it.
//
// Promises:
//
//   - One leader: an entry has the Raft term in which its changes were drafted, and is applied only if it was appended in that term.
//     So what a former leader drafted is never applied on top of what it has not seen. Terms and epochs of the ledger
//     increase from leader to leader, because both are stored before they are used.
//   - After an error of an Update nothing of it is there (state.ErrNotLeader), or the next leader decides (state.ErrUnknown), and
//     the ledger of this member follows before it applies anything else.
//   - After a kill or a power cut: the log of Raft is synced before a member says that it has an entry; the ledger is not, and gets again from the log what
//     it has lost. Entries are removed from the log only when a snapshot has them and the ledger is synced up to there.
//   - A record that does not follow the last one is damage: the member ends, and Serve returns mover.ErrCorrupt.
//   - A follower may be read. How old its content is, Status says.
//   - Concurrency: everything may be called from many goroutines; Serve by one.
//
// TLS, addresses of members for clients and the wiring of the service are left to others. A ledger that is alone has nothing of this package.
//
// TestWorlds plays clusters of three and five members from a seed in virtual time, with crashes, lost writes, partitions and changes of the members. The seed
// does not control election timeouts, which Raft takes from math/rand, nor the order of goroutines.
package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
)

// Options are what a member is. ID, Transport and Ledger must be there.
type Options struct {
	ID        string        // of the member; it never changes
	Transport Transport     // to the other members; the member closes it
	Ledger    *state.Ledger // opened with Follow, but for Bootstrap
	Logger    *slog.Logger  // nil means no log
	// Heartbeat is how long a follower waits for a sign of the leader before it asks for votes. 0 means 1 s.
	Heartbeat time.Duration
	// SnapshotEvery is after how many entries a snapshot is taken; about as many stay in the log for members that were away. 0 means 8192.
	SnapshotEvery uint64

	open func(dir string) (*stores, error) // nil means files in dir
}

// Transport carries messages between members.
type Transport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// Member is a member of a cluster that runs.
type Member struct {
	o      Options
	dir    string
	log    *slog.Logger
	ledger *state.Ledger
	raft   *raft.Raft
	stores *stores
	peers  *peers

	proposing turnstile     // is held from a proposal to its end: Raft may never answer one that is under way at its end
	notify    chan bool     // Raft leads, or no longer
	won       chan struct{} // has one token when there may be a leadership to serve
	closing   chan struct{} // is closed when nothing is proposed any more
	over      chan struct{} // is closed when Raft has ended
	watched   chan struct{} // is closed when watch has ended

	mu         sync.Mutex  // guards all below
	leadership *leadership // of Raft; nil for none
	term       uint64      // of Raft, in which the ledger was let lead last
	failure    error       // after which the member applies nothing
	closed     bool
}

// leadership is one time as the leader. Its context ends with it.
type leadership struct {
	ctx  context.Context
	lose context.CancelCauseFunc
}

// turnstile is a lock over which its holder may sleep: a goroutine that waits for it is blocked in virtual time, too.
type turnstile chan struct{}

func (t turnstile) Lock()   { t <- struct{}{} }
func (t turnstile) Unlock() { <-t }

// Open starts a member with what its directory has. One that is new waits for the leader of a cluster, to which Join of that leader adds it; its ledger is empty.
func Open(dir string, o Options) (*Member, error) {
	m := &Member{
		o: o, dir: dir, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), ledger: o.Ledger,
		proposing: make(turnstile, 1), notify: make(chan bool), won: make(chan struct{}, 1), closing: make(chan struct{}), over: make(chan struct{}), watched: make(chan struct{}),
	}
	m.peers = newPeers(o.Transport, o.Ledger)
	var err error
	if m.stores, err = o.stores(dir); err != nil {
		return nil, m.failed("open", err)
	}
	if err := m.resume(); err != nil {
		return nil, m.failed("open", errors.Join(err, m.stores.close()))
	}
	if m.raft, err = raft.NewRaft(m.config(), (*machine)(m), m.stores.logs, m.stores.stable, m.stores.snapshots, m.peers); err != nil {
		return nil, m.failed("open", errors.Join(err, m.stores.close()))
	}
	go m.peers.receive(m.raft, m.over)
	go m.watch()
	return m, nil
}

func (m *Member) heartbeat() time.Duration { return cmp.Or(m.o.Heartbeat, time.Second) }

// config is how Raft runs.
func (m *Member) config() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(m.o.ID)
	c.Logger = raftLogger(m.log)
	c.HeartbeatTimeout = m.heartbeat()
	c.ElectionTimeout = c.HeartbeatTimeout
	c.LeaderLeaseTimeout = c.HeartbeatTimeout / 2
	c.SnapshotThreshold = cmp.Or(m.o.SnapshotEvery, 8192)
	c.TrailingLogs = c.SnapshotThreshold
	c.SnapshotInterval = 30 * c.HeartbeatTimeout
	c.ShutdownOnRemove = false
	c.NoSnapshotRestoreOnStart = true // the ledger has it: see resume
	c.NoLegacyTelemetry = true
	c.NotifyCh = m.notify
	return c
}

// resume makes the ledger one that the log can go on with.
func (m *Member) resume() error {
	newest, err := m.stores.newest()
	if err != nil {
		return err
	}
	last, err := m.stores.logs.LastIndex()
	if err != nil {
		return err
	}
	has := newest != nil || last > 0
	switch there := m.ledger.Sequence() > 0; {
	case there && !m.ledger.Member():
		return fmt.Errorf("%w: the ledger was kept alone, and has what other members do not have; begin a cluster with it, or give the member an empty directory", mover.ErrConflict)
	case there && !has:
		return fmt.Errorf("%w: the log of this member is gone, and with it its vote; remove the member, and let it join with an empty directory", mover.ErrCorrupt)
	}
	if newest != nil {
		if err := m.catchUp(newest); err != nil {
			return err
		}
	}
	if m.ledger.Member() {
		return nil
	}
	return m.ledger.SetMember(true)
}

// catchUp gives the ledger a snapshot that was received, and not put in place before the process ended.
func (m *Member) catchUp(newest *raft.SnapshotMeta) error {
	sequence, err := m.stores.sequence(newest.ID)
	if err != nil || sequence <= m.ledger.Sequence() {
		return err
	}
	_, r, err := m.stores.snapshots.Open(newest.ID)
	if err != nil {
		return err
	}
	return errors.Join(m.ledger.Replace(r), r.Close())
}

// watch follows what Raft says of its leadership.
func (m *Member) watch() {
	defer close(m.watched)
	for {
		select {
		case leads := <-m.notify:
			m.lead(leads)
		case <-m.over:
			m.lead(false)
			return
		}
	}
}

// lead notes a leadership, or the end of one. The ledger follows before anything is told.
func (m *Member) lead(leads bool) {
	m.mu.Lock()
	was := m.leadership
	m.leadership = nil
	if leads {
		m.leadership = &leadership{}
		m.leadership.ctx, m.leadership.lose = context.WithCancelCause(context.Background())
	}
	m.mu.Unlock()
	if was != nil {
		m.ledger.Follow()
		was.lose(state.ErrNotLeader)
	}
	if leads {
		select {
		case m.won <- struct{}{}:
		default:
		}
	}
}

// present is the leadership of Raft, nil for none.
func (m *Member) present() *leadership {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leadership
}

// Serve runs work each time this member has become the leader, with a context that ends when it is no longer, and the term of the ledger. It
// runs it once at a time: the ledger of the next leadership changes only when the work of the last one has returned.
// Serve returns when ctx ends, when the member has failed, or with the error of work that returns while the member leads; the member then
// steps down.
func (m *Member) Serve(ctx context.Context, work func(ctx context.Context, term uint64) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-m.over:
			return m.Err()
		case <-m.won:
		}
		l := m.present()
		if l == nil {
			continue
		}
		if err := m.serve(ctx, l, work); err != nil {
			return err
		}
	}
}

// serve does one leadership. It returns nil when that was lost.
func (m *Member) serve(ctx context.Context, l *leadership, work func(context.Context, uint64) error) error {
	err := m.takeOver(l)
	if err == nil && l.ctx.Err() == nil {
		leading, stop := context.WithCancelCause(ctx)
		lost := context.AfterFunc(l.ctx, func() { stop(state.ErrNotLeader) })
		term := m.ledger.Term()
		m.log.Info("this member leads", "term", term)
		err = work(leading, term)
		lost()
		stop(nil)
	}
	if errors.Is(err, state.ErrNotLeader) || errors.Is(err, state.ErrUnknown) { // watch is about to hear of it
		select {
		case <-l.ctx.Done():
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil && l.ctx.Err() == nil {
		return context.Cause(ctx)
	}
	if l.ctx.Err() != nil {
		m.log.Info("this member leads no longer", "err", err)
		return nil
	}
	return cmp.Or(err, errEnded, m.StepDown())
}

// errEnded is an error of work that ends although it should not.
var errEnded = errors.New("the work of the leader has ended")

// takeOver waits until the ledger has what earlier leaders have stored, and lets it lead.
func (m *Member) takeOver(l *leadership) error {
	for {
		err := m.tryTakeOver(l)
		if !errors.Is(err, mover.ErrTransient) || errors.Is(err, state.ErrNotLeader) || errors.Is(err, state.ErrUnknown) {
			return err
		}
		select { // the lead was to be given away
		case <-time.After(100 * time.Millisecond):
		case <-l.ctx.Done():
			return state.ErrNotLeader
		}
	}
}

func (m *Member) tryTakeOver(l *leadership) error {
	answer, err := m.propose([]byte{entryBegin})
	if err != nil {
		return err
	}
	term, is := answer.(uint64)
	if !is {
		return m.Err()
	}
	m.mu.Lock()
	m.term = term
	m.mu.Unlock()
	return m.ledger.Lead(l.ctx, quorum{m, term})
}

// leadTerm is the Raft term in which the ledger was let lead last.
func (m *Member) leadTerm() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term
}

// StepDown gives the lead to another member. It is no error for one that does not lead.
func (m *Member) StepDown() error {
	if m.present() == nil {
		return nil
	}
	m.proposing.Lock() // changes wait meanwhile, and go on if nothing comes of it
	defer m.proposing.Unlock()
	if err := m.mayPropose(); err != nil {
		return err
	}
	if err := m.raft.LeadershipTransfer().Error(); err != nil && m.present() != nil {
		return m.failed("step down as the leader of", fmt.Errorf("%w: %w", mover.ErrTransient, err))
	}
	return nil
}

// Err says why the member has failed; nil for one that runs or was closed.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}

// fail ends the member for a reason for which it can not go on.
func (m *Member) fail(err error) error {
	m.mu.Lock()
	first := m.failure == nil
	if first {
		m.failure = m.failed("follow", err)
	}
	err = m.failure
	m.mu.Unlock()
	if first {
		m.log.Error("this member of the cluster ends", "err", err)
		m.ledger.Follow()
		go m.shutdown()
	}
	return err
}

// shutdown ends Raft when no proposal is under way.
func (m *Member) shutdown() {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	if !first {
		<-m.over
		return
	}
	close(m.closing)
	m.proposing.Lock()
	defer m.proposing.Unlock()
	_ = m.raft.Shutdown().Error() // it has none
	close(m.over)
}

// Close gives the lead to another member and ends this one. The ledger stays open.
func (m *Member) Close() error {
	if err := m.StepDown(); err != nil {
		m.log.Info("the cluster gets no leader by this one", "err", err) // alone, or without a majority: an election decides
	}
	m.shutdown()
	<-m.watched
	if err := m.stores.close(); err != nil {
		return m.failed("close", err)
	}
	return nil
}

// Status is how a member stands.
type Status struct {
	Leads         bool
	Term          uint64 // of Raft
	Leader        string // its ID; "" for none that this member knows of
	LeaderAddress string
	// Contact is when the member has last heard of a leader: its content is as the leader's was then, or later. It is zero for never. A leader has the present.
	Contact  time.Time
	Applied  uint64 // the last entry that the ledger has
	Known    uint64 // the last entry that a majority has, as far as this member knows
	Sequence uint64 // of the ledger
}

// Status says how the member stands.
func (m *Member) Status() Status {
	address, id := m.raft.LeaderWithID()
	s := Status{
		Leads: m.raft.State() == raft.Leader, Term: m.raft.CurrentTerm(), Leader: string(id), LeaderAddress: string(address),
		Contact: m.raft.LastContact(), Applied: m.raft.AppliedIndex(), Known: m.raft.CommitIndex(), Sequence: m.ledger.Sequence(),
	}
	if s.Leads {
		s.Contact = time.Now()
	}
	return s
}

// failed says what failed with the member.
func (m *Member) failed(op string, err error) error {
	return &mover.Error{Op: op + " the cluster", Location: m.dir, Err: err}
}

// raftLogger gives the log of Raft to ours. Most of what it says is for its authors, and an unreachable member is no error of this one.
func raftLogger(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off})
	l.RegisterSink(sink{log})
	return l
}

type sink struct{ log *slog.Logger }

var levels = map[hclog.Level]slog.Level{hclog.Error: slog.LevelInfo, hclog.Warn: slog.LevelDebug, hclog.Info: slog.LevelDebug}

func (s sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	to, is := levels[level]
	if ctx := context.Background(); is && s.log.Enabled(ctx, to) {
		s.log.Log(ctx, to, "raft: "+msg, args...)
	}
}
