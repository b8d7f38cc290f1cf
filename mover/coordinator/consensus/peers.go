package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
)

// peers is a transport that notes what other members answer. It sends entries one message after the other, not several at a time: the ledger
// makes one change at a time anyway. What Raft 1.8 should not get does not get to it: a snapshot of another ledger, which it would keep, and one of what
// this member has already, with which it would go back to the members of then.
type peers struct {
	Transport
	ledger *state.Ledger
	in     chan raft.RPC

	mu sync.Mutex // guards all below
	by map[raft.ServerID]answer
}

// answer is what a member has said last.
type answer struct {
	at   time.Time
	last uint64 // entry of its log
}

func newPeers(t Transport, ledger *state.Ledger) *peers {
	return &peers{Transport: t, ledger: ledger, in: make(chan raft.RPC), by: map[raft.ServerID]answer{}}
}

// Consumer is where Raft gets messages of other members.
func (p *peers) Consumer() <-chan raft.RPC { return p.in }

// receive hands messages to Raft until over is closed.
func (p *peers) receive(r *raft.Raft, over <-chan struct{}) {
	for {
		select {
		case rpc := <-p.Transport.Consumer():
			if q, is := rpc.Command.(*raft.InstallSnapshotRequest); is && p.answers(r, &rpc, q) {
				continue
			}
			select {
			case p.in <- rpc:
			case <-over:
				return
			}
		case <-over:
			return
		}
	}
}

// answers answers a snapshot that is not for Raft.
func (p *peers) answers(r *raft.Raft, rpc *raft.RPC, q *raft.InstallSnapshotRequest) bool {
	var read bytes.Buffer
	ledger, _, err := state.BackupOf(io.TeeReader(rpc.Reader, &read))
	rpc.Reader = io.MultiReader(&read, rpc.Reader)
	own := p.ledger.ID()
	switch {
	case err != nil:
	case p.ledger.Sequence() > 0 && ledger != own:
		err = fmt.Errorf("%w: the snapshot is of the ledger %q, and this member has %q; remove the member from that cluster", mover.ErrConflict, ledger, own)
	case q.Term < r.CurrentTerm() || q.LastLogIndex > r.AppliedIndex():
		return false
	}
	_, drained := io.Copy(io.Discard, rpc.Reader)
	err = errors.Join(err, drained)
	rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: q.RPCHeader, Term: q.Term, Success: err == nil}, err)
	return true
}

// AppendEntriesPipeline says that there is none.
func (*peers) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries sends entries, or a heartbeat.
func (p *peers) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := p.Transport.AppendEntries(id, to, args, resp)
	if err == nil {
		p.mu.Lock()
		p.by[id] = answer{time.Now(), resp.LastLog}
		p.mu.Unlock()
	}
	return err
}

// of returns what a member has said last.
func (p *peers) of(id raft.ServerID) answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[id]
}
