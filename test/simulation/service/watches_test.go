package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

var watchDeeds = append(slices.Clone(jobDeeds), deed{"watch", 3}, deed{"hold", 2}, deed{"away", 2}, deed{"settle", 3})

// watches are jobs with a watch beside each, which brings its checkpoints to one target or two.
type watches struct {
	*running
	plain
	remaining
	jobs []*watched
}

// watched is a job and its watch.
type watched struct {
	*job
	name    string
	keep    checkpoint.Keep
	settle  time.Duration
	rate    int64
	targets []place
	away    map[string]bool // targets that take nothing, by name
	watch   *rig.Process    // nil was killed
}

func (r *watches) configure(*config.Config) {}

func (r *watches) begin() {
	r.remaining = remaining{}
	rng := rand.New(rand.NewPCG(r.w.seed, 42))
	for i := range 1 + rng.IntN(2) {
		j := &watched{job: newJob(r.t, rng, 1+rng.IntN(3)), name: fmt.Sprint("watch", i), away: map[string]bool{}}
		j.folder, j.dir = j.name, filepath.Join(r.Dir, "watched", j.name)
		must.Do(r.t, os.MkdirAll(j.dir, 0o755))
		j.keep = checkpoint.Keep{Last: []int{0, 1, 2, 3}[rng.IntN(4)], Every: []int64{0, 0, 3}[rng.IntN(3)]}
		j.settle = []time.Duration{-1, time.Second, 4 * time.Second}[rng.IntN(3)]
		j.rate = []int64{8 << 10, 64 << 10, 512 << 10}[rng.IntN(3)]
		for _, name := range []string{"near", "far"}[:1+rng.IntN(2)] {
			j.targets = append(j.targets, place{name, filepath.Join(r.Dir, name, j.name)})
		}
		r.jobs = append(r.jobs, j)
		r.start(j)
	}
}

func here(dir string) location.Location {
	return location.Location{Scheme: location.POSIX, Path: dir}
}

// start begins a watch, or begins it again.
func (r *watches) start(j *watched) {
	j.watch = r.Begin(j.name, func(ctx context.Context, state string, around func(engine.Opener) engine.Opener) error {
		w := &replicate.Watch{Site: &replicate.Site{Open: around(backend.Resolver{}.Open), Request: engine.Request{StateDir: state, Bandwidth: j.rate}, Trust: replicate.Trust},
			Dir: here(j.dir), Profile: checkpoint.DCP, Settle: j.settle, Keep: j.keep}
		for _, to := range j.targets {
			w.To = append(w.To, here(to.dir))
		}
		return w.Run(ctx)
	})
}

func (r *watches) do(s step) {
	j := r.jobs[s.a%len(r.jobs)]
	switch s.do {
	case "settle":
		r.pass(time.Duration(1+s.c%20) * time.Second)
	case "watch":
		if j.watch == nil {
			return
		}
		j.watch.Kill()
		j.watch = nil
		r.later(s.c, s.do, func() bool { r.start(j); return true })
	case "hold":
		if j.watch == nil {
			return
		}
		held := j.watch
		held.Sleep()
		r.later(s.c, s.do, func() bool { held.Wake(); return true })
	case "away":
		to := j.targets[s.b%len(j.targets)]
		if j.away[to.name] {
			return
		}
		j.away[to.name] = true
		r.Refuse(to.dir, []error{mover.ErrFull, mover.ErrUnreachable}[s.b%2])
		r.later(s.c, s.do, func() bool { r.Refuse(to.dir, nil); j.away[to.name] = false; return true })
	default:
		j.does(s)
	}
}

func (r *watches) check() {
	synctest.Wait()
	for _, j := range r.jobs {
		for _, at := range j.targets {
			whole, checked, _, named := look(r.t, at.dir)
			r.saved(j.job, at, whole, checked, named)
			r.few(r.t, at.name+" "+j.name, slices.Sorted(maps.Keys(whole)), nil)
		}
	}
}

// end has each job save once more, and waits until all is where its watch is to have it.
func (r *watches) end(map[string]*pb.Task) {
	for _, j := range r.jobs {
		j.does(step{do: "save", b: 1})
	}
	for begun := time.Now(); ; time.Sleep(max(time.Second, time.Since(begun)/20)) {
		var lacks []string
		for _, j := range r.jobs {
			lacks = append(lacks, r.lacking(j)...)
		}
		if len(lacks) == 0 || r.t.Failed() {
			break
		}
		if time.Since(begun) > arrives {
			r.t.Errorf("a watch does not come to rest: %s", strings.Join(lacks, "\n"))
			break
		}
		r.check()
	}
	r.check()
	for _, j := range r.jobs {
		if err := j.watch.Stop(); err != nil && !errors.Is(err, context.Canceled) {
			r.t.Errorf("%s has ended: %v", j.name, err)
		}
	}
}

// lacking is what is not yet as the watch of a job is to have it.
func (r *watches) lacking(j *watched) (lacks []string) {
	synctest.Wait()
	last := fmt.Sprint("step_", j.steps)
	source, _, _, _ := look(r.t, j.dir)
	var folders []*replicate.Folder
	site := &replicate.Site{}
	for _, at := range j.targets {
		whole, _, _, named := look(r.t, at.dir)
		for name := range source {
			files, _ := r.contents(filepath.Join(at.dir, name))
			delete(files, checkpoint.Committed)
			if wanted := name == last || j.keep.Last == 0; wanted && (!whole[name] || !maps.Equal(files, j.sets[name].files)) {
				lacks = append(lacks, fmt.Sprintf("%s of %s on %s", name, j.name, at.name))
			}
		}
		if named != last {
			lacks = append(lacks, fmt.Sprintf("the tracker of %s on %s, which names %q", j.name, at.name, named))
		}
		if f, err := site.Folder(context.Background(), here(at.dir), checkpoint.DCP, false); err == nil {
			defer f.Close()
			folders = append(folders, f)
		}
	}
	tiers, err := replicate.Judge(context.Background(), folders, j.keep)
	if err != nil {
		r.t.Errorf("what %s keeps: %v", j.name, err)
	}
	for i, t := range tiers {
		for _, v := range t.Verdicts {
			if !v.Keep {
				lacks = append(lacks, fmt.Sprintf("the end of %s of %s on %s: %s", v.Name, j.name, j.targets[i].name, v.Why))
			}
		}
	}
	return lacks
}
