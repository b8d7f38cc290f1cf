package service

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

	sky     *sky                    //
	domains []domain                // of the world, by kinds
	byName  map[string]domain       //
	up      bool                    // the coordinator
	gone    map[string]bool         // agents that were killed
	pending []mending               // what is mended when its time comes
	sources []*source               //
	asked   []*asked                // what was asked for, in order
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

// asked is a request of a caller.
type asked struct {
	what string
	call func(context.Context, *api.Client) (id string, err error) // with its key, so that it can be made again
	at   time.Time
	id   string // of the task; "" is none, or not known
	sure bool   // it was answered
	err  error  // the answer

	apart bool // only its own domain cancels and pauses it
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
	r := &running{t: t, w: w, byName: map[string]domain{}, up: true, gone: map[string]bool{}, ended: map[string]pb.TaskState{}}
	for _, k := range kinds {
		if slices.Contains(w.domains, k.name) {
			d := k.make(r)
			d.configure(conf)
			r.domains, r.byName[k.name] = append(r.domains, d), d
		}
	}
	r.Cluster = rig.Open(t, rig.Options{Dir: dir, Conf: conf, Power: slices.ContainsFunc(w.steps, step.power), Catalog: r.byName["checkpoints"] != nil, Accounts: rig.Accounts(t)})
	if w.swarm {
		r.Peers = rig.NewPeers(t, false)
	}
	rng := rand.New(rand.NewPCG(w.seed, 40))
	for i, shape := range w.trees {
		r.grow(rng, i, shape)
	}
	for i := range w.agents {
		r.Join(nodeName(i))
	}
	caller, err := r.Caller(3 * time.Second)
	must.Do(t, err)
	defer func() { must.Tell(t, caller.Close()) }()
	r.caller = caller
	for _, d := range r.domains {
		d.begin()
	}
	r.sky = &sky{w: &r.w, seen: map[string]uint64{}, sprung: make(chan sprung, trapsMost)}
	r.SetWeather(r.sky)
	for i, s := range w.steps {
		r.pass(s.wait)
		r.byName[s.domain].do(s)
		if r.holds(); t.Failed() {
			t.Logf("after step %d, %+v", i, s)
			return
		}
	}
	r.finish()
}

func nodeName(i int) string { return fmt.Sprint("n", i+1) }

// grow makes a source.
func (r *running) grow(rng *rand.Rand, i int, of shape) {
	s := &source{dir: filepath.Join(r.Dir, "shared", fmt.Sprint("src", i)), now: map[string]uint64{}, ever: map[string]map[uint64]bool{}}
	r.sources = append(r.sources, s)
	must.Do(r.t, os.MkdirAll(s.dir, 0o755))
	put := func(name string, size int64) {
		data := make([]byte, size+7)
		for j := 0; j < int(size); j += 8 {
			binary.LittleEndian.PutUint64(data[j:], rng.Uint64())
		}
		s.put(r.t, name, data[:size])
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

// mtimes make the times of files differ.
var mtimes atomic.Int64

func (s *source) put(t *testing.T, name string, data []byte) {
	path := filepath.Join(s.dir, name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	sum := sumOf(data)
	if s.ever[name] == nil {
		s.ever[name] = map[uint64]bool{}
	}
	s.ever[name][sum] = true // before it can be read
	must.Do(t, os.WriteFile(path, data, 0o644))
	at := time.Now().Add(time.Duration(mtimes.Add(1)) * time.Microsecond) // the kernel gives one time to what is written within milliseconds
	must.Do(t, os.Chtimes(path, at, at))
	s.now[name] = sum
	s.changed = append(s.changed, time.Now())
}

func (s *source) remove(t *testing.T, name string) {
	must.Do(t, os.Remove(filepath.Join(s.dir, name)))
	delete(s.now, name)
	s.changed = append(s.changed, time.Now())
}

func sumOf(data []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64()
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
		select {
		case <-time.After(time.Until(at)):
		case hit := <-r.sky.sprung:
			hit.do(hit.node, hit.pid)
			continue
		}
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
	id, err := a.call(ctx, c)
	if a.err = err; unknown(err) {
		return
	}
	a.sure = true
	if id != "" {
		if a.id != "" && a.id != id {
			r.t.Errorf("%s was task %s, and with the same key it is %s", a.what, a.id, id)
		}
		a.id = id
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
