package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine/rate"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/telemetry"
)

// Options are what an agent needs. Name, Coordinator, Data and Program have to be
// given.
type Options struct {
	Name        string
	Version     string
	Coordinator grpc.ClientConnInterface
	Data        string                                 // a directory of its own: users' journals are below it
	Program     []string                               // starts a worker: a path and arguments
	Ready       func(sandbox.Options) (Waiting, error) // starts a worker; nil starts Program as a process
	Config      func() *config.Config
	Accounts    *osaccount.Directory                  // nil is one of its own
	LeadSlots   int                                   // leads at one time; 0 means 16
	BatchSlots  int                                   // batches of other leads at one time, at least; 0 means 4
	Peers       *Peers                                // nil gives nothing to other nodes, and asks none
	Parts       func(path string) []*agentv1.RoomPart // what of the file system of a tier can be full by itself; nil knows of nothing
	FeedReach   func(dir string) sandbox.Confinement  // what a change log of a directory needs beside it; nil is nothing
	Spares      func(dir string) error                // why no journals should be written to a directory, on the disk of a ledger; nil is no ledger
	// Home makes a directory below jobs/ of a tier before a task of those labels makes it as any other; nil makes none.
	Home    func(ctx context.Context, tier, dir string, labels map[string]string, gid uint32) error
	Logger  *slog.Logger       // nil means no log
	Metrics *telemetry.Metrics // nil counts nothing
}

// Agent is one node's part of the service. Run runs it.
type Agent struct {
	o           Options
	link        agentv1.LinkServiceClient
	log         *slog.Logger
	turns       *turns
	instance    string
	boot        string
	changed     chan struct{} // the coordinator should hear of something now
	pathProbes  pathProbes
	prestarter  prestarter
	journals    journals
	swarms      swarms
	nodeExports nodeExports
	accessLists accessLists
	passed      atomic.Int64 // bytes through its processes

	mu       sync.Mutex
	sessions map[sessionKey]*session  // guarded by mu, as all below
	procs    map[string]*process      // by task
	starting map[string]chan struct{} // tasks for which a helper is being started; closed when it was
	leaving  bool
	rate     rate.Meter     // of passed
	running  sync.WaitGroup // processes; Add under mu while not leaving

}

// sessionKey names a lead (no batch) or a batch.
type sessionKey struct{ task, batch string }

// New returns an agent. Nothing runs until Run.
func New(o Options) (*Agent, error) {
	if o.Name == "" || o.Coordinator == nil || o.Data == "" || len(o.Program) == 0 {
		return nil, errors.New("agent: name, coordinator, data and program are needed")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Accounts == nil {
		o.Accounts = osaccount.New()
	}
	if o.LeadSlots <= 0 {
		o.LeadSlots = 16
	}
	if o.BatchSlots <= 0 {
		o.BatchSlots = 4
	}
	if err := os.MkdirAll(filepath.Join(o.Data, "users"), 0o711); err != nil {
		return nil, err
	}
	a := &Agent{
		o: o, link: agentv1.NewLinkServiceClient(o.Coordinator), log: o.Logger.With("agent", o.Name), turns: newTurns(),
		instance: newInstance(), boot: bootID(), changed: make(chan struct{}, 1),
		sessions: map[sessionKey]*session{}, procs: map[string]*process{}, starting: map[string]chan struct{}{},
	}
	a.pathProbes.log, a.pathProbes.parts = a.log, o.Parts
	if a.prestarter.ready = o.Ready; o.Ready == nil {
		a.prestarter.ready = readyProcess
	}
	a.prestarter.most = func() int {
		if n := a.conf().Agent.Spares; n != nil {
			return *n
		}
		return config.DefaultSpares
	}
	return a, nil
}

// stopGrace is how long processes have to put their drafts aside.
const stopGrace = 20 * time.Second

// Run serves until ctx ends, and then puts back what it has. It returns when every
// process has ended.
func (a *Agent) Run(ctx context.Context) error {
	defer a.o.Metrics.Sample(a.sample)()
	if err := a.journals.takeBack(a.users()); err != nil {
		a.log.Warn("directories of journals may be written by their users while these have no worker", "err", err)
	}
	a.lookAtRoom()                                                    // before it says what it takes
	actx, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // goes on while processes end
	defer stop(errLeaving)
	attended := make(chan struct{})
	go func() {
		defer close(attended)
		a.attend(actx)
	}()
	tended := make(chan struct{})
	go func() {
		defer close(tended)
		a.prestarter.tend(ctx)
	}()
	measured := make(chan struct{})
	go func() {
		defer close(measured)
		a.tendJournals(ctx)
	}()
	<-ctx.Done()
	a.leave(agentv1.How_HOW_PAUSE)
	a.running.Wait()
	<-tended
	<-measured
	stop(errLeaving)
	<-attended
	return nil
}

// errLeaving is why nothing begins any more.
var errLeaving = fmt.Errorf("%w: this agent is leaving", mover.ErrTransient)

// leave tells every process to stop, and starts no more.
func (a *Agent) leave(how agentv1.How) {
	a.mu.Lock()
	a.leaving = true
	procs := make([]*process, 0, len(a.procs))
	for _, p := range a.procs {
		procs = append(procs, p)
	}
	a.mu.Unlock()
	a.hurry()
	if len(procs) > 0 {
		a.log.Info("leaves when the processes of its tasks have ended; each is killed after the grace", "processes", len(procs), "grace", stopGrace)
	}
	for _, p := range procs {
		p.halt(how, stopGrace)
	}
}

// hurry has the coordinator told of the present state at once.
func (a *Agent) hurry() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// conf is the configuration of this moment.
func (a *Agent) conf() *config.Config {
	if a.o.Config == nil {
		return &config.Config{}
	}
	return a.o.Config()
}

// Processes are the ids of the processes that work on a task here now.
func (a *Agent) Processes(task string) (pids []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.procs[task]; p != nil {
		pids = append(pids, p.acting.PID())
	}
	return pids
}
