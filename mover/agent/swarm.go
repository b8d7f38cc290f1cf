package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/peer"
	"datamove.dev/mover/swarm"
	"datamove.dev/mover/wire"
)

// Peers is how this node gives pieces of datasets to others.
type Peers struct {
	Server      *peer.Server
	Port        int             // where it is served
	Host        string          // where others reach that; "" is where the coordinator sees this agent
	Authorities func() [][]byte // of the certificates of other agents, in DER
}

// swarms are those that this node is in, by digest.
type swarms struct {
	mu     sync.Mutex
	orders map[string]*agentv1.Swarm // guarded by mu
}

// swarmed takes over who is in a swarm.
func (a *Agent) swarmed(o *agentv1.Swarm) {
	if a.o.Peers == nil {
		return
	}
	a.swarms.mu.Lock()
	if a.swarms.orders == nil {
		a.swarms.orders = map[string]*agentv1.Swarm{}
	}
	if o.GetTicket() == "" {
		delete(a.swarms.orders, o.GetDigest())
		a.o.Peers.Server.Shut(o.GetDigest())
	} else {
		a.swarms.orders[o.GetDigest()] = o
		a.o.Peers.Server.Open(o.GetDigest(), o.GetTicket(), &tree{a, o.GetDigest(), o.GetLocation()})
	}
	a.swarms.mu.Unlock()
	if p := a.bringing(o.GetDigest()); p != nil && o.GetTicket() != "" {
		p.send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Swarm{Swarm: o}})
	}
}

// joins makes a job part of the swarm of its dataset, if there is one.
func (a *Agent) joins(job *agentv1.Job, dataset string) {
	l, err := location.Parse("dataset:" + dataset)
	if a.o.Peers == nil || dataset == "" || err != nil {
		return
	}
	a.swarms.mu.Lock()
	defer a.swarms.mu.Unlock()
	if o := a.swarms.orders[l.Digest]; o != nil {
		job.Swarm, job.Self, job.Authorities = proto.CloneOf(o), a.o.Name, a.o.Peers.Authorities()
	}
}

// bringing is the process that brings a version here; nil is none.
func (a *Agent) bringing(digest string) *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range maps.Values(a.procs) {
		if p.lead != nil && p.job.GetSwarm().GetDigest() == digest && digest != "" {
			return p
		}
	}
	return nil
}

// tree is what this node has of a version. It is a peer.Tree.
type tree struct {
	agent    *Agent
	digest   string
	location string
}

// Published implements peer.Tree. The names come from other nodes: nothing outside of the replica is read.
func (t *tree) Published(p *swarm.Piece, into []byte) error {
	l, err := wire.Locate(t.location)
	tier, known := t.agent.conf().Tiers[l.Tier]
	if err != nil || l.Scheme != location.InTier || !known || tier.Path == "" || !strings.HasPrefix(l.Path, ".datasets/") {
		return mover.ErrNotExist
	}
	root, err := unix.Open(tier.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for _, s := range p.Segments {
		if err := readSegment(root, path.Join(l.Path, s.Name), s.Off, into[:s.Length]); err != nil {
			return err
		}
		into = into[s.Length:]
	}
	return nil
}

func readSegment(root int, name string, off int64, into []byte) error {
	fd, err := unix.Openat2(root, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size < off+int64(len(into)) {
		return mover.ErrNotExist
	}
	for len(into) > 0 {
		n, err := unix.Pread(fd, into, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return mover.ErrNotExist
		}
		into, off = into[n:], off+int64(n)
	}
	return nil
}

// Ask implements peer.Tree.
func (t *tree) Ask(ctx context.Context, p *swarm.Piece, atHome bool) ([]byte, error) {
	who := t.agent.bringing(t.digest)
	if who == nil {
		return nil, mover.ErrNotExist
	}
	return who.want(ctx, p, atHome)
}

// wanted are pieces that a process was asked for.
type wanted struct {
	mu   sync.Mutex
	last uint64
	all  map[uint64]chan<- given // by id; guarded by mu, as last
}

type given struct {
	data []byte
	err  error
}

func (w *wanted) add() (id uint64, answer <-chan given) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[uint64]chan<- given{}
	}
	w.last++
	c := make(chan given, 1)
	w.all[w.last] = c
	return w.last, c
}

// take ends the waiting for a piece; nil when nobody waits for it.
func (w *wanted) take(id uint64) chan<- given {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.all[id]
	delete(w.all, id)
	return c
}

// want asks the process for a piece.
func (p *process) want(ctx context.Context, piece *swarm.Piece, atHome bool) ([]byte, error) {
	id, answer := p.wanted.add()
	defer p.wanted.take(id)
	p.send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Want{Want: &agentv1.WantPiece{Id: id, Piece: peer.Encode(piece), AtHome: atHome}}})
	select {
	case g := <-answer:
		return g.data, g.err
	case <-p.ctx.Done():
		return nil, mover.ErrNotExist
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Give implements agentv1.WorkerServiceServer.
func (p *process) Give(in agentv1.WorkerService_GiveServer) error {
	first, err := in.Recv()
	if err != nil {
		return err
	}
	if first.GetErrorKind() != "" {
		kind := mover.KindNamed(first.GetErrorKind())
		if kind == nil {
			kind = mover.ErrTransient
		}
		p.answer(first.GetId(), given{err: fmt.Errorf("%w: %s", kind, first.GetError())})
		return in.SendAndClose(&agentv1.GiveAnswer{})
	}
	data := first.GetData()
	for {
		part, err := in.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if data = append(data, part.GetData()...); len(data) > swarm.PieceMost {
			return fmt.Errorf("%w: a piece of more than %d bytes", mover.ErrUsage, swarm.PieceMost)
		}
	}
	if first.GetId() != 0 {
		p.answer(first.GetId(), given{data: data})
		return in.SendAndClose(&agentv1.GiveAnswer{})
	}
	piece, err := peer.Decode(first.GetPiece())
	if err != nil || piece.Bytes() != int64(len(data)) {
		return fmt.Errorf("%w: a piece that is none: %w", mover.ErrUsage, err)
	}
	if peers := p.agent.o.Peers; peers != nil {
		peers.Server.Keep(p.job.GetSwarm().GetDigest(), piece.Key(), data)
	}
	return in.SendAndClose(&agentv1.GiveAnswer{})
}

func (p *process) answer(id uint64, g given) {
	if c := p.wanted.take(id); c != nil {
		c <- g
	}
}
