package consensus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/hashicorp/raft"

	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
)

// Info is what a leader knows of a member.
type Info struct {
	ID, Address string
	Voter       bool
	Contact     time.Time // when it has last answered this member; zero for never, and for this member itself
	Last        uint64    // the last entry of its log then
}

// Members are the members as this one knows them.
func (m *Member) Members() ([]Info, error) {
	f := m.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, m.failed("list the members of", err)
	}
	var all []Info
	for _, s := range f.Configuration().Servers {
		a := m.peers.of(s.ID)
		all = append(all, Info{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter, Contact: a.at, Last: a.last})
	}
	return all, nil
}

// Join adds a member, which runs and is new, or gives one another address. It gets all records as a non-voter first, and is a voter when Join returns, of which
// the others know. After an error it may be a non-voter, and Join may be called again.
func (m *Member) Join(ctx context.Context, id, address string) error {
	err := m.change(func() raft.IndexFuture {
		return m.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), 0, 0)
	})
	for range 2 { // what is stored while the first round is sent is little
		if err == nil {
			err = m.reaches(ctx, id, m.raft.LastIndex())
		}
	}
	if err == nil {
		err = m.change(func() raft.IndexFuture {
			return m.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(address), 0, 0)
		})
	}
	if err == nil {
		err = m.spread(ctx)
	}
	if err != nil {
		return m.failed(fmt.Sprintf("add member %q to", id), err)
	}
	return nil
}

// spread waits until the voters that answer know all voters: Raft 1.8 gives no vote to a member that it does not know as a voter, so that without this leader there
// might be none.
func (m *Member) spread(ctx context.Context) error {
	all, err := m.Members()
	if err != nil {
		return err
	}
	index := m.raft.LastIndex()
	for _, one := range all {
		if one.Voter && one.ID != m.o.ID && time.Since(one.Contact) < 2*m.heartbeat() {
			if err := m.reaches(ctx, one.ID, index); err != nil {
				return err
			}
		}
	}
	return nil
}

// reaches waits until a member has an entry.
func (m *Member) reaches(ctx context.Context, id string, index uint64) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for m.peers.of(raft.ServerID(id)).last < index {
		l := m.present()
		if l == nil {
			return state.ErrNotLeader
		}
		select {
		case <-tick.C:
		case <-l.ctx.Done():
		case <-ctx.Done():
			return fmt.Errorf("%w: member %q has entry %d of %d; see to that member and the network, and add the new one again", context.Cause(ctx), id, m.peers.of(raft.ServerID(id)).last, index)
		}
	}
	return nil
}

// Remove removes a member. Its directories can be removed then; one that is to come back joins with empty ones.
func (m *Member) Remove(id string) error {
	err := m.change(func() raft.IndexFuture { return m.raft.RemoveServer(raft.ServerID(id), 0, 0) })
	if err != nil {
		return m.failed(fmt.Sprintf("remove member %q from", id), err)
	}
	return nil
}

// change changes the configuration of Raft.
func (m *Member) change(begin func() raft.IndexFuture) error {
	m.proposing.Lock()
	defer m.proposing.Unlock()
	if err := m.mayPropose(); err != nil {
		return err
	}
	switch err := begin().Error(); {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return state.ErrNotLeader
	default:
		return fmt.Errorf("%w: %w", state.ErrUnknown, err)
	}
}

// firstTerms is how many terms a cluster may begin with. It is drawn, so that no entry of a cluster is taken for one of another: Raft compares entries by index and term.
const firstTerms = 1 << 40

// termKey is the name by which Raft keeps its term in a StableStore.
var termKey = []byte("CurrentTerm")

// Bootstrap makes a ledger that was kept alone, and is open as such, the first member of a cluster. Nothing may change it meanwhile. Afterwards it is
// opened with Follow, for Open. What the directory has of an earlier cluster is removed. After a kill the ledger is alone, or a member.
func Bootstrap(dir string, o Options) error {
	if err := bootstrap(dir, o); err != nil {
		return &mover.Error{Op: "begin a cluster in", Location: dir, Err: err}
	}
	return nil
}

func bootstrap(dir string, o Options) error {
	if o.Ledger.Member() || o.Ledger.Sequence() == 0 {
		return fmt.Errorf("%w: the ledger is a member of a cluster already, or has no content; open it alone first", mover.ErrUsage)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	s, err := o.stores(dir)
	if err != nil {
		return err
	}
	sequence := o.Ledger.Sequence()
	err = errors.Join(s.begin(o), s.close())
	if err == nil && o.Ledger.Sequence() != sequence {
		err = fmt.Errorf("%w: the ledger was changed meanwhile; end what changes it, and begin anew", mover.ErrChanged)
	}
	if err != nil {
		return err
	}
	return o.Ledger.SetMember(true) // from now on
}

// begin writes a snapshot of the ledger as the first entry of a log, of which new members get it.
func (s *stores) begin(o Options) error {
	term := 1 + rand.Uint64N(firstTerms)
	if err := s.stable.SetUint64(termKey, term); err != nil {
		return err
	}
	only := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(o.ID), Address: o.Transport.LocalAddr()}}}
	to, err := s.snapshots.Create(1, 1, term, only, 1, o.Transport)
	if err != nil {
		return err
	}
	moment, err := o.Ledger.Freeze()
	if err != nil {
		return errors.Join(err, to.Cancel())
	}
	defer moment.Release()
	return snapshot{moment}.Persist(to)
}

// Dissolve makes the last member of a cluster, which leads, a ledger that is kept alone. The member has ended then; the ledger is closed and opened
// without Follow. After a kill it is a member, or alone.
func (m *Member) Dissolve() error {
	if err := m.dissolve(); err != nil {
		return m.failed("dissolve", err)
	}
	return nil
}

func (m *Member) dissolve() error {
	all, err := m.Members()
	if err != nil {
		return err
	}
	if len(all) != 1 || all[0].ID != m.o.ID {
		return fmt.Errorf("%w: there are %d members; remove the others first", mover.ErrConflict, len(all))
	}
	if _, err := m.propose([]byte{entryBegin}); err != nil { // the ledger has all that the log has, and follows
		return err
	}
	m.shutdown()
	<-m.watched
	if err := errors.Join(m.Err(), m.stores.close(), m.ledger.Sync()); err != nil {
		return err
	}
	if err := m.ledger.SetMember(false); err != nil { // from now on
		return err
	}
	return os.RemoveAll(m.dir)
}
