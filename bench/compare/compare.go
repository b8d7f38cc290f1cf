package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options says what to compare. The zero value runs every scenario in full size
// with every peer that is installed.
type Options struct {
	Scenarios []string      // names, or the beginnings of names; empty is all
	Peers     []string      // tools beside datamove; empty is all
	Runs      int           // of each tool in each scenario; 0 means 5
	Scale     float64       // of counts and sizes; 0 means 1
	Disk      string        // a folder on a disk; "" is the current one
	Tmpfs     string        // a folder in memory; "" is /dev/shm
	Datamove  string        // the program; "" is beside this one, or in PATH
	Timeout   time.Duration // of one run; 0 means 15 minutes
	Say       func(string)  // told what is being done; nil is told nothing
}

// Result is one scenario, measured.
type Result struct {
	Scenario string   `json:"scenario"`
	What     string   `json:"what"`
	Scores   []Score  `json:"scores"`
	Absent   []string `json:"absent,omitempty"` // peers that are not installed
	NotRun   string   `json:"notRun,omitempty"` // why there is nothing
	// Ceiling is set where the others are load generators: they do no work of a mover.
	Ceiling bool `json:"ceiling,omitempty"`
}

// Compare runs the scenarios, one after the other. Its error is about what was
// asked for; what goes wrong with a tool or a scenario is in the results.
func Compare(ctx context.Context, o Options) ([]Result, error) {
	o = o.filled()
	if err := usable(o.Scale); err != nil {
		return nil, err
	}
	wanted, err := choose(o.Scenarios)
	if err != nil {
		return nil, err
	}
	for _, p := range o.Peers {
		if _, err := toolNamed(p); err != nil {
			return nil, err
		}
	}
	h := &house{scale: o.Scale}
	if h.disk, err = os.MkdirTemp(o.Disk, "datamove-bench-"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(h.disk) }()
	if h.tmpfs, err = os.MkdirTemp(o.Tmpfs, "datamove-bench-"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(h.tmpfs) }()
	if h.disk, err = filepath.Abs(h.disk); err != nil {
		return nil, err
	}
	ours, _ := toolNamed(Ours)
	if h.datamove, err = ours.find(o.Datamove); err != nil {
		return nil, err
	}
	group := newCgroup()
	defer group.remove()
	var results []Result
	for _, s := range wanted {
		r := runScenario(ctx, s, h, o, group)
		if ctx.Err() != nil {
			return results, context.Cause(ctx)
		}
		results = append(results, r)
	}
	return results, nil
}

func (o Options) filled() Options {
	o.Runs = cmp.Or(o.Runs, 5)
	o.Scale = cmp.Or(o.Scale, 1)
	o.Disk = cmp.Or(o.Disk, ".")
	o.Tmpfs = cmp.Or(o.Tmpfs, "/dev/shm")
	o.Timeout = cmp.Or(o.Timeout, 15*time.Minute)
	if o.Say == nil {
		o.Say = func(string) {}
	}
	return o
}

// choose returns the scenarios that are named, in the order of the report.
func choose(names []string) ([]Scenario, error) {
	all := Scenarios()
	if len(names) == 0 {
		return all, nil
	}
	named := func(name string) func(Scenario) bool {
		return func(s Scenario) bool { return s.Name == name || strings.HasPrefix(s.Name, name+"-") }
	}
	for _, n := range names {
		if !slices.ContainsFunc(all, named(n)) {
			return nil, fmt.Errorf("%q is no scenario", n)
		}
	}
	return slices.DeleteFunc(all, func(s Scenario) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return named(n)(s) })
	}), nil
}

// contestant is a tool that is installed and takes part.
type contestant struct {
	tool
	path  string
	score Score
}

// line up the tools of a scenario: those asked for, those installed.
func lineUp(s Scenario, h *house, o Options) (present []*contestant, absent []string) {
	for _, name := range s.Tools {
		asked := len(o.Peers) == 0 || isOurs(name) || slices.ContainsFunc(o.Peers, func(p string) bool { return strings.HasPrefix(name, p) })
		t, err := toolNamed(name)
		if err != nil || !asked {
			continue
		}
		path, err := t.find(h.datamove)
		if err != nil {
			absent = append(absent, name)
			continue
		}
		present = append(present, &contestant{t, path, Score{Tool: name, Version: t.versionOf(path)}})
	}
	return present, absent
}

func runScenario(ctx context.Context, s Scenario, h *house, o Options, group cgroup) (r Result) {
	r = Result{Scenario: s.Name, What: s.What, Ceiling: strings.HasPrefix(s.Name, "ceiling-")}
	present, absent := lineUp(s, h, o)
	r.Absent = absent
	o.Say(s.Name + ": making the data")
	w, err := s.stage(ctx, h)
	if err != nil {
		r.NotRun = err.Error()
		return r
	}
	defer func() {
		if err := w.close(); err != nil {
			o.Say(fmt.Sprintf("%s: not everything could be removed: %v", s.Name, err))
		}
	}()
	t := &turns{w: w, o: o, group: group, scenario: s.Name}
	for run := -w.unpaid; run < o.Runs && ctx.Err() == nil; run++ {
		for _, i := range rand.Perm(len(present)) {
			t.take(ctx, present[i], run)
		}
	}
	for _, c := range present {
		c.score.sum()
		r.Scores = append(r.Scores, c.score)
	}
	compareWith(r.Scores[0], r.Scores)
	return r
}

// turns lets the contestants run, each to a new place.
type turns struct {
	w        *workload
	o        Options
	group    cgroup
	scenario string
	used     []string // targets of earlier runs
}

// take lets c run once; a run below 0 does not count. A tool that has failed does
// not get another turn.
func (t *turns) take(ctx context.Context, c *contestant, run int) {
	if c.score.Failed != "" {
		return
	}
	name := "target"
	if !t.w.same {
		name = fmt.Sprintf("%s-%d", strings.Fields(c.name)[0], run+t.w.unpaid)
		if err := t.room(ctx); err != nil {
			c.score.Failed = err.Error()
			return
		}
	}
	j := t.w.job(name)
	s, err := t.once(ctx, c, j)
	if err != nil {
		c.score.Failed = err.Error()
		t.o.Say(fmt.Sprintf("%s: %s: %v", t.scenario, c.name, err))
		return
	}
	t.o.Say(fmt.Sprintf("%s: %-12s %8.3f s wall, %8.3f s CPU, %4d MiB", t.scenario, c.name, s.Wall.Seconds(), s.CPU.Seconds(), s.Anon>>20))
	if run >= 0 {
		c.score.Samples = append(c.score.Samples, s)
	}
}

func (t *turns) once(ctx context.Context, c *contestant, j job) (Sample, error) {
	scratch, err := os.MkdirTemp(j.scratch, "scratch-")
	if err != nil {
		return Sample{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	j.scratch = scratch
	if !t.w.same {
		t.used = append(t.used, j.folder)
	}
	call := c.command(c.path, j)
	c.score.Command = call.shown(c.path, j)
	if call.folder {
		if err := os.Mkdir(j.target, 0o755); err != nil {
			return Sample{}, err
		}
	}
	if j.cold {
		if err := evict(j.source); err != nil {
			return Sample{}, err
		}
	}
	ctx, stop := context.WithTimeoutCause(ctx, t.o.Timeout, fmt.Errorf("stopped after %s", t.o.Timeout))
	defer stop()
	s, err := measure(ctx, call, t.w.syncDir, t.group)
	if err == nil && !call.timed {
		err = t.w.check(j)
	}
	return s, err
}

// settle is how long a disk gets after a delete, which disturbs what comes next.
const settle = 10 * time.Second

// room makes sure that the next target fits: in memory by removing the earlier
// ones at once, on a disk only when there is no other way, with a pause.
func (t *turns) room(ctx context.Context) error {
	var st unix.Statfs_t
	if err := unix.Statfs(t.w.place, &st); err != nil {
		return err
	}
	free := int64(st.Bavail) * st.Bsize
	if t.w.disk && free > t.w.data.stored()*5/4+1<<30 {
		return nil
	}
	used := t.used
	t.used = nil
	for _, dir := range used {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if !t.w.disk || len(used) == 0 {
		return nil
	}
	unix.Sync()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(settle):
		return nil
	}
}

// usable says why a scale can not be used.
func usable(scale float64) error {
	if math.IsNaN(scale) || scale <= 0 || scale > 1 {
		return errors.New("the scale is above 0 and at most 1")
	}
	return nil
}
