package checkpointer

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
)

// watch is what a node is to do.
type watch struct {
	task    string
	older   []string // of a run of the job before this one, which wait for the same
	node    string
	made    time.Time
	ended   bool
	source  location.Location
	target  location.Location
	dir     string // of the source, in the job's directory
	profile checkpoint.Profile
	keep    int                 // of the newest at the target; 0 is all
	options *datamovev1.Options // of what may meet files of other nodes
}

// watchesMost bounds those of one job: nodes times targets.
const watchesMost = 10_000

// watches asks for those of a job, on all its nodes.
func (c *Carrier) watches(ctx context.Context, j *job) (all []watch, err error) {
	client, err := j.mover.Client(ctx)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for t, err := range datasetclient.Tasks(ctx, client, &datamovev1.ListTasksRequest{PageSize: 1000, Labels: j.labels(slurm.PartLabel, slurm.Watch)}) {
		if err != nil {
			return nil, err
		}
		w, ok := c.watchOf(j, t)
		key := w.node + "\x00" + w.source.String() + "\x00" + w.target.String()
		i, known := at[key]
		switch {
		case !ok || len(all) == watchesMost:
		case !known:
			at[key], all = len(all), append(all, w)
		case !w.ended:
			all[i].older = append(all[i].older, w.task)
		}
	}
	return all, nil
}

// watchOf reads a task. Its labels, and all else, are its owner's.
func (c *Carrier) watchOf(j *job, t *datamovev1.Task) (w watch, ok bool) {
	spec := t.GetSpec()
	profile, keep, _ := strings.Cut(spec.GetLabels()[slurm.CheckpointLabel], ",")
	w = watch{task: t.GetId(), node: spec.GetLabels()[slurm.Leaves], made: t.GetCreateTime().AsTime(), ended: api.Ended(t.GetState()), profile: checkpoint.Profile(profile), options: spec.GetOptions()}
	if n, err := strconv.Atoi(keep); err == nil && n >= checkpoint.Fewest {
		w.keep = n
	}
	var err1, err2 error
	w.source, err1 = location.Parse(spec.GetSource())
	w.target, err2 = location.Parse(spec.GetTarget())
	w.source.TrailingSlash, w.target.TrailingSlash = false, false
	own := path.Join(slurm.Jobs, j.Dir())
	if err1 != nil || err2 != nil || t.GetOwner().GetUid() != j.UID || !checkpoint.Known(w.profile) ||
		!w.source.InTier() || w.source.Tier != c.Site.Tier || !mover.ValidName(w.source.Path) || !mover.Within(w.source.Path, own) {
		return w, false
	}
	w.dir = strings.TrimPrefix(strings.TrimPrefix(w.source.Path, own), "/")
	return w, true
}

// labels are those by which tasks of the job are found.
func (j *job) labels(more ...string) map[string]string {
	all := map[string]string{}
	for k, v := range j.mover.Labels {
		all[k] = v
	}
	for i := 0; i+1 < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// seen is a directory, as it looked.
type seen struct {
	tree  checkpoint.Tree
	view  checkpoint.View
	still func(name string, quiet time.Duration) bool
	blind bool // there was too much to see
}

// see reads the directory of a watch. One that is not there is empty.
func (c *Carrier) see(ctx context.Context, j *job, w watch, now time.Time) (*seen, error) {
	s := &seen{}
	defer func(began time.Time) { j.reading += time.Since(began) }(time.Now())
	dir, err := c.Site.Open(j.Job, w.dir)
	if err == nil {
		s.tree, err = checkpoint.Read(ctx, dir, checkpoint.Limits{})
		_ = dir.Close()
	}
	switch {
	case errors.Is(err, mover.ErrRefused):
		c.tell(j, "checkpoints leave at the end of the job only", "dir", w.dir, "why", err.Error())
		s.tree, s.blind = checkpoint.Tree{}, true
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	s.view = checkpoint.Find(w.profile, s.tree)
	sights := j.sights[w.dir]
	if sights == nil {
		sights = &checkpoint.Stability{}
		j.sights[w.dir] = sights
	}
	sights.Look(now, s.tree.Prints())
	s.still = func(name string, quiet time.Duration) bool { return sights.Still(name, now, quiet) }
	return s, nil
}

// in is something in a location.
func in(l location.Location, name string) string {
	return l.WithBelow(path.Join(l.Below(), name)).String()
}
