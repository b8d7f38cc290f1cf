package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/burstbuffer"
	"datamove.dev/tiering/slurm/directive"
)

var slurmDeeds = []deed{{"job", 8}, {"scancel", 2}, {"restart slurmctld", 2}, {"kill a worker of a job", 3}, {"no results", 1}, {"tend", 2}, {"release train", 1}}

// slurmJobs are Slurm jobs. A goroutine for each calls the phases of burst_buffer.lua and the hooks of its nodes in the order in which Slurm does, until
// nothing of the job goes on. The numbers of its step draw what it asks for, which of its phases die, and at which of their steps.
type slurmJobs struct {
	*running
	plain
	conf *config.Config
	user slurm.Job
	data map[string]map[string]uint64 // contents by the name of a source of jobs

	mu      sync.Mutex
	all     []*slurmJob   // guarded by mu
	restart chan struct{} // closed as slurmctld ends; guarded by mu
	stopped bool          // the test is over; guarded by mu
	last    bool          // no job begins anew any more; guarded by mu
	refused int           // times that results could not be written; guarded by mu
	walking sync.WaitGroup
	began   []*rig.CallerProcess // guarded by mu
}

// slurmJob is one of them.
type slurmJob struct {
	*slurmJobs
	*rand.Rand
	own    slurm.Job
	nodes  []string
	script string
	asks   asks
	cancel chan struct{} // closed by scancel
	held   string        // the last error of a pre_run

	// Guarded by slurmJobs.mu.
	cancelled bool
	runs      int
	run       string            // that goes on, by its RunID; "" is none
	at        string            // for people
	running   map[string]string // links of the run that is on its nodes: path by its source and the node, as "train n1"
	results   map[string]result // that are to arrive, by name
	told      []string
}

// asks are what a job asks for.
type asks struct{ train, near, notes, bulk, out bool }

// result is a file that a run that ended well has written.
type result struct {
	node, run string
	text      string
}

// train is on a tier from which it has to be brought, near is on one that all nodes see, notes and bulk are no datasets.
var jobSources = map[string]string{"train": "archive", "near": "shared", "notes": "shared", "bulk": "archive"}

func (r *slurmJobs) configure(c *config.Config) {
	dir := filepath.Dir(c.Tiers["shared"].Path)
	c.Slurm = config.Slurm{Warm: "shared", Records: filepath.Join(dir, "records"), State: filepath.Join(dir, "state"), Ready: 30 * time.Second}
	r.conf = c
	r.restart = make(chan struct{})
}

func (r *slurmJobs) begin() {
	uid := rig.People["alice"]
	if os.Geteuid() != 0 {
		uid = uint32(os.Geteuid())
	}
	r.user = slurm.Job{UID: uid, GID: uid, User: "alice"}
	r.data = map[string]map[string]uint64{}
	rng := rand.New(rand.NewPCG(r.w.seed, 41))
	for _, name := range slices.Sorted(maps.Keys(jobSources)) {
		of := map[string]uint64{}
		for i := range 3 {
			text := make([]byte, []int{10, 3000, 600 << 10}[i])
			for j := range text {
				text[j] = byte(rng.Uint32())
			}
			file := fmt.Sprintf("d%d/%s%d", i%2, name, i)
			path := filepath.Join(r.Dir, jobSources[name], name, file)
			must.Do(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(r.t, os.WriteFile(path, text, 0o644))
			of[file] = sumOf(text)
		}
		r.data[name] = of
	}
	r.t.Cleanup(r.stop)
	for _, name := range []string{"train", "near"} {
		r.Add(name, jobSources[name]+":"+name)
	}
}

// process begins one of a job.
func (r *slurmJobs) process(at int, happens func(*rig.CallerProcess), do func(context.Context, *rig.CallerProcess) error) *rig.CallerProcess {
	p := r.CallerProcess(at, happens, do)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = append(r.began, p)
	return p
}

// processes are all that were begun.
func (r *slurmJobs) processes() []*rig.CallerProcess {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.began)
}

// stop ends what goes on still after a failure.
func (r *slurmJobs) stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	for _, p := range r.processes() {
		p.Kill()
	}
	r.walking.Wait()
	for _, p := range r.processes() {
		<-p.Ended
	}
}

// slowly is the tail of a process that has done its work: it ends a while after it has.
var slowly = []time.Duration{0, 0, 0, 20 * time.Millisecond, 200 * time.Millisecond}

func (r *slurmJobs) do(s step) {
	switch s.do {
	case "job":
		r.submit(s)
	case "scancel":
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.all) == 0 {
			return
		}
		if j := r.all[len(r.all)-1-s.a%min(3, len(r.all))]; !j.cancelled {
			j.cancelled = true
			close(j.cancel)
		}
	case "restart slurmctld":
		r.mu.Lock()
		defer r.mu.Unlock()
		close(r.restart)
		r.restart = make(chan struct{})
	case "kill a worker of a job":
		r.killWorkerOf(s.a, func(x *pb.Task) bool { return x.GetSpec().GetLabels()[slurm.Label] != "" })
	case "no results":
		r.mu.Lock()
		r.refused++
		r.mu.Unlock()
		dir := filepath.Join(r.Dir, "shared/results")
		r.Refuse(dir, []error{mover.ErrTransient, mover.ErrFull, mover.ErrPermission, mover.ErrTransient}[s.a%4])
		r.later(s.b, s.do, func() bool { r.Refuse(dir, nil); return true })
	case "tend":
		r.tend(nodeName(s.a % r.w.agents))
	case "release train":
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := r.caller.Release(ctx, &pb.ReleaseRequest{Source: "dataset:train", Tier: []string{"scratch", "shared"}[s.a%2], Node: []string{nodeName(s.b % r.w.agents), ""}[s.a%2]})
		if !unknown(err) {
			r.kind(s.do, err)
		}
	}
}

// killWorkerOf kills a worker of some tasks.
func (r *running) killWorkerOf(n int, is func(*pb.Task) bool) {
	if !r.up {
		return
	}
	synctest.Wait()
	type at struct{ node, id string }
	var found []at
	for _, x := range r.all() {
		for node := range r.Agents {
			if is(x) && len(r.Working(node, x.GetId())) > 0 {
				found = append(found, at{node, x.GetId()})
			}
		}
	}
	slices.SortFunc(found, func(a, b at) int { return strings.Compare(a.node+" "+a.id, b.node+" "+b.id) })
	if len(found) > 0 {
		k := found[n%len(found)]
		r.Kill(k.node, k.id)
	}
}

// ofJobs are the tasks of jobs.
func (r *slurmJobs) ofJobs() []*pb.Task {
	return slices.DeleteFunc(r.running.all(), func(x *pb.Task) bool { return x.GetSpec().GetLabels()[slurm.Label] == "" })
}

// tend is what the daemon of a node does now and then: it ends jobs that no epilog has ended.
func (r *slurmJobs) tend(node string) {
	r.mu.Lock()
	live := map[uint32]bool{}
	for _, j := range r.all {
		if j.run != "" && slices.Contains(j.nodes, node) {
			live[j.own.ID] = j.running != nil
		}
	}
	r.mu.Unlock()
	p := r.process(0, nil, func(ctx context.Context, p *rig.CallerProcess) error {
		site := r.site(p, node)
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		return errors.Join(site.Reconcile(ctx, live, time.Now()), site.Close())
	})
	<-p.Ended
}

// site is a node as its hooks have it.
func (r *slurmJobs) site(p *rig.CallerProcess, node string) *slurm.Site {
	conf := *r.ConfOf(node)()
	conf.Slurm.State = filepath.Join(r.Dir, "nodes", node, "slurm")
	s, err := slurm.Of(&conf, node, p.Dial, func(config.Tier) error { return nil })
	if err != nil {
		panic(err) // of a configuration that is ours
	}
	return s
}

// submit begins a job.
func (r *slurmJobs) submit(s step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := &slurmJob{slurmJobs: r, Rand: rand.New(rand.NewPCG(r.w.seed, uint64(s.a)<<20|uint64(s.b)<<10|uint64(s.c))), cancel: make(chan struct{}), results: map[string]result{}}
	j.own = r.user
	j.own.ID = uint32(100 + len(r.all))
	for _, i := range j.Perm(r.w.agents)[:1+j.IntN(min(2, r.w.agents))] {
		j.nodes = append(j.nodes, nodeName(i))
	}
	slices.Sort(j.nodes)
	j.asks = asks{train: j.IntN(2) == 0, near: j.IntN(3) == 0, notes: j.IntN(2) == 0, bulk: j.IntN(3) == 0, out: j.IntN(3) > 0}
	lines := []string{"#!/bin/sh"}
	for _, line := range []struct {
		asked bool
		text  string
	}{
		{j.asks.train, "stage-in=dataset:train required"},
		{j.asks.near, "stage-in=dataset:near required"},
		{j.asks.notes, "stage-in=shared:notes to=scratch:notes required"},
		{j.asks.bulk, fmt.Sprintf("stage-in=archive:bulk to=shared:bulk/%d required", j.own.ID)},
		{j.asks.out, "stage-out=scratch:out to=shared:results/%j"},
	} {
		if line.asked {
			lines = append(lines, "#DATAMOVE "+line.text)
		}
	}
	if len(lines) == 1 {
		j.asks.train = true
		lines = append(lines, "#DATAMOVE stage-in=dataset:train required")
	}
	j.script = strings.Join(append(lines, "true", ""), "\n")
	r.all = append(r.all, j)
	r.walking.Go(j.walk)
}

// rest lets a while go by.
func (j *slurmJob) rest() { time.Sleep(waits[j.IntN(len(waits))]) }

// isCancelled reports whether scancel was called.
func (j *slurmJob) isCancelled() bool {
	select {
	case <-j.cancel:
		return true
	default:
		return false
	}
}

func (j *slurmJob) note(format string, a ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped {
		runtime.Goexit()
	}
	j.at = fmt.Sprintf(format, a...)
	j.told = append(j.told, fmt.Sprintf("%s run %d: %s", time.Now().Format("15:04:05.000"), j.runs, j.at))
}

// fails is an error of the test, with what the job has gone through.
func (j *slurmJob) fails(format string, a ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.t.Errorf("job %d on %v, %s: %s\n\t%s\n%s", j.own.ID, j.nodes, j.at, fmt.Sprintf(format, a...), strings.Join(j.told, "\n\t"), j.script)
}

// controller is the host of slurmctld, for a process.
func (j *slurmJob) controller(p *rig.CallerProcess) *burstbuffer.Controller {
	return &burstbuffer.Controller{Config: j.conf, Records: j.conf.Slurm.Records, Dial: p.Dial, Step: p.Step, Told: func(what string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.told = append(j.told, "\t"+time.Now().Format("15:04:05.000")+" "+what)
	}}
}

// record is the RunID of the run that the records have; "" is none.
func (j *slurmJob) record() string {
	x, err := (&burstbuffer.Controller{Config: j.conf, Records: j.conf.Slurm.Records}).Run(j.own.ID)
	if err != nil {
		return ""
	}
	return x.RunID()
}

// most runs of a job.
const mostRuns = 3

// walk is a job from its submission to its end.
func (j *slurmJob) walk() {
	for {
		again := j.once()
		j.mu.Lock()
		over := !again || j.runs >= mostRuns || j.last
		j.mu.Unlock()
		if over || j.isCancelled() || j.t.Failed() {
			return
		}
		j.rest()
	}
}

// setup begins a run.
func (j *slurmJob) setup() {
	j.mu.Lock()
	j.runs++
	j.mu.Unlock()
	time.Sleep(time.Nanosecond) // runs are told apart by when they began
	j.quick("setup", func(_ context.Context, c *burstbuffer.Controller) error {
		return c.Setup(j.own, directive.Text{Script: j.script})
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.run = j.record()
}

// over ends what is known of a run.
func (j *slurmJob) over() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.run = ""
}

// once is one run. It says whether the job is to begin again.
func (j *slurmJob) once() (again bool) {
	j.setup()
	defer j.over()
	if goes := j.bring("data_in", (*burstbuffer.Controller).In); !goes {
		return true
	}
	j.brought()
	place := burstbuffer.Place{Nodes: j.nodes, Name: "train", Count: j.runs - 1}
	j.quick("prolog-slurmctld", func(_ context.Context, c *burstbuffer.Controller) error { return c.Nodes(j.own.ID, place) })
	if goes := j.bring("pre_run", func(c *burstbuffer.Controller, ctx context.Context, job uint32) error {
		ctx, cancel := context.WithTimeout(ctx, j.conf.Slurm.Ready)
		defer cancel()
		return c.Before(ctx, job)
	}); !goes {
		return true
	}
	links := j.prologs()
	j.mu.Lock()
	j.running = links
	j.mu.Unlock()
	j.rest()
	j.writes()
	j.mu.Lock()
	j.running = nil
	j.mu.Unlock()
	j.epilogs()
	requeued := j.IntN(4) == 0
	end := burstbuffer.End{Count: j.runs - 1}
	if requeued {
		end.Count++
	}
	j.quick("epilog-slurmctld", func(_ context.Context, c *burstbuffer.Controller) error { return c.Ended(j.own.ID, end) })
	j.out()
	j.teardown(false)
	return requeued
}

// first is the process of a phase that Slurm knows. It is a burstbuffer.First.
type first struct {
	run  string
	gone context.Context
	end  context.CancelFunc

	mu       sync.Mutex
	deserted bool // its slurmctld ends with it; guarded by mu
}

func (f *first) Run() string            { return f.run }
func (f *first) Ended() <-chan struct{} { return f.gone.Done() }
func (f *first) Gone() bool             { return f.gone.Err() != nil }
func (f *first) Deserted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deserted
}

// ends ends it.
func (f *first) ends(deserted bool) {
	f.mu.Lock()
	f.deserted = deserted
	f.mu.Unlock()
	f.end()
}

// How a phase that outlives its process may end, beside by itself.
const (
	byItself = iota
	killed   // Slurm kills it, since the job is cancelled
	restarts // slurmctld ends, and begins it anew
	hostDies // all of its processes die, and slurmctld begins it anew
)

// phase is a call of one that outlives its process. It says how it ended, and its error where that was by itself.
func (j *slurmJob) phase(name string, do func(*burstbuffer.Controller, context.Context, uint32) error) (how int, err error) {
	f := &first{run: j.record()}
	f.gone, f.end = context.WithCancel(context.Background())
	how = []int{byItself, byItself, byItself, byItself, killed, restarts, restarts, hostDies}[j.IntN(8)]
	at, late, tail := 0, []time.Duration{0, 0, 0, 200 * time.Millisecond, 4 * time.Second}[j.IntN(5)], slowly[j.IntN(len(slowly))]
	if how != byItself {
		at = 1 + j.IntN(40)
		if late > 0 && j.IntN(2) == 0 {
			at = 0 // it dies before what outlives it begins
		}
	}
	j.mu.Lock()
	restart := j.restart
	j.mu.Unlock()
	j.note("%s, %d at step %d, begins after %v", name, how, at, late)
	p := j.process(at, func(p *rig.CallerProcess) {
		if how == hostDies {
			p.Kill()
		}
	}, func(ctx context.Context, p *rig.CallerProcess) error {
		time.Sleep(late)
		p.Step()
		c := j.controller(p)
		err := c.Outlive(ctx, j.own.ID, f, func(work context.Context, job uint32) error {
			work, stop := context.WithCancel(work)
			defer context.AfterFunc(ctx, stop)() // a goroutine that waits is to hear that it is dead
			return do(c, work, job)
		})
		if f.Gone() {
			time.Sleep(tail)
		}
		return err
	})
	if how != byItself && at == 0 {
		time.Sleep(late / 2)
		if how == hostDies {
			p.Kill()
		}
	} else {
		select {
		case <-p.Happened:
		case <-p.Ended:
			f.ends(false)
			return byItself, p.Err()
		case <-restart:
			how = restarts
		case <-j.cancel:
			how = killed
		}
	}
	f.ends(how != killed)
	return how, nil
}

// bring is a phase that brings data, until it has ended by itself, or its run is over: that is torn down then.
func (j *slurmJob) bring(name string, do func(*burstbuffer.Controller, context.Context, uint32) error) (goes bool) {
	for begun := time.Now(); ; {
		how, err := j.phase(name, do)
		switch {
		case how == killed:
			if j.done(name) || j.IntN(2) == 0 || j.isCancelled() {
				j.teardown(true)
			} else {
				j.note("its teardown is lost")
			}
			return false
		case how != byItself:
			j.rest()
			continue
		case err == nil:
			j.goesOn(name)
			if name == "data_in" || time.Since(begun) < j.conf.Slurm.Ready { // a pre_run stops what has not come within its limit, which slurmctld may not hear
				j.unstopped(name)
			}
			return true
		}
		j.note("%s: %v", name, err)
		j.goesOn(name)
		j.excusedError(name, err)
		j.teardown(true)
		return false
	}
}

// done says whether a phase has come to its end, whatever became of its process. Slurm kills no teardown then.
func (j *slurmJob) done(name string) bool {
	text, err := os.ReadFile(filepath.Join(j.conf.Slurm.Records, fmt.Sprintf("%d.%s", j.own.ID, map[string]string{"data_in": "staged", "pre_run": "ready"}[name])))
	return err == nil && (name == "pre_run" || strings.Contains(string(text), `"paths"`))
}

// goesOn checks that the run is the one that goes on.
func (j *slurmJob) goesOn(after string) {
	if now := j.record(); now != j.run {
		j.fails("after %s its run is %q, and it was %q", after, now, j.run)
	}
}

// fair is a context in which the service answers; "" is that it is away.
func (j *slurmJob) tasks() (all []*pb.Task, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for x, err := range j.Tasks(ctx, &pb.ListTasksRequest{Labels: map[string]string{slurm.Label: strconv.Itoa(int(j.own.ID))}}) {
		if err != nil {
			return nil, false
		}
		all = append(all, x)
	}
	return all, true
}

// unstopped checks that no copy of this run was cancelled: all that it has waited for came.
func (j *slurmJob) unstopped(after string) {
	all, _ := j.tasks()
	for _, x := range all {
		labels := x.GetSpec().GetLabels()
		if labels[slurm.RunLabel] == j.run && labels[slurm.Leaves] == "" && x.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_COPY && x.GetState() == task.Cancelled {
			j.fails("%s is done, and something that its run waited for was stopped: %s", after, told(x))
		}
	}
}

// brought checks what data_in has brought.
func (j *slurmJob) brought() {
	if j.asks.bulk {
		j.whole("data_in", "bulk", filepath.Join(j.Dir, "shared/bulk", strconv.Itoa(int(j.own.ID))))
	}
}

// whole checks that a source of jobs is at a place.
func (j *slurmJob) whole(after, name, dir string) {
	files, temporary := j.contents(dir)
	if !maps.Equal(files, j.data[name]) || len(temporary) > 0 {
		j.fails("after %s, %s has %d files of %s, of %d, and %v", after, dir, len(files), name, len(j.data[name]), temporary)
	}
}

// excusedError checks that an error has a kind. That of a pre_run for which the job is held is said once more by its next data_in.
func (j *slurmJob) excusedError(name string, err error) {
	if name == "pre_run" {
		j.held = err.Error()
	}
	if mover.KindName(err) == "OTHER" && (name != "data_in" || err.Error() != j.held) {
		j.fails("%s: an error of no kind: %v", name, err)
	}
}

// quick is a phase that is repeated until it has come to its end: slurmctld's host may die in it.
func (j *slurmJob) quick(name string, do func(context.Context, *burstbuffer.Controller) error) {
	j.note("%s", name)
	for n := j.IntN(3); ; n-- {
		at := 0
		if n > 0 {
			at = 1 + j.IntN(12)
		}
		p := j.process(at, (*rig.CallerProcess).Kill, func(ctx context.Context, p *rig.CallerProcess) error { return do(ctx, j.controller(p)) })
		<-p.Ended
		select {
		case <-p.Happened:
			j.rest()
			continue
		default:
		}
		if err := p.Err(); err != nil {
			j.fails("%s: %v", name, err)
		}
		return
	}
}

func (j *slurmJob) teardown(hurry bool) {
	if hurry {
		j.mu.Lock()
		maps.DeleteFunc(j.results, func(_ string, x result) bool { return x.run == j.run })
		j.mu.Unlock()
	}
	j.quick(fmt.Sprintf("teardown, hurry %v", hurry), func(ctx context.Context, c *burstbuffer.Controller) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		return c.Teardown(ctx, j.own.ID, hurry)
	})
}

// hook is a hook on a node.
func (j *slurmJob) hook(node string, do func(context.Context, *slurm.Site) error) {
	p := j.process(0, nil, func(ctx context.Context, p *rig.CallerProcess) error {
		s := j.site(p, node)
		return errors.Join(do(ctx, s), s.Close())
	})
	<-p.Ended
	if err := p.Err(); err != nil {
		j.fails("on %s: %v", node, err)
	}
}

// prologs are those of the nodes, and what they have found: it is there as long as the job runs. A run has its data on each of its nodes, or is told why not.
func (j *slurmJob) prologs() (links map[string]string) {
	j.note("prologs")
	links = map[string]string{}
	for _, node := range j.nodes {
		var out slurm.Outcome
		for range 1 + j.IntN(2) {
			j.hook(node, func(ctx context.Context, s *slurm.Site) (err error) {
				out, err = s.Prolog(ctx, j.own)
				return err
			})
		}
		if len(out.Notes) > 0 {
			j.note("the prolog of %s: %v", node, out.Notes)
		}
		has := map[string]bool{}
		for _, l := range out.Links {
			has[l.Name] = true
			links[l.Name+" "+node] = j.onNode(node, l.Path)
		}
		for _, name := range out.Copies {
			has[name] = true
			links[name+" "+node] = filepath.Join(out.Dir, name)
		}
		for name, asked := range map[string]bool{"train": j.asks.train, "near": j.asks.near, "notes": j.asks.notes} {
			if asked && !has[name] && len(out.Notes) == 0 {
				j.fails("its run has no %s on %s, and nothing says why: %+v", name, node, out)
			}
		}
		links["dir "+node] = out.Dir
	}
	j.has(links)
	return links
}

// onNode is what a path below the node-local tier is in the rig, where nodes have one file system.
func (r *running) onNode(node, path string) string {
	if rest, is := strings.CutPrefix(path, filepath.Join(r.Dir, "scratch")+"/"); is {
		return filepath.Join(rig.ScratchOf(r.Dir, node), rest)
	}
	return path
}

// has checks what a run has on its nodes.
func (j *slurmJob) has(links map[string]string) {
	for _, at := range slices.Sorted(maps.Keys(links)) {
		if name, _, _ := strings.Cut(at, " "); name != "dir" {
			j.whole("pre_run, as "+at, name, links[at])
		}
	}
}

// writes has each node write a result.
func (j *slurmJob) writes() {
	if !j.asks.out {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, node := range j.nodes {
		dir := j.running["dir "+node]
		if dir == "" {
			continue
		}
		x := result{node: node, run: j.run, text: fmt.Sprintf("of run %s on %s of job %d", j.run, node, j.own.ID)}
		name := fmt.Sprintf("run%d-%s", j.runs, node)
		must.Do(j.t, os.MkdirAll(filepath.Join(dir, "out"), 0o755))
		must.Do(j.t, os.WriteFile(filepath.Join(dir, "out", name), []byte(x.text), 0o644))
		j.results[name] = x
	}
}

// epilogs are those of the nodes; some are lost with their nodes.
func (j *slurmJob) epilogs() {
	j.note("epilogs")
	for _, node := range j.nodes {
		for range j.IntN(3) {
			j.hook(node, func(ctx context.Context, s *slurm.Site) error {
				out, err := s.Epilog(ctx, j.own)
				if len(out.Notes) > 0 {
					j.note("the epilog of %s: %v", node, out.Notes)
				}
				return err
			})
		}
	}
}

// out is data_out, which is begun anew where slurmctld's host dies in it. Slurm may end it before it has come to its end, and tears the job down then.
func (j *slurmJob) out() {
	if j.IntN(3) == 0 { // where its results are to go nothing can be written for a while
		dir, lasts := filepath.Join(j.Dir, "shared/results", strconv.Itoa(int(j.own.ID))), waits[3+j.IntN(len(waits)-3)]
		j.mu.Lock()
		j.refused++
		j.mu.Unlock()
		j.Refuse(dir, mover.ErrTransient)
		j.walking.Go(func() {
			time.Sleep(lasts)
			j.Refuse(dir, nil)
		})
	}
	for n := j.IntN(3); ; n-- {
		j.note("data_out")
		at := 0
		if n > 0 {
			at = 1 + j.IntN(40)
		}
		j.mu.Lock()
		restart := j.restart
		j.mu.Unlock()
		p := j.process(at, (*rig.CallerProcess).Kill, func(ctx context.Context, p *rig.CallerProcess) error { return j.controller(p).Out(ctx, j.own.ID, 3) })
		var late <-chan time.Time
		if j.IntN(6) == 0 {
			late = time.After(time.Duration(j.IntN(5000)) * time.Millisecond) // StageOutTimeout
		}
		select {
		case <-p.Ended:
		case <-restart:
			p.Kill()
			<-p.Ended
			j.rest()
			continue
		case <-late:
			p.Kill()
			<-p.Ended
			j.note("data_out has taken too long")
			return
		}
		select {
		case <-p.Happened:
			j.rest()
			continue
		default:
		}
		if err := p.Err(); err != nil {
			j.note("data_out: %v", err)
			j.saysWhere(err)
		}
		return
	}
}

// saysWhere checks that an error of data_out says where the results are.
func (j *slurmJob) saysWhere(err error) {
	j.excusedError("data_out", err)
	for _, says := range []string{"it is on the node still", "it goes on by itself", "its results stay there"} {
		if strings.Contains(err.Error(), says) {
			return
		}
	}
	j.fails("data_out does not say where its results are: %v", err)
}

// where is where a result is: "target", only on its "node", or "". It leaves the node when it is at the target.
func (j *slurmJob) where(name string, x result) (found string) {
	for _, p := range []struct{ where, path string }{
		{"node", filepath.Join(rig.ScratchOf(j.Dir, x.node), slurm.Jobs, j.own.Dir(), "out", name)},
		{"target", filepath.Join(j.Dir, "shared/results", strconv.Itoa(int(j.own.ID)), name)},
	} {
		if text, err := os.ReadFile(p.path); err == nil && string(text) == x.text {
			found = p.where
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			j.t.Error(err)
		}
	}
	return found
}

func (r *slurmJobs) check() {
	r.mu.Lock()
	all := slices.Clone(r.all)
	r.mu.Unlock()
	for _, j := range all {
		j.mu.Lock()
		running, results := maps.Clone(j.running), maps.Clone(j.results)
		j.mu.Unlock()
		j.has(running)
		for name, x := range results {
			if j.where(name, x) == "" {
				j.mu.Lock()
				_, still := j.results[name]
				j.mu.Unlock()
				if still {
					j.fails("its result %s is neither on its node nor where it is to go", name)
				}
			}
		}
	}
}

func (r *slurmJobs) mayFail(x *pb.Task) bool {
	labels := x.GetSpec().GetLabels()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case x.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_RELEASE:
		return true // of what is not there, or in use
	case labels[slurm.Leaves] != "":
		return r.refused > 0
	}
	return false
}

// calm waits until no job goes on, and looks at what is left of them.
func (r *slurmJobs) calm() {
	r.mu.Lock()
	r.last = true
	all := slices.Clone(r.all)
	r.mu.Unlock()
	walked := make(chan struct{})
	go func() { r.walking.Wait(); close(walked) }()
	select {
	case <-walked:
	case <-time.After(quiet):
		for _, j := range all {
			j.mu.Lock()
			run := j.run
			j.mu.Unlock()
			if run != "" {
				j.fails("it does not end")
			}
		}
		return
	}
	for _, p := range r.processes() {
		<-p.Ended
	}
	if r.t.Failed() {
		return
	}
	p := r.process(0, nil, func(ctx context.Context, p *rig.CallerProcess) error {
		return (&burstbuffer.Controller{Config: r.conf, Records: r.conf.Slurm.Records, Dial: p.Dial}).Teardown(ctx, 1, false)
	})
	<-p.Ended
	must.Tell(r.t, p.Err())
	r.nothingLeft()
	if r.t.Failed() {
		return
	}
	r.results()
	for _, j := range all {
		j.clean()
	}
}

// tells writes down what all jobs have gone through.
func (r *slurmJobs) tells() {
	for _, j := range r.all {
		j.t.Logf("job %d on %v\n\t%s\n%s", j.own.ID, j.nodes, strings.Join(j.told, "\n\t"), j.script)
	}
}

// nothingLeft checks that nothing is held for jobs, nothing comes to them, and no record has them.
func (r *slurmJobs) nothingLeft() {
	for _, what := range []string{"*.job", "*.ended-*"} {
		if left, err := filepath.Glob(filepath.Join(r.conf.Slurm.Records, what)); err != nil || len(left) > 0 {
			r.t.Errorf("all jobs are torn down, and there are %v %v", left, err)
		}
	}
	for l, err := range r.Leases(context.Background(), &pb.ListLeasesRequest{}) {
		must.Tell(r.t, err)
		if strings.HasPrefix(l.GetHolder(), "slurm:") {
			r.t.Errorf("all jobs are torn down, and %s holds %s on %q, since %s", l.GetHolder(), l.GetLocation(), l.GetNode(), l.GetCreateTime().AsTime())
			r.tells()
		}
	}
	for begun := time.Now(); ; time.Sleep(time.Second) {
		coming := slices.DeleteFunc(r.ofJobs(), func(x *pb.Task) bool { return x.GetSpec().GetLabels()[slurm.Leaves] != "" || task.Ended(x.GetState()) })
		if len(coming) == 0 {
			return
		}
		if x := coming[0]; x.GetPhase() != "cancelling" || time.Since(begun) > quiet { // one that is cancelled has its worker end
			r.t.Errorf("all jobs are torn down, and something comes still: %s", told(x))
			return
		}
	}
}

// results has what waits for a person go on, until all that leaves jobs has, and checks where their results are.
func (r *slurmJobs) results() {
	for begun := time.Now(); ; time.Sleep(time.Second) {
		open := 0
		for _, x := range r.ofJobs() {
			if task.Ended(x.GetState()) || x.GetSpec().GetLabels()[slurm.Leaves] == slurm.AllNodes {
				continue
			}
			open++
			if x.GetState() == task.Paused {
				_, err := r.ResumeTask(context.Background(), &pb.ResumeTaskRequest{Id: x.GetId()})
				r.kind("resume", err)
			}
		}
		if open == 0 {
			break
		}
		if time.Since(begun) > quiet {
			for _, x := range r.ofJobs() {
				r.t.Error(told(x))
			}
			return
		}
	}
	waits := map[uint32]bool{}
	for _, x := range r.ofJobs() {
		labels := x.GetSpec().GetLabels()
		id, _ := strconv.Atoi(labels[slurm.Label])
		switch {
		case labels[slurm.Leaves] == "" || x.GetState() == task.Done || x.GetState() == task.Cancelled:
		case labels[slurm.Leaves] == slurm.AllNodes || x.GetState() == task.Failed:
			waits[uint32(id)] = true
		}
	}
	for _, j := range r.all {
		for name, x := range j.results {
			switch where := j.where(name, x); {
			case where == "":
				j.fails("its result %s is lost", name)
			case where == "node" && !waits[j.own.ID]:
				j.fails("its result %s is on %s still, and nothing says so", name, x.node)
			case where == "node":
				delete(j.results, name) // it is given up below
			}
		}
	}
	for _, x := range r.ofJobs() {
		if x.GetSpec().GetLabels()[slurm.Leaves] == slurm.AllNodes && !task.Ended(x.GetState()) {
			_, err := r.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: x.GetId()})
			r.kind("cancel", err)
		}
	}
}

// clean ends a job on its nodes, and checks that its directory goes where nothing waits in it.
func (j *slurmJob) clean() {
	for _, node := range j.nodes {
		j.hook(node, func(ctx context.Context, s *slurm.Site) error {
			out, err := s.Epilog(ctx, j.own)
			if dir := filepath.Join(rig.ScratchOf(j.Dir, node), slurm.Jobs, j.own.Dir()); out.Dir == "" {
				if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
					j.fails("its directory is on %s still: %v, %+v", node, err, out)
				}
			} else if j.refused == 0 {
				j.fails("its directory on %s stays: %+v", node, out)
			}
			return err
		})
	}
}
