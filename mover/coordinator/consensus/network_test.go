package consensus

import (
	"bytes"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// network carries messages between members, late, not at all, or twice. A message has its fate by the seed, the link and how many there
// were before on it.
type network struct {
	seed  uint64
	late  time.Duration // no message is later
	lossy float64       // how many messages of one are lost; a fifth as many come twice

	mu    sync.Mutex // guards all below
	wires map[raft.ServerAddress]*wire
	cuts  map[link]bool
	sent  map[link]uint64
}

// link is one direction between two members.
type link struct{ from, to raft.ServerAddress }

func newNetwork(seed uint64) *network {
	return &network{seed: seed, wires: map[raft.ServerAddress]*wire{}, cuts: map[link]bool{}, sent: map[link]uint64{}}
}

// cut stops a direction, or lets it go on.
func (n *network) cut(from, to string, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[link{raft.ServerAddress(from), raft.ServerAddress(to)}] = is
}

// heal lets all messages pass.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
}

// fate draws what becomes of a message, and says where it goes.
func (n *network) fate(l link) (to *wire, late time.Duration, lost, twice bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := fnv.New64a()
	_, _ = h.Write([]byte(l.from + ">" + l.to))
	n.sent[l]++
	r := rand.New(rand.NewPCG(n.seed^h.Sum64(), n.sent[l]))
	if n.late > 0 {
		late = time.Duration(r.Int64N(int64(n.late)))
	}
	lost, twice = r.Float64() < n.lossy, r.Float64() < n.lossy/5
	return n.wires[l.to], late, lost || n.cuts[l], twice
}

// wire is the transport of one member during one life.
type wire struct {
	net      *network
	address  raft.ServerAddress
	consumer chan raft.RPC
	once     sync.Once
	closed   chan struct{}
	received func() // a snapshot was put in place; nil tells nothing
}

func (n *network) connect(address string) *wire {
	w := &wire{net: n, address: raft.ServerAddress(address), consumer: make(chan raft.RPC), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wires[w.address] = w
	return w
}

var errLost = errors.New("the message was lost")

// patience is how long a sender waits.
const patience = 400 * time.Millisecond

// call sends a message and returns the answer.
func (w *wire) call(address raft.ServerAddress, command any, body []byte) (any, error) {
	to, late, lost, twice := w.net.fate(link{w.address, address})
	if lost || to == nil || w.dead() {
		time.Sleep(patience)
		return nil, errLost
	}
	time.Sleep(late)
	answer, err := to.deliver(command, body)
	if twice && err == nil && body == nil {
		_, err = to.deliver(command, body)
	}
	if err != nil {
		return nil, err
	}
	_, late, lost, _ = w.net.fate(link{address, w.address})
	if lost || to.dead() || w.dead() {
		time.Sleep(patience)
		return nil, errLost
	}
	time.Sleep(late)
	return answer.Response, answer.Error
}

// deliver gives a message to a member.
func (w *wire) deliver(command any, body []byte) (raft.RPCResponse, error) {
	answer := make(chan raft.RPCResponse, 1)
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	end := time.NewTimer(patience)
	defer end.Stop()
	select {
	case w.consumer <- raft.RPC{Command: command, Reader: r, RespChan: answer}:
	case <-w.closed:
		return raft.RPCResponse{}, errLost
	case <-end.C:
		return raft.RPCResponse{}, errLost
	}
	select {
	case a := <-answer:
		if s, is := a.Response.(*raft.InstallSnapshotResponse); is && s.Success && w.received != nil {
			w.received()
		}
		return a, nil
	case <-w.closed:
	case <-end.C:
	}
	return raft.RPCResponse{}, errLost
}

func (w *wire) dead() bool {
	select {
	case <-w.closed:
		return true
	default:
		return false
	}
}

// Close ends the life: nothing is sent and received any more.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) Consumer() <-chan raft.RPC          { return w.consumer }
func (w *wire) LocalAddr() raft.ServerAddress      { return w.address }
func (w *wire) SetHeartbeatHandler(func(raft.RPC)) {}
func (w *wire) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte {
	return []byte(a)
}
func (w *wire) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

func (w *wire) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// ask sends a copy of a message, which its sender may change when it waits no longer.
func ask[Q, A any](w *wire, to raft.ServerAddress, args *Q, resp *A, body []byte) error {
	q := *args
	answer, err := w.call(to, &q, body)
	if a, is := answer.(*A); is && a != nil {
		*resp = *a
	} else if err == nil {
		err = errLost
	}
	return err
}

func (w *wire) AppendEntries(_ raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return ask(w, to, args, resp, nil)
}

func (w *wire) RequestVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return ask(w, to, args, resp, nil)
}

func (w *wire) RequestPreVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return ask(w, to, args, resp, nil)
}

func (w *wire) TimeoutNow(_ raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return ask(w, to, args, resp, nil)
}

func (w *wire) InstallSnapshot(_ raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	body, err := io.ReadAll(data)
	if err != nil {
		return err
	}
	return ask(w, to, args, resp, body)
}
