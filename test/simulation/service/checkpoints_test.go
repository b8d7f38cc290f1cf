package service

import (
	"context"
	"encoding/binary"
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
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

var checkpointDeeds = []deed{{"save", 8}, {"half", 2}, {"whole", 2}, {"over", 2}, {"room", 1}, {"settle", 5}}

// checkpoints are training jobs that save on their nodes and on the shared tier, and policies that bring the saves away and thin them out.
type checkpoints struct {
	*running
	rng  *rand.Rand
	peer bool // the disk of another node gets them, too
	thin bool // the disks of nodes keep few
	jobs []*job
	was  map[string]*pb.Checkpoint // what the coordinator said at the last check
	held map[string][]string       // whole saves at the last check, by place and job
}

// job is a training run.
type job struct {
	folder string // below the root of its tier
	tier   string
	node   string // "" is the shared tier
	dir    string
	steps  int
	sets   map[string]*set
	ranks  int
	writes int // files
}

// set is a checkpoint as its job wrote it.
type set struct {
	files map[string]uint64   // as they are now
	whole []map[string]uint64 // saves that were complete once
	is    bool                // the last one is what is there now
	gone  bool                // the job has removed it
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
	r.held, r.was = map[string][]string{}, map[string]*pb.Checkpoint{}
	for i := range r.w.agents + 1 {
		j := &job{folder: fmt.Sprint("runs/job", i), tier: "scratch", ranks: 1 + i%3, sets: map[string]*set{}}
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
	j := r.jobs[s.a%len(r.jobs)]
	switch s.do {
	case "save", "half":
		j.steps++
		name := fmt.Sprint("step_", j.steps)
		r.shards(j, name)
		if s.do == "save" {
			r.seal(j, name)
			if s.b%4 > 0 {
				r.names(j, name)
			}
		}
	case "whole":
		if name := j.one(s.b, func(x *set) bool { return !x.is && !x.gone }); name != "" {
			r.seal(j, name)
			r.names(j, name)
		}
	case "over":
		if name := j.one(s.b, func(x *set) bool { return x.is && !x.gone }); name != "" && r.there(j, name) {
			must.Do(r.t, os.Remove(filepath.Join(j.dir, name, ".metadata")))
			j.sets[name].is = false
			r.shards(j, name)
			r.seal(j, name)
			r.names(j, name)
		}
	case "room":
		if name := j.one(s.b, func(x *set) bool { return !x.gone }); name != "" {
			r.removes(j, name)
		}
	case "settle":
		r.pass(time.Duration(5+s.c%40) * time.Second)
	}
}

// one is a checkpoint of some, or "".
func (j *job) one(n int, is func(*set) bool) string {
	var names []string
	for name, x := range j.sets {
		if is(x) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return names[n%len(names)]
}

// there reports whether a checkpoint is where its job saved it.
func (r *checkpoints) there(j *job, name string) bool {
	synctest.Wait()
	_, err := os.Stat(filepath.Join(j.dir, name, ".metadata"))
	return err == nil
}

// shards writes the files of a checkpoint but the last, as many as ranks the job has.
func (r *checkpoints) shards(j *job, name string) {
	x := j.sets[name]
	if x == nil {
		x = &set{files: map[string]uint64{}}
		j.sets[name] = x
	}
	for i := range j.ranks {
		r.write(j, x, name, fmt.Sprintf("__%d_0.distcp", i), 1+r.rng.IntN(120_000))
	}
}

// seal writes the file that makes it complete.
func (r *checkpoints) seal(j *job, name string) {
	x := j.sets[name]
	text := fmt.Appendf(nil, "of %s, save %d", name, len(x.whole))
	j.put(r, filepath.Join(name, ".metadata"), text)
	x.files[".metadata"] = sumOf(text)
	x.is, x.whole = true, append(x.whole, maps.Clone(x.files))
}

func (r *checkpoints) write(j *job, x *set, name, file string, size int) {
	data := make([]byte, size+7)
	for i := 0; i < size; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], r.rng.Uint64())
	}
	j.put(r, filepath.Join(name, file), data[:size])
	x.files[file] = sumOf(data[:size])
}

// put writes a file whole, with a time that no other one of the job has.
func (j *job) put(r *checkpoints, name string, data []byte) {
	at := filepath.Join(j.dir, name)
	must.Do(r.t, os.MkdirAll(filepath.Dir(at), 0o755))
	must.Do(r.t, os.WriteFile(at+".tmp", data, 0o644))
	j.writes++
	when := time.Now().Add(time.Duration(j.writes) * time.Microsecond)
	must.Do(r.t, os.Chtimes(at+".tmp", when, when))
	must.Do(r.t, os.Rename(at+".tmp", at))
}

// names has the tracker name a checkpoint.
func (r *checkpoints) names(j *job, name string) { j.put(r, "latest", []byte(name)) }

// removes has a job remove one that its tracker does not name.
func (r *checkpoints) removes(j *job, name string) {
	text, _ := os.ReadFile(filepath.Join(j.dir, "latest")) // there may be none yet
	if string(text) == name {
		return
	}
	j.sets[name].gone, j.sets[name].is = true, false
	must.Do(r.t, os.RemoveAll(filepath.Join(j.dir, name)))
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

// look is what a place has: its whole checkpoints, of which the copies that were checked, and why others are not, and what its tracker names.
func (r *checkpoints) look(dir string) (whole, checked map[string]bool, why map[string]string, named string) {
	why = map[string]string{}
	whole, checked = map[string]bool{}, map[string]bool{}
	if _, err := os.Stat(dir); err != nil {
		return whole, checked, why, ""
	}
	site := &replicate.Site{Request: engine.Request{StateDir: filepath.Join(r.Dir, "looks")}}
	f, err := site.Folder(context.Background(), location.Location{Scheme: location.POSIX, Path: dir}, checkpoint.DCP, false)
	if err != nil {
		r.t.Errorf("%s: %v", dir, err)
		return whole, checked, why, ""
	}
	defer f.Close()
	for found, err := range checkpoint.Each(context.Background(), f, checkpoint.DCP) {
		if err != nil {
			r.t.Errorf("%s: %v", dir, err)
			break
		}
		if why[found.Name] = found.Why; found.Complete {
			whole[found.Name] = true
			checked[found.Name] = found.Commit != nil && found.Commit.Verified()
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "latest")) // there may be none
	return whole, checked, why, string(text)
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
	whole, checked, _, named := r.look(at.dir)
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
	r.few(j, at.name, slices.Sorted(maps.Keys(whole)), nil)
}

// kept checks what a job has where it saves.
func (r *checkpoints) kept(j *job) {
	whole, _, why, named := r.look(j.dir)
	if x := j.sets[named]; x != nil && !x.gone && x.is && !whole[named] {
		files, _ := r.contents(j.dir)
		r.t.Errorf("%s of %s is gone, and the tracker names it: %v is there, it was saved as %v: %s", named, j.folder, slices.Sorted(maps.Keys(files)), slices.Sorted(maps.Keys(x.files)), why[named])
	}
	r.few(j, "", slices.Sorted(maps.Keys(whole)), func(name string) bool { x := j.sets[name]; return x.gone || !x.is })
}

// few checks that what has gone from a place since the last check, but by the job, has left as many as have to stay.
func (r *checkpoints) few(j *job, at string, now []string, own func(name string) bool) {
	key := at + " " + j.folder
	var left, gone []string
	for _, name := range r.held[key] {
		switch {
		case slices.Contains(now, name):
			left = append(left, name)
		case own == nil || !own(name):
			gone = append(gone, name)
		default:
			left = append(left, name) // it may have been there when others went
		}
	}
	for _, name := range now {
		if !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	r.held[key] = now
	if len(gone) > 0 && len(left) < checkpoint.Fewest {
		r.t.Errorf("%v of %s has gone from %q, and there is %v", gone, j.folder, at, left)
	}
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
		r.do(step{do: "save", a: slices.Index(r.jobs, j), b: 1})
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
		source, _, _, _ := r.look(j.dir)
		last := fmt.Sprint("step_", j.steps)
		for _, at := range r.copies(j) {
			if at.name != "shared" && at.name != "archive" {
				continue
			}
			whole, checked, _, named := r.look(at.dir)
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
			_, checked, _, _ := r.look(at.dir)
			return at.name != "shared" && at.name != "archive" && checked[last]
		}) {
			lacks = append(lacks, fmt.Sprintf("%s of %s on another node", last, j.folder))
		}
		if stay := r.held[" "+j.folder]; r.thin && j.node != "" && len(stay) > keepLast {
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
