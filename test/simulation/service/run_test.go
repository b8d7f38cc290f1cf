package service

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// running is a world that runs.
type running struct {
	*rig.Cluster
	t      *testing.T
	w      world
	caller *api.Client // in the weather

	up      bool                    // the coordinator
	gone    map[string]bool         // agents that were killed
	full    map[int]bool            // targets without room
	pending []mending               // what is mended when its time comes
	sources []*source               //
	targets [targets]*target        //
	asked   []*asked                // what was asked for, in order
	leases  map[string]lease        // that were given, by id
	ended   map[string]pb.TaskState // tasks that were seen to have ended
	n       int                     // of keys and holders
}

// mending ends a fault.
type mending struct {
	at  time.Time
	do  func() bool // false is not yet
	was string
}

// source is a tree that is copied from.
type source struct {
	dir     string
	now     map[string]uint64          // contents by name
	ever    map[string]map[uint64]bool // all that there were
	changed []time.Time
}

// target is a tree that is copied to.
type target struct {
	dir, location string
	from          map[int]bool // sources
}

// asked is a request of a caller.
type asked struct {
	what string
	call func(context.Context, *api.Client) (*pb.Task, *pb.Lease, error) // with its key, so that it can be made again
	at   time.Time
	id   string // of the task; "" is none, or not known
	sure bool   // it was answered
	err  error  // the answer

	src, dst int // of copies; -1 is no copy
	sync     bool
}

type lease struct {
	dataset, node string
	dropped       bool
}

// play runs a world.
func play(t *testing.T, w world) {
	dir := t.TempDir()
	conf := &config.Config{Tiers: map[string]config.Tier{
		"shared":  {Level: "warm", Path: filepath.Join(dir, "shared")},
		"archive": {Level: "cold", Path: filepath.Join(dir, "archive")},
		"scratch": {Level: "hot", Path: filepath.Join(dir, "scratch"), Ephemeral: true, NodeLocal: true},
	}}
	for _, tier := range []string{"shared", "archive", "scratch"} {
		conf.Limits = append(conf.Limits, config.Limit{Endpoint: tier, Direction: "write", Rate: config.Rate(w.rate)})
	}
	r := &running{t: t, w: w, up: true, gone: map[string]bool{}, full: map[int]bool{}, leases: map[string]lease{}, ended: map[string]pb.TaskState{}}
	r.Cluster = rig.Open(t, rig.Options{Dir: dir, Conf: conf})
	if w.swarm {
		r.Peers = rig.NewPeers(t, false)
	}
	rng := rand.New(rand.NewPCG(w.seed, 40))
	for i, shape := range w.trees {
		r.grow(rng, i, shape)
	}
	for i, tier := range []string{"shared", "archive", "shared"} {
		name := fmt.Sprint("dst", i)
		r.targets[i] = &target{dir: filepath.Join(dir, tier, name), location: tier + ":" + name, from: map[int]bool{}}
	}
	for i := range w.agents {
		r.Join(nodeName(i))
	}
	caller, err := r.Caller(3 * time.Second)
	must.Do(t, err)
	defer func() { must.Tell(t, caller.Close()) }()
	r.caller = caller
	r.SetWeather(&sky{w: &r.w, seen: map[string]uint64{}})
	for i, s := range w.steps {
		r.pass(s.wait)
		r.do(s)
		if r.check(); t.Failed() {
			t.Logf("after step %d, %+v", i, s)
			return
		}
	}
	r.end()
}

func nodeName(i int) string { return fmt.Sprint("n", i+1) }

// grow makes a source.
func (r *running) grow(rng *rand.Rand, i int, of shape) {
	s := &source{dir: filepath.Join(r.Dir, "shared", fmt.Sprint("src", i)), now: map[string]uint64{}, ever: map[string]map[uint64]bool{}}
	r.sources = append(r.sources, s)
	must.Do(r.t, os.MkdirAll(s.dir, 0o755))
	put := func(name string, size int64) {
		data := make([]byte, size)
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		s.put(r.t, name, data)
	}
	put("always", 10)
	for n := range of.small {
		put(fmt.Sprintf("d%d/f%d", n%3, n), int64(rng.IntN(3000)))
	}
	for n := range of.large {
		put(fmt.Sprintf("d%d/large%d", n%2, n), of.largeBytes+int64(rng.IntN(3<<20)))
	}
	// Directories of long ago, so that one that is touched shows.
	long := time.Now().Add(-100 * time.Hour)
	must.Do(r.t, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		long = long.Add(time.Hour)
		return os.Chtimes(path, long, long)
	}))
}

func (s *source) put(t *testing.T, name string, data []byte) {
	path := filepath.Join(s.dir, name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	sum := sumOf(data)
	if s.ever[name] == nil {
		s.ever[name] = map[uint64]bool{}
	}
	s.ever[name][sum] = true // before it can be read
	must.Do(t, os.WriteFile(path, data, 0o644))
	s.now[name] = sum
	s.changed = append(s.changed, time.Now())
}

func sumOf(data []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64()
}

// sky is the weather of a world.
type sky struct {
	w    *world
	mu   sync.Mutex
	seen map[string]uint64 // how many there were; guarded by mu
}

// dice are of the next thing that is called so.
func (s *sky) dice(name string) *rand.Rand {
	s.mu.Lock()
	n := s.seen[name]
	s.seen[name]++
	s.mu.Unlock()
	return rand.New(rand.NewPCG(s.w.seed, sumOf([]byte(name))+n))
}

func (s *sky) Message(agentName, method string, sent bool) rig.Fate {
	d, r := s.dice(fmt.Sprint(agentName, method, sent)), &s.w.rates
	var f rig.Fate
	if d.Float64() < r.delay {
		f.Delay = time.Duration(d.Int64N(int64(r.longest)))
	}
	f.Answered = d.Float64() < r.answered
	f.Lost = f.Answered || d.Float64() < r.lost
	f.Twice = d.Float64() < r.twice
	return f
}

func (s *sky) Call(agentName string, _ int, op string) time.Duration {
	d, r := s.dice(agentName+" "+op), &s.w.rates
	if d.Float64() >= r.slow {
		return 0
	}
	return time.Duration(d.Int64N(int64(r.longest)))
}

// pass lets time go by; what is to be mended meanwhile is.
func (r *running) pass(d time.Duration) {
	end := time.Now().Add(d)
	for {
		at := end
		for _, m := range r.pending {
			if m.at.Before(at) {
				at = m.at
			}
		}
		time.Sleep(time.Until(at))
		r.mend(false)
		if !at.Before(end) {
			return
		}
	}
}

// mend ends the faults that are due, or all.
func (r *running) mend(all bool) {
	for {
		i := slices.IndexFunc(r.pending, func(m mending) bool { return all || !m.at.After(time.Now()) })
		if i < 0 {
			return
		}
		m := r.pending[i]
		r.pending = slices.Delete(r.pending, i, i+1)
		if !m.do() {
			m.at = time.Now().Add(time.Second)
			r.pending = append(r.pending, m)
		}
	}
}

func (r *running) later(n int, was string, do func() bool) {
	r.pending = append(r.pending, mending{time.Now().Add([]time.Duration{10 * time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second, 15 * time.Second}[n%5]), do, was})
}

// do does a step.
func (r *running) do(s step) {
	node := nodeName(s.a % r.w.agents)
	switch s.do {
	case "copy", "sync":
		r.copies(s.a%sources, s.b%targets, s.do == "sync", 1)
	case "twice":
		r.copies(s.a%sources, s.b%targets, false, 2+s.c%3)
	case "change":
		src := r.sources[s.a%sources]
		names := slices.Sorted(maps.Keys(src.now))
		name := names[s.b%len(names)]
		data, err := os.ReadFile(filepath.Join(src.dir, name))
		must.Do(r.t, err)
		src.put(r.t, name, append(data, byte(s.c), byte(len(data))))
	case "add", "stage", "release", "lease", "pin", "unpin", "drop":
		r.dataset(s)
	case "cancel", "pause", "resume":
		r.steer(s)
	default:
		r.fault(s, node)
	}
}

// ask makes a request, and notes it.
func (r *running) ask(a *asked) {
	a.at = time.Now()
	r.asked = append(r.asked, a)
	r.again(a, r.caller)
}

// again makes a request that had no answer.
func (r *running) again(a *asked, c *api.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	t, l, err := a.call(ctx, c)
	if a.err = err; unknown(err) {
		return
	}
	a.sure = true
	if id := t.GetId(); id != "" {
		if a.id != "" && a.id != id {
			r.t.Errorf("%s was task %s, and with the same key it is %s", a.what, a.id, id)
		}
		a.id = id
	}
	if l != nil {
		r.leases[l.GetId()] = lease{dataset: l.GetDataset() + "@" + l.GetDigest(), node: l.GetNode()}
	}
	r.kind(a.what, err)
}

// unknown reports whether a call may have been done, and its answer lost.
func unknown(err error) bool {
	return err != nil && (status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded || errors.Is(err, mover.ErrTransient) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrTimeout))
}

// kind fails for an error that has none.
func (r *running) kind(what string, err error) {
	switch status.Code(err) {
	case codes.Unknown, codes.Internal, codes.DataLoss, codes.Unimplemented:
		if err != nil {
			r.t.Errorf("%s: an error of no kind: %v", what, err)
		}
	}
}

// copies submits a copy, so many times at once with one key.
func (r *running) copies(src, dst int, removes bool, times int) {
	to := r.targets[dst]
	to.from[src] = true
	r.n++
	req := &pb.SubmitTaskRequest{IdempotencyKey: fmt.Sprint("key", r.n), Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: fmt.Sprint("shared:src", src), Target: to.location}}
	if removes {
		req.Spec.Kind, req.Spec.Options = pb.TaskKind_TASK_KIND_SYNC, &pb.Options{RemoveExtra: true}
	}
	a := &asked{what: fmt.Sprintf("%v %s to %s", req.Spec.Kind, req.Spec.Source, req.Spec.Target), src: src, dst: dst, sync: removes,
		call: func(ctx context.Context, c *api.Client) (*pb.Task, *pb.Lease, error) {
			t, err := c.Submit(ctx, req)
			return t, nil, err
		}}
	ids := make([]string, times-1)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			t, _, _ := a.call(ctx, r.caller)
			ids[i] = t.GetId()
		})
	}
	r.ask(a)
	wg.Wait()
	for _, id := range ids {
		if id != "" && a.id != "" && id != a.id {
			r.t.Errorf("%s with one key is task %s and %s", a.what, a.id, id)
		}
		if id != "" {
			a.id = id
		}
	}
}

// dataset does what datasets are for.
func (r *running) dataset(s step) {
	name, node := fmt.Sprint("ds", s.a%sources), nodeName(s.b%r.w.agents)
	r.n++
	key := fmt.Sprint("key", r.n)
	a := &asked{what: fmt.Sprintf("%s %s on %s", s.do, name, node), src: -1, dst: -1}
	switch s.do {
	case "add":
		a.call = func(ctx context.Context, c *api.Client) (*pb.Task, *pb.Lease, error) {
			t, err := api.Once(ctx, c, c.AddDataset, &pb.AddDatasetRequest{Name: name, Location: fmt.Sprint("shared:src", s.a%sources), IdempotencyKey: key})
			return t, nil, err
		}
	case "stage":
		a.call = func(ctx context.Context, c *api.Client) (*pb.Task, *pb.Lease, error) {
			req := &pb.StageRequest{Source: "dataset:" + name, Tier: "scratch", Node: node, IdempotencyKey: key}
			if s.c%3 > 0 {
				req.LeaseTtl, req.Holder = durationpb.New(100*time.Hour), "job:"+key
			}
			answer, err := api.Once(ctx, c, c.Stage, req)
			return answer.GetTask(), answer.GetLease(), err
		}
	case "release":
		a.call = func(ctx context.Context, c *api.Client) (*pb.Task, *pb.Lease, error) {
			t, err := api.Once(ctx, c, c.Release, &pb.ReleaseRequest{Source: "dataset:" + name, Tier: "scratch", Node: node, IdempotencyKey: key})
			return t, nil, err
		}
	case "lease":
		a.call = func(ctx context.Context, c *api.Client) (*pb.Task, *pb.Lease, error) {
			l, err := api.Once(ctx, c, c.AcquireLease, &pb.AcquireLeaseRequest{Dataset: name, Tier: "scratch", Node: node, Holder: "job:" + key, Ttl: durationpb.New(100 * time.Hour), IdempotencyKey: key})
			return nil, l, err
		}
	case "pin":
		a.call = func(ctx context.Context, c *api.Client) (*pb.Task, *pb.Lease, error) {
			_, err := c.Pin(ctx, &pb.PinRequest{Source: "dataset:" + name, Tier: "scratch", Until: timestamppb.New(time.Now().Add(time.Hour)), IdempotencyKey: key})
			return nil, nil, err
		}
	case "unpin":
		a.call = func(ctx context.Context, c *api.Client) (*pb.Task, *pb.Lease, error) {
			_, err := c.Unpin(ctx, &pb.UnpinRequest{Source: "dataset:" + name, Tier: "scratch"})
			return nil, nil, err
		}
	case "drop":
		ids := slices.Sorted(maps.Keys(r.leases))
		if len(ids) == 0 {
			return
		}
		id := ids[s.b%len(ids)]
		l := r.leases[id]
		l.dropped = true // whatever the answer
		r.leases[id] = l
		a.call = func(ctx context.Context, c *api.Client) (*pb.Task, *pb.Lease, error) {
			_, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: id})
			return nil, nil, err
		}
	}
	r.ask(a)
}

// steer cancels, pauses, or resumes a task.
func (r *running) steer(s step) {
	var ids []string
	for _, a := range r.asked {
		if a.id != "" {
			ids = append(ids, a.id)
		}
	}
	if len(ids) == 0 {
		return
	}
	id := ids[len(ids)-1-s.a%min(3, len(ids))]
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var err error
	switch s.do {
	case "cancel":
		_, err = r.caller.CancelTask(ctx, &pb.CancelTaskRequest{Id: id})
	case "pause":
		_, err = r.caller.PauseTask(ctx, &pb.PauseTaskRequest{Id: id})
	case "resume":
		_, err = r.caller.ResumeTask(ctx, &pb.ResumeTaskRequest{Id: id})
	}
	if !unknown(err) {
		r.kind(s.do, err)
	}
}

// fault has something go wrong.
func (r *running) fault(s step, node string) {
	switch s.do {
	case "hour":
		r.pass(10 * time.Minute)
	case "crash":
		if !r.up {
			return
		}
		r.Crash()
		r.up = false
		r.later(s.b, s.do, func() bool { r.Start(); r.up = true; return true })
	case "full":
		dst := s.b % targets
		if r.full[dst] {
			return
		}
		r.full[dst] = true
		r.Refuse(r.targets[dst].dir, mover.ErrFull)
		r.later(s.c, s.do, func() bool { r.Refuse(r.targets[dst].dir, nil); r.full[dst] = false; return true })
	default:
		if !r.gone[node] {
			r.failing(s, node)
		}
	}
}

// failing has a node, or a worker on it, fail.
func (r *running) failing(s step, node string) {
	switch s.do {
	case "agent":
		r.KillAgent(node)
		r.gone[node] = true
		r.later(s.b, s.do, func() bool {
			if !r.up {
				return false
			}
			r.Join(node)
			delete(r.gone, node)
			return true
		})
	case "cut":
		r.cut(s.b, node)
	case "break":
		r.Agents[node].Breaks.Store(true)
	case "kill", "sleep":
		synctest.Wait()
		var ids []string
		for _, a := range r.asked {
			if a.id != "" && len(r.Working(node, a.id)) > 0 {
				ids = append(ids, a.id)
			}
		}
		if len(ids) == 0 {
			return
		}
		id := ids[s.b%len(ids)]
		if s.do == "kill" {
			r.Kill(node, id)
			return
		}
		pids := r.Sleep(node, id)
		r.later(s.c, s.do, func() bool { r.Wake(pids); return true })
		if s.c%2 == 0 {
			r.cut(s.c, node)
		}
	}
}

func (r *running) cut(n int, node string) {
	r.Cut(node)
	r.later(n, "cut", func() bool {
		if !r.gone[node] {
			r.Mend(node)
		}
		return true
	})
}

// all are the tasks of the service.
func (r *running) all() []*pb.Task {
	var all []*pb.Task
	for x, err := range r.Tasks(context.Background(), &pb.ListTasksRequest{}) {
		if err != nil {
			r.t.Errorf("the tasks: %v", err)
			break
		}
		all = append(all, x)
	}
	return all
}

// told is a task in a line.
func told(x *pb.Task) string {
	return fmt.Sprintf("task %s, %s of %s%s to %s %s: %s, phase %q, lead %q, %d tries: %s%s", x.GetId(), strings.ToLower(strings.TrimPrefix(x.GetSpec().GetKind().String(), "TASK_KIND_")),
		x.GetSpec().GetSource(), x.GetDataset(), x.GetSpec().GetTarget(), x.GetSpec().GetNode(), task.Word(x.GetState()), x.GetPhase(), x.GetAgent(), x.GetTries(), x.GetWhy(), x.GetError())
}
