package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/rate"
	"datamove.dev/mover/fairshare"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/task"
	"datamove.dev/mover/telemetry"
)

// process is one worker: the lead of a task, or a helper, which does batches of it.
type process struct {
	agentv1.UnimplementedWorkerServiceServer
	agent     *Agent
	task      *pb.Task
	job       *agentv1.Job
	epoch     uint64     // of the lead
	lead      *session   // nil of a helper and of a describer
	describer *describer // nil of all others
	lost      bool       // its lead is over, and it has been told; guarded by agent.mu

	orders  chan *agentv1.WorkerOrder
	as      sandbox.Options // with which it was started, as the next one will be
	acting  Worker
	server  *grpc.Server
	ended   chan struct{}      // closed when the process has ended and everything is told
	ctx     context.Context    // of its calls; ends with the process
	cancel  context.CancelFunc // of ctx
	flow    fairshare.Flow
	charges []fairshare.Charge // endpoints that it moves between
	moves   telemetry.Flow     // tiers that it moves between

	span    string      // of the lead, as text; "" makes no spans
	endSpan func(error) // of the lead; nil has none
	spans   sync.Mutex  // held while spans of the process are passed on
	sent    int         // spans; guarded by spans

	unguarded   string   // why what it stages is, as in Replica; set before it starts, and by Seal
	back        func()   // gives back the journals of its account; nil of what has none
	revocations []func() // take back the access to replicas that it was given; of its start
	sealed      bool     // what it stages, or was tried to be; guarded by sealing
	sealing     turn     // held while it has the agent seal or unseal: the end of its lead comes after that

	wants  atomic.Int32    // batches at a time that a helper finds good; 0 is not known
	part   atomic.Int64    // that it may read of the limit of its task, bytes per second; 0 is no limit
	counts sync.Mutex      // held while metrics are told of what it did
	told   *agentv1.Counts // what they were told last; guarded by counts

	deaf    atomic.Bool           // it was killed because it did not answer
	refused atomic.Pointer[error] // why it was ended

	wanted wanted                    // pieces
	asks   chan *agentv1.WorkerOrder // for pieces: taken when the process has taken what came before

	mu        sync.Mutex
	batches   map[string]*session // of a helper; guarded by mu, as all below
	buried    error               // why it takes none any more
	turns     map[uint64]func(fairshare.Cost)
	turn      uint64
	waits     waits
	limited   rate.Meter // at which it reads within that
	done      bool       // the lead has told its end
	digest    string     // of the manifest that was sent last
	described bool       // what it stages the agent describes; the process sends no manifest
	unsealed  bool       // it may have changed what it was to remove
	heard     []string
	given     uint64 // batches of this lead
	idle      *time.Timer
}

// limitedOver is how soon it is told that a process reads more or less of its limit than it
// did: others are given what it leaves.
const limitedOver = 2 * time.Second

func newProcess(a *Agent, task *pb.Task, job *agentv1.Job) *process {
	p := &process{
		agent: a, task: task, job: job, orders: make(chan *agentv1.WorkerOrder, 256), asks: make(chan *agentv1.WorkerOrder), ended: make(chan struct{}),
		limited: rate.Meter{Over: limitedOver}, flow: flowOf(task), moves: a.movesOf(task.GetSpec()), batches: map[string]*session{}, turns: map[uint64]func(fairshare.Cost){},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// start makes the process, as the owner of its task.
func (a *Agent) start(ctx context.Context, p *process) error {
	who, err := a.accountOf(ctx, p.task.GetOwner())
	if err != nil {
		return a.unready(remedy.Account, err)
	}
	if p.job.StateDir, p.back, err = a.stateDir(who); err != nil {
		return a.unready(remedy.Journals, err)
	}
	if err := a.startAs(ctx, p, who); err != nil {
		p.back()
		return err
	}
	return nil
}

// startAs makes the process as an account, to which its journals are lent.
func (a *Agent) startAs(ctx context.Context, p *process, who osaccount.Account) error {
	if err := a.mayWrite(p.task.GetOwner(), p.job.GetStateDir()); err != nil {
		return err
	}
	roots, err := a.prepare(p, who)
	if err != nil {
		return a.unready("", err)
	}
	if p.lead != nil {
		a.awaitLost(ctx, p)
	}
	a.mu.Lock()
	was := a.procs[p.task.GetId()]
	a.mu.Unlock()
	if was != nil { // of an epoch that is over; it has the journal that this one goes on with, and may be at its replica
		_ = was.acting.Stop(0)
		<-was.ended
	}
	if p.lead != nil {
		if err := errors.Join(a.prepareReplicas(ctx, p, who), a.makeJobDirs(ctx, p.job.GetSpec(), who)); err != nil {
			return a.unready("", err)
		}
	}
	return a.run(ctx, p, who, roots)
}

// awaitLost waits until workers of lost leads of its owner have ended: the coordinator counts on them no more, and they may still have the
// lock of the target, or a journal. One that does not end in time, as where a file system hangs, is waited for no longer.
func (a *Agent) awaitLost(ctx context.Context, p *process) {
	ctx, cancel := context.WithTimeout(ctx, 2*lostGrace)
	defer cancel()
	a.mu.Lock()
	var lost []*process
	for id, q := range a.procs {
		if id != p.task.GetId() && q.lost && q.task.GetOwner().GetName() == p.task.GetOwner().GetName() {
			lost = append(lost, q)
		}
	}
	a.mu.Unlock()
	for _, q := range lost {
		p.lead.waitsFor(string(engine.Waiting), "the worker of task "+q.task.GetId()+", which is over here, has yet to end")
		a.hurry()
		select {
		case <-q.ended:
		case <-ctx.Done():
			return
		}
	}
}

// run makes the process as an account, confined to roots, and serves it.
func (a *Agent) run(ctx context.Context, p *process, who osaccount.Account, roots sandbox.Confinement) (err error) {
	apart := keptApart(p.job.GetSpec(), who, roots) // may wait for a file system
	if err := a.enters(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			a.running.Done()
		}
	}()
	p.as = sandbox.Options{
		Path: a.o.Program[0], Args: a.o.Program[1:], Account: sandbox.Account{UID: who.UID, GID: who.GID, Groups: who.Groups, Apart: apart},
		Root: who.UID == 0, Roots: roots, Env: a.environment(who), Stderr: os.Stderr,
	}
	if p.acting, err = a.prestarter.begin(ctx, p.as, p.waitsAt); err != nil { // its user may have stopped it, so no lock is held
		return a.unready(startCause(err), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.unwanted(p); err != nil {
		go func() { _ = p.acting.Stop(0) }() // it has no job yet
		return err
	}
	if p.describer == nil {
		a.enlist(p)
	}
	a.turns.enter(p.flow)
	go p.serve()
	return nil
}

// waitsAt says why a lead does not begin: a file system does not answer its process.
func (p *process) waitsAt(path string) {
	s := p.lead
	if d := p.describer; d != nil {
		s = d.of
	}
	if s != nil {
		s.waitsFor(string(engine.Waiting), fmt.Sprintf("open %s: no answer yet; is its server there?", mover.Printable(path)))
		p.agent.hurry()
	}
}

// enters counts a process that is about to begin, unless the agent leaves.
func (a *Agent) enters() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leaving {
		return errLeaving
	}
	a.running.Add(1)
	return nil
}

// unwanted says why a process that has just been made gets no job: while it was, the agent began to leave, its lead was lost, or a later lead of its task came. mu is held.
func (a *Agent) unwanted(p *process) error {
	if a.leaving {
		return errLeaving
	}
	if p.lead != nil && p.lead.stop == agentv1.How_HOW_LOST {
		return fmt.Errorf("%w: the lead is over", mover.ErrHeld)
	}
	if s := a.sessions[sessionKey{p.task.GetId(), ""}]; p.lead != nil && s != nil && s != p.lead {
		return fmt.Errorf("%w: a later lead of the task is here", mover.ErrHeld)
	}
	return nil
}

// keptApart reports whether the other processes of an account must not trace the one that works on a task. The result of an access probe admits its owner
// to replicas of other users, so the owner must not forge it. A FUSE file system may be open to its owner's processes alone, and to none apart.
func keptApart(spec *pb.TaskSpec, who osaccount.Account, roots sandbox.Confinement) bool {
	private := func(path string) bool {
		var st unix.Statfs_t
		return unix.Statfs(path, &st) == nil && st.Type == unix.FUSE_SUPER_MAGIC
	}
	return task.Of(spec).Probe && os.Geteuid() == 0 && who.UID != 0 && !slices.ContainsFunc(roots.Read, private)
}

// enlist makes the process one that hears what changes, and tells it what holds now: between the two nothing may get lost. mu is held.
func (a *Agent) enlist(p *process) {
	if p.lead != nil {
		p.lead.proc = p
		a.joins(p)
	}
	a.procs[p.task.GetId()] = p
}

// accountOf is the requester on this node.
func (a *Agent) accountOf(ctx context.Context, o *pb.Account) (osaccount.Account, error) {
	if self := uint32(os.Geteuid()); self != 0 || o.GetUid() == 0 {
		if o.GetUid() != self {
			return osaccount.Account{}, a.unready(remedy.Unprivileged, &mover.Error{Op: "act as", Location: o.GetName(), Err: fmt.Errorf("%w: this agent runs as uid %d and can act as no other account", mover.ErrPermission, self)})
		}
		groups, err := os.Getgroups()
		who := osaccount.Account{UID: self, GID: uint32(os.Getegid()), Name: o.GetName()}
		for _, g := range groups {
			who.Groups = append(who.Groups, uint32(g))
		}
		return who, err
	}
	return a.o.Accounts.Lookup(ctx, o.GetName(), o.GetUid())
}

// stateDir is where a user's journals are, and no other account gets in. Root lends it to the processes of the user, until back is called for each.
func (a *Agent) stateDir(who osaccount.Account) (dir string, back func(), err error) {
	users := a.users()
	if err := os.MkdirAll(users, 0o711); err != nil {
		return "", nil, err
	}
	dir = filepath.Join(users, strconv.FormatUint(uint64(who.UID), 10))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, mover.ErrNotExist) && !os.IsExist(err) {
		return "", nil, err
	}
	back, err = a.journals.lend(dir, who)
	return dir, back, err
}

// users is the directory of the journals of all users.
func (a *Agent) users() string {
	return cmp.Or(a.conf().Agent.Journals, filepath.Join(a.o.Data, "users"))
}

// serve talks with the process until it ends, and tells the coordinator of what was
// left unsaid.
func (p *process) serve() {
	a := p.agent
	defer a.running.Done()
	p.server = grpc.NewServer(append(api.ServerOptions(), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.StaticStreamWindowSize(worker.Window), grpc.StaticConnWindowSize(worker.Window))...)
	agentv1.RegisterWorkerServiceServer(p.server, p)
	go func() { _ = p.server.Serve(&oneConn{conn: &lastWord{Conn: p.acting.Conn(), closed: p.endDeaf}}) }()
	<-p.acting.Done()
	err := p.acting.Stop(0)
	p.cancel()
	p.server.Stop()
	p.releaseTurns()
	a.turns.leave(p.flow)
	a.mu.Lock()
	if a.procs[p.task.GetId()] == p {
		delete(a.procs, p.task.GetId())
	}
	a.mu.Unlock()
	p.leaveReplicas()
	if p.back != nil {
		p.back()
	}
	why := endedByItself(err)
	if p.deaf.Load() {
		why = errDeaf
	}
	if refused := p.refused.Load(); refused != nil {
		why = *refused
	}
	if crash := p.acting.Crash(); crash != "" {
		why = p.crashed(crash)
		err = why
	}
	p.bury(why)
	p.untrace(err)
	close(p.ended)
	a.hurry()
	a.prestarter.prepare(p.as)
}

// bury tells what a process that has ended did not tell.
func (p *process) bury(err error) {
	why, kind := err.Error(), mover.KindName(err)
	p.mu.Lock()
	done, batches := p.done, p.batches
	p.batches, p.buried = nil, err
	p.mu.Unlock()
	if p.lead != nil && !done {
		p.agent.finish(p, &agentv1.FinishRequest{Task: p.task.GetId(), Epoch: p.epoch, Error: why, ErrorKind: kind, PutBack: errors.Is(err, mover.ErrTransient)})
	}
	if p.lead != nil {
		p.agent.drop(sessionKey{p.task.GetId(), ""}, p.epoch)
	}
	for id, s := range batches {
		p.agent.reply(s.span, &agentv1.ReplyRequest{Task: p.task.GetId(), Batch: id, Epoch: s.epoch, Error: why, ErrorKind: kind})
		p.agent.drop(sessionKey{p.task.GetId(), id}, s.epoch)
	}
}

// lostGrace is how long a process has to end when its lead is over.
const lostGrace = 5 * time.Second

// halt ends the process in the way that is meant, at the latest after grace.
func (p *process) halt(how agentv1.How, grace time.Duration) {
	if how == agentv1.How_HOW_LOST {
		grace = min(grace, lostGrace)
	}
	p.send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Stop{Stop: &agentv1.WorkerStop{How: how}}})
	select {
	case <-p.ended:
	case <-time.After(grace):
		_ = p.acting.Stop(time.Second)
		<-p.ended
	}
}

// send gives the process an order. One that does not read is stuck: it is ended.
func (p *process) send(o *agentv1.WorkerOrder) {
	select {
	case p.orders <- o:
	case <-p.ctx.Done():
	default:
		go func() { _ = p.acting.Stop(time.Second) }()
	}
}

// deafGrace is how long a process has to end when its conversation has.
const deafGrace = 5 * time.Second

// errDeaf is the end of a process that its user, a debugger or a frozen control group has stopped. What it has done is in its journal.
var errDeaf = fmt.Errorf("%w: the process that did it did not answer, and was killed", mover.ErrTransient)

// endDeaf ends a process after its connection has ended: the gRPC server closes one that answers no ping. A process that is stopped can not end by itself.
func (p *process) endDeaf() {
	select {
	case <-p.acting.Done():
	case <-time.After(deafGrace):
		p.agent.log.Warn("a worker does not answer, and is killed", "task", p.task.GetId(), "pid", p.acting.PID())
		p.deaf.Store(true)
		_ = p.acting.Stop(0)
	}
}

// lastWord is a connection that tells when this side closes it.
type lastWord struct {
	net.Conn
	closed func()
	once   sync.Once // its server closes it more than once
}

func (c *lastWord) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { go c.closed() })
	return err
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	once sync.Once
	conn net.Conn
}

func (l *oneConn) Accept() (c net.Conn, err error) {
	l.once.Do(func() { c = l.conn })
	if c == nil {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
