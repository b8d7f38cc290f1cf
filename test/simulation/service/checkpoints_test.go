package service

import (
	"context"
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
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
)

var checkpointDeeds = append(slices.Clone(jobDeeds), deed{"settle", 5})

// checkpoints are training jobs that save on their nodes and on the shared tier, and policies that bring the saves away and thin them out.
type checkpoints struct {
	*running
	rng       *rand.Rand
	peer      bool // the disk of another node gets them, too
	thin      bool // the disks of nodes keep few
	jobs      []*job
	was       map[string]*pb.Checkpoint // what the coordinator said at the last check
	remaining                           // by place and job
}

const (
	savePause = time.Second   // a checkpoint is complete when nothing of it changed for so long
	arrives   = 2 * time.Hour // it takes no longer: what has failed is tried again within an hour
	keepLast  = 2             // of the disks of nodes, where they are thinned out
)

func (r *checkpoints) configure(conf *config.Config) {
	r.rng = rand.New(rand.NewPCG(r.w.seed, 41))
	r.peer, r.thin = r.w.swarm, r.rng.IntN(3) > 0
	for name, tier := range conf.Tiers {
		tier.Checkpoints, tier.Scan = &config.Checkpoints{Folders: []string{"runs/*"}, Quiet: savePause}, time.Hour
		conf.Tiers[name] = tier
	}
}

// hop is a policy that copies complete checkpoints.
const hop = `kind: TierPolicy
metadata: {name: to-%s}
spec:
  mode: enforce
  scope: {roots: ["%s:runs"]}
  trigger: [{event: checkpoint.complete}, {event: checkpoint.verified}]
  rules:
    - {name: copy, match: {checkpoint: [complete, verified]}, action: {type: replicate, to: ["%s"]}}
---
`

// thinning is a policy that lets them go.
const thinning = `kind: TierPolicy
metadata: {name: thin}
spec:
  mode: enforce
  scope: {roots: ["scratch:runs"]}
  trigger: [{event: checkpoint.verified}]
  safety: {grace: 1s}
  rules:
    - {name: thin, match: {checkpoint: verified}, action: {type: retain, keepLast: 2}}
---
`

func (r *checkpoints) policies() string {
	text := fmt.Sprintf(hop, "shared", "scratch", "shared") + fmt.Sprintf(hop, "archive", "shared", "archive")
	if r.peer {
		text += fmt.Sprintf(hop, "peer", "scratch", "scratch@peer")
	}
	if r.thin {
		text += thinning
	}
	return text
}

func (r *checkpoints) begin() {
	r.remaining, r.was = remaining{}, map[string]*pb.Checkpoint{}
	for i := range r.w.agents + 1 {
		j := newJob(r.t, r.rng, 1+i%3)
		j.folder, j.tier = fmt.Sprint("runs/job", i), "scratch"
		if i < r.w.agents {
			j.node = nodeName(i)
			j.dir = filepath.Join(r.ConfOf(j.node)().Tiers["scratch"].Path, j.folder)
		} else {
			j.tier, j.dir = "shared", filepath.Join(r.Dir, "shared", j.folder)
		}
		must.Do(r.t, os.MkdirAll(j.dir, 0o755))
		r.jobs = append(r.jobs, j)
	}
	r.Policies(r.policies())
}

func (r *checkpoints) do(s step) {
	if s.do == "settle" {
		r.pass(time.Duration(5+s.c%40) * time.Second)
		return
	}
	r.jobs[s.a%len(r.jobs)].does(s)
}

// place is a folder that may have checkpoints of a job.
type place struct{ name, dir string }

// copies are the places to which those of a job may be brought.
func (r *checkpoints) copies(j *job) (all []place) {
	for _, tier := range []string{"shared", "archive"} {
		if tier != j.tier {
			all = append(all, place{tier, filepath.Join(r.Dir, tier, j.folder)})
		}
	}
	for i := range r.w.agents {
		if node := nodeName(i); node != j.node {
			all = append(all, place{node, filepath.Join(r.ConfOf(node)().Tiers["scratch"].Path, j.folder)})
		}
	}
	return all
}

func (r *checkpoints) check() {
	synctest.Wait()
	for _, j := range r.jobs {
		for _, at := range r.copies(j) {
			r.copied(j, at)
		}
		r.kept(j)
	}
	r.told()
}

// copied checks a place to which checkpoints of a job are brought: each is there as it was saved once, and the tracker names one that is.
func (r *checkpoints) copied(j *job, at place) {
	whole, checked, _, named := look(r.t, at.dir)
	r.saved(j, at, whole, checked, named)
	r.few(r.t, at.name+" "+j.folder, slices.Sorted(maps.Keys(whole)), nil)
}

// saved checks that what has come to a place is there as it was saved once, and that the tracker names one that is.
func (r *running) saved(j *job, at place, whole, checked map[string]bool, named string) {
	for name := range whole {
		files, _ := r.contents(filepath.Join(at.dir, name))
		delete(files, checkpoint.Committed)
		if x := j.sets[name]; x == nil || !slices.ContainsFunc(x.whole, func(save map[string]uint64) bool { return maps.Equal(save, files) }) {
			r.t.Errorf("%s of %s on %s is as it was never saved: %v", name, j.folder, at.name, files)
		}
		if !checked[name] {
			r.t.Errorf("%s of %s on %s is there, and not verified", name, j.folder, at.name)
		}
	}
	if named != "" && !whole[named] {
		r.t.Errorf("the tracker of %s on %s names %s, which is not there", j.folder, at.name, named)
	}
}

// kept checks what a job has where it saves.
func (r *checkpoints) kept(j *job) {
	whole, _, why, named := look(r.t, j.dir)
	if x := j.sets[named]; x != nil && !x.gone && x.is && !whole[named] {
		files, _ := r.contents(j.dir)
		r.t.Errorf("%s of %s is gone, and the tracker names it: %v is there, it was saved as %v: %s", named, j.folder, slices.Sorted(maps.Keys(files)), slices.Sorted(maps.Keys(x.files)), why[named])
	}
	r.few(r.t, " "+j.folder, slices.Sorted(maps.Keys(whole)), func(name string) bool { x := j.sets[name]; return x.gone || !x.is })
}

// told checks what the coordinator says of checkpoints: what is complete stays so, and is an event once, as long as it is the same save.
func (r *checkpoints) told() {
	now := map[string]*pb.Checkpoint{}
	for _, c := range r.Checkpoints() {
		key := fmt.Sprintf("%s %s %s %s", c.GetTier(), c.GetNode(), c.GetFolder(), c.GetName())
		now[key] = c
		was := r.was[key]
		if was == nil || was.GetSave() != c.GetSave() || was.GetState() < complete {
			continue
		}
		if c.GetState() < complete {
			r.t.Errorf("it was complete, and is the same save, and is not complete: %v, was %v", c, was)
		}
		again := r.thin && c.GetState() == verified // a copy that was thinned out may come again while the one that it is of is still there
		if !again && !c.GetCompleteTime().AsTime().Equal(was.GetCompleteTime().AsTime()) {
			r.t.Errorf("it has become complete twice: %v, was %v", c, was)
		}
	}
	r.was = now
}

const (
	complete = pb.CheckpointState_CHECKPOINT_STATE_COMPLETE
	verified = pb.CheckpointState_CHECKPOINT_STATE_VERIFIED
)

// mayFail: a checkpoint that is saved again, or removed, while it is copied; and what a task of the service itself finds gone is looked at again.
func (r *checkpoints) mayFail(x *pb.Task) bool {
	switch x.GetSpec().GetKind() {
	case pb.TaskKind_TASK_KIND_TIER:
		return x.GetErrorKind() == "CHANGED" || x.GetErrorKind() == "NOT_EXIST"
	}
	return false
}

// end has each job save once more, and waits until all is where the policies want it.
func (r *checkpoints) end(map[string]*pb.Task) {
	for _, j := range r.jobs {
		j.does(step{do: "save", b: 1})
	}
	var lacks []string
	for begun := time.Now(); ; time.Sleep(max(5*time.Second, time.Since(begun)/20)) {
		if lacks = r.lacking(); len(lacks) == 0 {
			break
		}
		if time.Since(begun) > arrives {
			r.t.Errorf("it does not come where it is wanted: %s\n%s", strings.Join(lacks, "\n"), r.lastRuns())
			return
		}
		if r.check(); r.t.Failed() {
			return
		}
	}
	if r.rest(); r.t.Failed() {
		return
	}
	r.check()
	r.once()
}

// lacking are the saves that are not verified where the policies want them.
func (r *checkpoints) lacking() (lacks []string) {
	synctest.Wait()
	for _, j := range r.jobs {
		source, _, _, _ := look(r.t, j.dir)
		last := fmt.Sprint("step_", j.steps)
		for _, at := range r.copies(j) {
			if at.name != "shared" && at.name != "archive" {
				continue
			}
			whole, checked, _, named := look(r.t, at.dir)
			for name := range source {
				files, _ := r.contents(filepath.Join(at.dir, name))
				delete(files, checkpoint.Committed)
				if !whole[name] || !checked[name] || !maps.Equal(files, j.sets[name].files) {
					lacks = append(lacks, fmt.Sprintf("%s of %s on %s", name, j.folder, at.name))
				}
			}
			if at.name == "shared" && named != last {
				lacks = append(lacks, fmt.Sprintf("the tracker of %s on %s, which names %q", j.folder, at.name, named))
			}
		}
		if r.peer && j.node != "" && !slices.ContainsFunc(r.copies(j), func(at place) bool {
			_, checked, _, _ := look(r.t, at.dir)
			return at.name != "shared" && at.name != "archive" && checked[last]
		}) {
			lacks = append(lacks, fmt.Sprintf("%s of %s on another node", last, j.folder))
		}
		if stay := r.remaining[" "+j.folder]; r.thin && j.node != "" && len(stay) > keepLast {
			lacks = append(lacks, fmt.Sprintf("the end of one of %v of %s", stay, j.folder))
		}
	}
	return lacks
}

// once checks that each event has had its run, and no other but of what has failed.
func (r *checkpoints) once() {
	l, err := r.ListRuns(context.Background(), &pb.ListRunsRequest{Limit: 1000})
	if err != nil {
		r.t.Errorf("the runs: %v", err)
		return
	}
	last := map[string]*pb.Run{} // by policy: the newest, of which the list has the older after it
	for _, x := range slices.Backward(l.GetRuns()) {
		was := last[x.GetPolicy()]
		last[x.GetPolicy()] = x
		if was != nil && was.GetDueTime().AsTime().Equal(x.GetDueTime().AsTime()) && was.GetFailed()+was.GetSkipped() == 0 && was.GetBy() == "event" && x.GetBy() == "event" {
			r.t.Errorf("one event is two runs: %v and %v", was, x)
		}
	}
	for _, x := range r.all() {
		c := x.GetSpec().GetTiering().GetCheckpoint()
		if c == nil || x.GetSpec().GetTiering().GetRemove() || x.GetState() != task.Done {
			continue
		}
		for _, j := range r.jobs {
			if j.folder == string(c.GetFolder()) && x.GetSpec().GetNode() == j.node && strings.HasPrefix(x.GetSpec().GetTarget(), "scratch") && !r.thin && x.GetReport().GetKept() == 0 && !j.sets[string(c.GetName())].gone {
				r.t.Errorf("a checkpoint was copied back to where it was saved: %s", told(x))
			}
		}
	}
}

// lastRuns says what the policies did last.
func (r *checkpoints) lastRuns() string {
	var b strings.Builder
	l, err := r.ListRuns(context.Background(), &pb.ListRunsRequest{Limit: 12})
	fmt.Fprintln(&b, "runs:", err)
	for _, x := range l.GetRuns() {
		fmt.Fprintln(&b, x)
	}
	for _, c := range r.Checkpoints() {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}
