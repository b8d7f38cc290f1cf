package consensus

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// peers is a transport that notes what other members answer. It sends entries one message after the other, not several at a time: the ledger
// makes one change at a time anyway.
type peers struct {
	Transport

	mu sync.Mutex // guards all below
	by map[raft.ServerID]answer
}

// answer is what a member has said last.
type answer struct {
	at   time.Time
	last uint64 // entry of its log
}

func newPeers(t Transport) *peers { return &peers{Transport: t, by: map[raft.ServerID]answer{}} }

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
