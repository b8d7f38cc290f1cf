package checkpointer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"datamove.dev/api"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
)

// Carrier carries for the jobs of one node. Site and Dial have to be given.
type Carrier struct {
	Site  *slurm.Site
	Node  string // as the mover calls it
	Dial  func(context.Context) (*api.Client, error)
	Quiet time.Duration // for how long nothing in a checkpoint has to change; 0 is checkpoint.Quiet
	Log   *slog.Logger

	line  *datasetclient.Mover // the connection, of all jobs: they may be many; nil until it is needed
	jobs  map[slurm.Job]*job
	later time.Time // not before is looked for jobs that are absent
}

const (
	askEvery  = time.Minute // between questions for the watches of a job
	askLate   = 15 * time.Second
	restMost  = 5 * time.Second
	restBusy  = time.Second
	lookMost  = time.Minute // between two looks, however much there is to see
	lookShare = 100         // a look takes a part of the time between two
)

// job is what is remembered of one.
type job struct {
	slurm.Job
	mover   *datasetclient.Mover
	watches []watch
	asked   time.Time     // for the watches
	next    time.Time     // not before is looked again
	reading time.Duration // that the last look at its directories took
	over    time.Time     // when it was first seen to have ended; zero is not
	sights  map[string]*checkpoint.Stability
	ends    map[string]end              // by key: copies that have ended
	tries   map[string]try              // by key: copies that have failed
	saved   map[string]string           // by watch and name: the save that is whole at the target
	parts   map[string]checkpoint.Print // by watch and name: what we have brought of a save of another node
	heard   map[string]time.Time        // by watch: when all others had told of all their saves
	told    map[string]bool
	busy    bool // the last look has begun copies, or waits for some
}

// end is how a copy has ended.
type end struct {
	how state
	at  time.Time // when we heard of it
}

// try is a copy that is begun again.
type try struct {
	fails int
	next  time.Time
}

// Look does what there is to do now. It is to be called again after a Rest. Present are the jobs that have a directory here, and live those that have
// a process; others are forgotten.
func (c *Carrier) Look(ctx context.Context, present []slurm.Present, live map[uint32]bool, now time.Time) error {
	known := map[slurm.Job]*job{}
	errs := []error{c.endAbsent(ctx, present, live, now)}
	for _, p := range present {
		j := c.jobs[p.Job]
		if j == nil {
			j = c.remember(p.Job)
		}
		known[p.Job] = j
		delete(c.jobs, p.Job)
		switch {
		case !p.Over:
			j.over = time.Time{}
		case j.over.IsZero():
			j.over, j.asked, j.next = now, time.Time{}, time.Time{}
		}
		if now.Before(j.next) {
			continue
		}
		j.busy = false
		errs = append(errs, c.look(api.For(ctx, p.UID), j, now))
		j.next = now.Add(min(lookMost, lookShare*j.reading))
	}
	c.jobs = known
	return errors.Join(errs...)
}

// Rest is how long it can wait for the next Look.
func (c *Carrier) Rest() time.Duration {
	for _, j := range c.jobs {
		if j.busy {
			return restBusy
		}
	}
	return min(restMost, c.quiet())
}

// Close ends the connection, and forgets all.
func (c *Carrier) Close() (err error) {
	if c.line != nil {
		err = c.line.Close()
	}
	c.line, c.jobs, c.later = nil, nil, time.Time{}
	return err
}

// client is the connection to the mover.
func (c *Carrier) client(ctx context.Context) (*api.Client, error) {
	if c.line == nil {
		c.line = &datasetclient.Mover{Dial: c.Dial}
	}
	return c.line.Client(ctx)
}

func (c *Carrier) remember(j slurm.Job) *job {
	return &job{
		Job: j, mover: &datasetclient.Mover{Dial: c.client, Label: slurm.CopyLabel, Labels: j.Labels()},
		sights: map[string]*checkpoint.Stability{}, ends: map[string]end{}, tries: map[string]try{}, saved: map[string]string{},
		parts: map[string]checkpoint.Print{}, heard: map[string]time.Time{}, told: map[string]bool{},
	}
}

// look looks at the directories of one job.
func (c *Carrier) look(ctx context.Context, j *job, now time.Time) error {
	every := askEvery
	if !j.over.IsZero() {
		every = askLate
	}
	if j.asked.IsZero() || now.Sub(j.asked) >= every {
		watches, err := c.watches(ctx, j)
		if err != nil {
			return err
		}
		j.watches, j.asked = watches, now
	}
	trees := map[string]*seen{}
	j.reading = 0
	var errs []error
	for _, w := range j.watches {
		if w.node != c.Node || w.ended {
			continue
		}
		s, read := trees[w.dir]
		if !read {
			var err error
			if s, err = c.see(ctx, j, w, now); err != nil {
				errs = append(errs, err)
			}
			trees[w.dir] = s
		}
		if s == nil {
			continue
		}
		r := &round{Carrier: c, job: j, watch: w, seen: s, now: now}
		errs = append(errs, r.do(ctx))
	}
	return errors.Join(errs...)
}

func (c *Carrier) quiet() time.Duration { return cmp.Or(c.Quiet, checkpoint.Quiet) }

// tell says something of a job once.
func (c *Carrier) tell(j *job, what string, about ...any) {
	key := what
	for _, a := range about {
		if s, ok := a.(string); ok {
			key += "/" + s
		}
	}
	if !j.told[key] {
		j.told[key] = true
		c.Log.Warn(what, append([]any{"job", j.ID}, about...)...)
	}
}
