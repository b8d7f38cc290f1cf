package multinode

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/bench/loadgen"
	"datamove.dev/bench/result"
	"datamove.dev/mover"
)

// Plan is what a run does, and with which nodes.
type Plan struct {
	Targets []string
	Works   []loadgen.Work

	Nodes   int             // that join; 0 is this process alone
	Listen  net.Listener    // where they join; it is closed when all have
	Secret  Secret          // that they know
	Wait    time.Duration   // for them; 0 means 5 minutes
	Ended   <-chan struct{} // closed when all that could join have ended; nil is never
	Open    loadgen.Opener  // of this process, where it works alone
	Name    string          // of this process then; "" is that of the host
	Version string
	Say     func(string) // gets messages on progress; nil drops them
	Keep    bool         // what was made is not removed at the end
}

// run is one that goes on.
type run struct {
	plan    *Plan
	members []member
	record  *result.Run
	have    map[string][]loadgen.Have // by tree
	clocks  []clock
}

// Conduct does a plan. There is a record also of a run that has failed, of what was done until then.
func Conduct(ctx context.Context, p Plan) (*result.Run, error) {
	if p.Say == nil {
		p.Say = func(string) {}
	}
	r := &run{plan: &p, have: map[string][]loadgen.Have{}, record: &result.Run{Schema: result.Schema, ID: newID(), Version: p.Version, Begun: time.Now().UTC(), Targets: p.Targets, Phases: []result.Phase{}}}
	err := r.gather(ctx)
	if err == nil {
		err = r.all(ctx)
	}
	err = errors.Join(err, r.end(ctx))
	if err != nil {
		r.record.Failed = err.Error()
	}
	return r.record, err
}

// newID names a run as no other is.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return hex.EncodeToString(b[:])
}

// gather has all nodes here.
func (r *run) gather(ctx context.Context) (err error) {
	p := r.plan
	if p.Nodes == 0 {
		r.members = []member{&local{open: p.Open, name: p.Name}}
	} else {
		within, stop := context.WithTimeout(ctx, cmp.Or(p.Wait, 5*time.Minute))
		defer stop()
		if r.members, err = gather(within, p); err != nil {
			return err
		}
	}
	for _, m := range r.members {
		r.record.Nodes = append(r.record.Nodes, m.About())
	}
	return nil
}

// all does all phases.
func (r *run) all(ctx context.Context) error {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // it does not fail
	err := r.each(ctx, len(r.members), func(ctx context.Context, i int, m member) error {
		return m.Open(ctx, loadgen.Setup{ID: r.record.ID, Targets: r.plan.Targets, Index: i, Seed: binary.BigEndian.Uint64(seed[:])})
	})
	if err != nil {
		return err
	}
	var wrong error
	for i, w := range r.plan.Works {
		if r.plan.Keep && !slices.ContainsFunc(r.plan.Works[i+1:], func(later loadgen.Work) bool { return later.Tree.Name == w.Tree.Name }) {
			w.Last = false
		}
		err := r.phase(ctx, w)
		if errors.Is(err, mover.ErrCorrupt) { // what else there is to measure is measured
			wrong = errors.Join(wrong, err)
			continue
		}
		if err != nil {
			return errors.Join(err, wrong)
		}
	}
	return wrong
}

// phase does one.
func (r *run) phase(ctx context.Context, w loadgen.Work) error {
	w.Nodes = min(cmp.Or(w.Nodes, len(r.members)), len(r.members))
	w.Have = r.have[w.Tree.Name]
	err := r.look(ctx, w.Nodes)
	if err == nil {
		err = r.each(ctx, w.Nodes, func(ctx context.Context, _ int, m member) error { return m.Prepare(ctx, w) })
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", w.Suite, w.Name, err)
	}
	results, err := r.together(ctx, &w)
	one := r.sum(&w, results, err)
	r.record.Phases = append(r.record.Phases, one)
	r.plan.Say(line(&one))
	if err == nil && w.Do.Makes() {
		r.have[w.Tree.Name] = haves(results)
	}
	if err == nil && w.Last {
		delete(r.have, w.Tree.Name)
		err = r.forget(ctx, func(ctx context.Context, m member) error { return m.Forget(ctx, w.Tree.Name) })
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", w.Suite, w.Name, err)
	}
	return nil
}

func haves(results []loadgen.Result) (all []loadgen.Have) {
	for i := range results {
		all = append(all, results[i].Have...)
	}
	return all
}

// clockOff is from what difference on it is told that a time of day is wrong.
const clockOff = time.Second

// look looks at the clocks of nodes.
func (r *run) look(ctx context.Context, nodes int) error {
	first := r.clocks == nil
	clocks := make([]clock, nodes)
	err := r.each(ctx, nodes, func(ctx context.Context, i int, m member) (err error) {
		clocks[i], err = m.Clock(ctx)
		return err
	})
	r.clocks = clocks
	for i, c := range clocks {
		if !first || err != nil {
			break
		}
		n := &r.record.Nodes[i]
		n.ClockAhead, n.ClockError = c.wall.Seconds(), c.off.Seconds()
		if c.wall.Abs() > clockOff {
			r.record.Notes = append(r.record.Notes, fmt.Sprintf("the time of day of %s is %s off; phases begin together all the same", mover.Printable(n.Name), c.wall.Round(time.Millisecond)))
		}
	}
	return err
}

// together has nodes begin at one instant, and waits for all of them. When one fails, the others stop.
func (r *run) together(ctx context.Context, w *loadgen.Work) ([]loadgen.Result, error) {
	soon := time.Millisecond
	for _, c := range r.clocks {
		soon = max(soon, 20*c.off+5*time.Millisecond)
	}
	if r.plan.Nodes == 0 {
		soon = time.Millisecond
	}
	at := time.Now().Add(soon)
	quiet := r.tell(w, at)
	defer quiet()
	results := make([]loadgen.Result, w.Nodes)
	err := r.each(ctx, w.Nodes, func(ctx context.Context, i int, m member) (err error) {
		results[i], err = m.Begin(ctx, at)
		return cmp.Or(err, results[i].Err())
	})
	return results, err
}

// tellEvery is how often is told how far a phase is.
const tellEvery = 10 * time.Second

// tell tells now and then how far a phase is.
func (r *run) tell(w *loadgen.Work, at time.Time) (stop func()) {
	return every(tellEvery, func() {
		var p result.Phase
		p.Suite, p.Name, p.Unit, p.Last.Seconds = w.Suite, w.Name, w.Unit, time.Since(at).Seconds()
		for _, m := range r.members[:w.Nodes] {
			bytes, ops := m.Done()
			p.Last.Bytes, p.Last.Ops = p.Last.Bytes+bytes, p.Last.Ops+ops
		}
		r.plan.Say(line(&p) + ", so far")
	})
}

// line is a phase in one line.
func line(p *result.Phase) string {
	rate := fmt.Sprintf("%.0f/s", p.Rate())
	if p.Unit == result.Bytes {
		rate = fmt.Sprintf("%.3f GB/s", p.Rate()/1e9)
	}
	return fmt.Sprintf("%-12s %-18s %14s in %.2f s", p.Suite, p.Name, rate, p.Last.Seconds)
}

// each asks nodes at the same time. When one fails the context of the others ends.
func (r *run) each(ctx context.Context, nodes int, ask func(ctx context.Context, i int, m member) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	errs := make([]error, nodes)
	var group sync.WaitGroup
	for i, m := range r.members[:nodes] {
		group.Go(func() {
			if errs[i] = ask(ctx, i, m); errs[i] != nil {
				fail(errs[i])
			}
		})
	}
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause // the first failure or the interruption; what the others say follows from it
	}
	return nil
}

// forget has something removed: by the first node, which on a file system of all removes everything, and then by the others, each on disks of its own.
func (r *run) forget(ctx context.Context, remove func(ctx context.Context, m member) error) error {
	if len(r.members) == 0 {
		return nil
	}
	first := remove(ctx, r.members[0])
	errs := make([]error, len(r.members))
	var group sync.WaitGroup
	for i, m := range r.members[1:] {
		group.Go(func() { errs[i] = remove(ctx, m) })
	}
	group.Wait()
	return errors.Join(append(errs, first)...)
}

// end removes what the run has made, and lets go of all nodes.
func (r *run) end(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var lost []string
	var mu sync.Mutex // of lost
	err := error(nil)
	if !r.plan.Keep {
		err = r.forget(ctx, func(ctx context.Context, m member) error {
			err := m.Clean(ctx)
			if errors.Is(err, mover.ErrUnreachable) {
				mu.Lock()
				defer mu.Unlock()
				lost = append(lost, mover.Printable(m.About().Name))
				return nil // it was said already
			}
			return err
		})
	}
	if len(lost) > 0 {
		r.record.Notes = append(r.record.Notes, fmt.Sprintf("%s: lost; what it has made on disks of its own is left in %s", strings.Join(lost, ", "), loadgen.DirPrefix+r.record.ID))
	}
	for _, m := range r.members {
		if ended := m.End(); ended != nil && r.plan.Nodes == 0 {
			err = errors.Join(err, ended)
		}
	}
	return err
}
