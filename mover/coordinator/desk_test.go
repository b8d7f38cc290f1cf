package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/clock"
	"datamove.dev/mover/coordinator/enroll"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/manifest"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
	"datamove.dev/tiering/burst/burstserver"
	"datamove.dev/tiering/catalog/catalogserver"
	"datamove.dev/tiering/dataset/datasetserver"
	"datamove.dev/tiering/policy/policyserver"
)

const day = 24 * time.Hour

// tester is what desks need of a test.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// desk is a coordinator with agents that do what the test says, at a time that the
// test sets. It needs no goroutine.
type desk struct {
	*Service
	datasets            *datasetserver.Server
	catalog             *catalogserver.Server
	policy              *policyserver.Server
	policies            policyserver.Options // of policy: Policies, People and Metrics
	*burstserver.Server                      // with the calls of agents for tasks of bursts

	t      tester
	dir    string
	conf   *config.Config
	rules  *authz.Rules
	ledger *state.Ledger
	times  sync.Mutex    // of the two below, for who asks in another goroutine
	wall   time.Time     // what the clock of the machine shows
	steady time.Duration // that has really passed
	orders map[string]chan *agentv1.Order
	taken  map[string]*agentv1.Lead          // leads that agents have, by task
	led    map[string]string                 // who has them
	heard  map[string]*agentv1.Swarm         // what agents heard last of a swarm, by name
	helped []*agentv1.Batch                  // batches that whoever does not lead their task has
	links  map[string]string                 // symbolic links of all nodes; nil: agents do not look where they lead
	deaf   bool                              // agents do not answer when they are asked that
	gone   bool                              // it was closed
	boots  int                               // of the nodes
	sees   func(*datasetserver.Unseen) error // looks whether somebody may read; nil says yes
}

// site is a configuration with tiers of every kind.
func site() *config.Config {
	return &config.Config{Tiers: map[string]config.Tier{
		"scratch": {Level: "hot", Path: "/nvme", Ephemeral: true, NodeLocal: true, Cache: &config.Cache{High: 80, Low: 50}},
		"project": {Level: "warm", Path: "/lustre/project", Cache: &config.Cache{High: 80, Low: 50}},
		"archive": {Level: "cold", S3: &config.S3{Bucket: "archive"}},
	}}
}

func newDesk(t testing.TB, conf *config.Config, in authz.Input) *desk {
	t.Helper()
	d := &desk{t: t, dir: memoryDir(t), conf: conf, wall: time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)}
	in.Tiers = map[string]string{}
	for name, tier := range conf.Tiers {
		in.Tiers[name] = tier.Path
	}
	var err error
	if d.rules, err = authz.New(in); err != nil {
		t.Fatal(err)
	}
	d.open()
	t.Cleanup(func() {
		if !d.gone {
			d.close()
		}
	})
	return d
}

// memoryDir is a directory in memory where there is one: what is durable is not of interest.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "datamove-desk-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// open begins the service, or begins it again, and its agents come.
func (d *desk) open() {
	d.t.Helper()
	d.start()
	for _, name := range []string{"n1", "n2"} {
		d.attend(name)
	}
}

// start begins the service with nobody there.
func (d *desk) start() {
	d.t.Helper()
	var err error
	if d.ledger, err = state.Open(d.dir+"/ledger", state.Options{}); err != nil {
		d.t.Fatalf("%v", err)
	}
	begun := d.steady
	d.Service, err = New(context.Background(), Options{
		Ledger: d.ledger, Node: "n1", Data: d.dir, Rules: func() *authz.Rules { return d.rules }, Config: func() *config.Config { return d.conf }, Lease: 24 * time.Hour,
		Clock: clock.New(func() time.Time {
			d.times.Lock()
			defer d.times.Unlock()
			return d.wall
		}, func() time.Duration {
			d.times.Lock()
			defer d.times.Unlock()
			return d.steady - begun
		}),
	})
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	d.serveDatasets()
	d.servePolicies()
	d.Server = burstserver.New(burstserver.Options{Coordinator: d.Service, Datasets: d.datasets, Ledger: d.ledger, Config: d.Service.o.Config, Rules: d.Service.o.Rules, Logger: d.log, Now: d.Service.now})
	d.orders = map[string]chan *agentv1.Order{}
}

// enrolls has nodes join by the tokens of an authority, and by those that others vouch for.
func (d *desk) enrolls(authority *pki.Authority, vouch func(ctx context.Context, token string) (string, error)) {
	d.t.Helper()
	var err error
	d.enroll, err = enroll.New(enroll.Options{Ledger: d.ledger, Rules: d.o.Rules, Authority: authority, Vouch: vouch, Data: d.dir, Logger: d.log, Now: d.now})
	if err != nil {
		d.t.Fatalf("%v", err)
	}
}

// serveDatasets begins a server of datasets in place of the one that the desk had.
func (d *desk) serveDatasets() {
	d.added, d.loops = nil, nil
	var err error
	d.datasets, err = datasetserver.New(context.Background(), datasetserver.Options{
		Coordinator: d.Service, Ledger: d.ledger, Config: d.o.Config, Rules: d.o.Rules, Audit: func(ctx context.Context, r auditlog.Record) error { return d.o.Audit(ctx, r) }, Logger: d.log, Clock: d.clock, Node: d.o.Node, Data: d.dir,
		Catalog: d.policies.Catalog, Metrics: d.o.Metrics,
		Look: func(u *datasetserver.Unseen) error {
			if d.sees == nil {
				return nil
			}
			return d.sees(u)
		},
	})
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	d.UseDatasets(d.datasets)
}

// servePolicies begins servers of policies and of the catalog, as the desk describes them, in place of those that it had.
func (d *desk) servePolicies() {
	d.onEnd, d.onEnded, d.onDone = nil, nil, nil
	o := d.policies
	d.catalog = catalogserver.New(catalogserver.Options{Coordinator: d.Service, Datasets: d.datasets, Ledger: d.ledger, Config: d.o.Config, Rules: d.o.Rules, Logger: d.log, Now: d.now, Node: d.o.Node, Catalog: o.Catalog, People: o.People})
	o.Server = d.catalog
	o.Coordinator, o.Datasets, o.Ledger, o.Config, o.Rules, o.Logger, o.Now, o.Data = d.Service, d.datasets, d.ledger, d.o.Config, d.o.Rules, d.log, d.now, d.dir
	d.policy = policyserver.New(o)
}

// attend has an agent begin a conversation, with the leads that it has.
func (d *desk) attend(name string) {
	d.t.Helper()
	hello := &agentv1.Hello{Name: name, Root: true, Boot: fmt.Sprint(d.boots), Reaches: []*agentv1.Reach{{}}, PeerPort: 7645, PeerHost: name + ".site", Resolves: d.links != nil}
	for tier, t := range d.conf.Tiers {
		hello.Reaches = append(hello.Reaches, &agentv1.Reach{Tier: tier, NodeLocal: t.NodeLocal})
	}
	st := &agentv1.Status{Hello: hello, LeadSlots: 1000}
	for id, l := range d.taken {
		if d.led[id] == name {
			st.Sessions = append(st.Sessions, &agentv1.Session{Task: id, Epoch: l.GetEpoch()})
		}
	}
	for _, b := range d.helped {
		if d.helper(b.GetTask()) == name {
			st.Sessions = append(st.Sessions, &agentv1.Session{Task: b.GetTask(), Batch: b.GetId(), Epoch: b.GetEpoch()})
		}
	}
	d.orders[name] = make(chan *agentv1.Order, ordersMost)
	if err := d.agents.connect(context.Background(), name, st, d.orders[name], func() {}); err != nil {
		d.t.Fatalf("%v", err)
	}
}

func (d *desk) close() {
	d.t.Helper()
	if err := d.ledger.Close(); err != nil {
		d.t.Fatalf("%v", err)
	}
}

// as is a context of a person on the socket.
func as(name string, uid uint32, groups ...string) context.Context {
	return authz.With(context.Background(), authz.Caller{Name: name, UID: uid, Groups: groups, Via: authz.Local})
}

func asAgent(name string) context.Context {
	return authz.With(context.Background(), authz.Caller{Name: name, Agent: name, Via: authz.Agent})
}

// give has queued tasks given out, and agents take them.
func (d *desk) give() {
	d.t.Helper()
	for _, f := range d.scheduler.fair() {
		d.Service.scheduler.queue.Drop(f.name)
	}
	d.scheduler.discover(context.Background())
	d.scheduler.giveLeads(context.Background())
	if d.heard == nil {
		d.heard = map[string]*agentv1.Swarm{}
	}
	if d.taken == nil {
		d.taken, d.led = map[string]*agentv1.Lead{}, map[string]string{}
	}
	looked := false
	for name, orders := range d.orders {
		for len(orders) > 0 {
			o := <-orders
			if r := o.GetResolve(); r != nil && !d.deaf {
				looked = true
				d.resolve(name, r)
			}
			if s := o.GetSwarm(); s != nil {
				d.heard[name] = s
			}
			if l := o.GetLead(); l != nil {
				d.taken[l.GetTask().GetId()], d.led[l.GetTask().GetId()] = l, name
			}
		}
	}
	if looked {
		d.paths.learnReal(context.Background())
		d.give()
	}
}

// resolve has an agent say where links lead.
func (d *desk) resolve(agent string, r *agentv1.Resolve) {
	d.t.Helper()
	answer := &agentv1.TellRealRequest{}
	for _, p := range r.GetPlaces() {
		_, at, _ := strings.Cut(placement.Address(p.GetLocation(), "", d.conf), ":")
		for from, to := range d.links {
			if at == from && !p.GetItself() || strings.HasPrefix(at, from+"/") {
				at = to + at[len(from):]
			}
		}
		answer.Tasks = append(answer.Tasks, p.GetTask())
		answer.Places = append(answer.Places, &agentv1.RealPlace{Task: p.GetTask(), Location: p.GetLocation(), Real: at})
	}
	if _, err := d.paths.TellReal(asAgent(agent), answer); err != nil {
		d.t.Fatalf("%v", err)
	}
}

// finish ends a lead: with what lies at the place that it had to read, or with an error.
func (d *desk) finish(id string, content uint64, failed error) error {
	d.t.Helper()
	l, who := d.taken[id], d.led[id]
	delete(d.taken, id)
	r := &agentv1.FinishRequest{Task: id, Epoch: l.GetEpoch(), Report: &pb.Report{}}
	if failed != nil {
		r.Error, r.ErrorKind = failed.Error(), mover.KindName(failed)
	} else if l.GetSpec().GetKind() != pb.TaskKind_TASK_KIND_RELEASE && d.kindOf(l.GetSpec()).Proves(l.GetSpec()) {
		d.taken[id] = l
		err := d.prove(id, content)
		delete(d.taken, id)
		if err != nil {
			return err
		}
	}
	_, err := d.scheduler.Finish(asAgent(who), r)
	return err
}

// refuse ends a lead that has changed nothing.
func (d *desk) refuse(id string, why error) {
	d.t.Helper()
	l, who := d.taken[id], d.led[id]
	delete(d.taken, id)
	_, err := d.scheduler.Finish(asAgent(who), &agentv1.FinishRequest{Task: id, Epoch: l.GetEpoch(), Report: &pb.Report{}, Error: why.Error(), ErrorKind: mover.KindName(why), Untouched: true})
	if err != nil {
		d.t.Fatalf("%v", err)
	}
}

// prove sends what the lead of a task has read.
func (d *desk) prove(id string, content uint64) error {
	first := &agentv1.PutManifestRequest{Task: id, Epoch: d.taken[id].GetEpoch()}
	return d.datasets.PutManifest(&sending{ctx: asAgent(d.led[id]), first: first, rest: bytes.NewReader(manifestOf(content))})
}

// content is a tree whose one file has a content, as tests tell contents apart.
type content struct {
	manifest []byte
	digest   string
}

// bare of a number is its content as a store has it, that knows no modes.
const bare = 1 << 63

var contents sync.Map // of all that were asked for, by number: to compress takes longer than all else

func contentOf(number uint64) content {
	if known, there := contents.Load(number); there {
		return known.(content)
	}
	var b bytes.Buffer
	w, err := manifest.NewWriter(&b, manifest.Header{})
	if err == nil {
		e := mover.Entry{Name: "file", Kind: mover.File, Size: 100, CRC: number &^ bare, Known: mover.FactCRC}
		if number&bare == 0 {
			e.Mode, e.Known = 0o644, e.Known|mover.FactMode
		}
		err = w.Write(&e)
	}
	if err == nil {
		_, err = w.Close()
	}
	c := content{manifest: b.Bytes()}
	if err == nil {
		c.digest, _, _, err = manifest.Digest(bytes.NewReader(c.manifest))
	}
	if err != nil {
		panic(err)
	}
	contents.Store(number, c)
	return c
}

func manifestOf(number uint64) []byte { return contentOf(number).manifest }

func digestOf(number uint64) string { return contentOf(number).digest }

// sending is the stream on which a lead sends its manifest.
type sending struct {
	grpc.ServerStream
	ctx   context.Context
	first *agentv1.PutManifestRequest
	rest  io.Reader
	then  func() // called before the end
}

func (s *sending) Context() context.Context { return s.ctx }

func (s *sending) Recv() (*agentv1.PutManifestRequest, error) {
	if r := s.first; r != nil {
		s.first = nil
		return r, nil
	}
	b := make([]byte, 64<<10)
	n, err := s.rest.Read(b)
	if err != nil && s.then != nil {
		s.then()
	}
	return &agentv1.PutManifestRequest{Data: b[:n]}, err
}

func (s *sending) SendAndClose(*agentv1.PutManifestResponse) error { return nil }

// state is a task in the ledger.
func (d *desk) state(id string) *pb.Task {
	d.t.Helper()
	t, err := d.Service.Task(id)
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	return t
}

// pass lets time pass: the clock of the machine goes with it.
func (d *desk) pass(by time.Duration) {
	d.times.Lock()
	defer d.times.Unlock()
	d.wall, d.steady = d.wall.Add(by), d.steady+by
}

// row is the record of a replica; nil when there is none.
func (d *desk) row(dataset, digest, tier, node string) (r *pb.Replica) {
	d.t.Helper()
	err := d.ledger.View(func(tx *state.Tx) (err error) {
		r, err = state.Replicas.Get(tx, state.ReplicaKey(&pb.Replica{Dataset: dataset, Digest: digest, Tier: tier, Node: node})...)
		return mover.IgnoreNotExist(err)
	})
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	return r
}

// done runs a task to its end, with a content at its source.
func (d *desk) done(t *pb.Task, err error, content uint64) *pb.Task {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	d.give()
	if d.taken[t.GetId()] == nil {
		d.t.Fatalf("nobody takes %v: %s", t, fmt.Sprint(d.state(t.GetId())))
	}
	if err := d.finish(t.GetId(), content, nil); err != nil {
		d.t.Fatalf("%v", err)
	}
	return d.state(t.GetId())
}

// forsake ends a desk before its test ends.
func (d *desk) forsake() {
	d.close()
	d.gone = true
	_ = os.RemoveAll(d.dir)
}
