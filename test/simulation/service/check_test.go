package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
)

// contents are the sums of the files below a directory, and the names of temporary ones.
func (r *running) contents(dir string) (files map[string]uint64, temporary []string) {
	files = map[string]uint64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), mover.TempPrefix) {
			rel, _ := filepath.Rel(dir, path)
			temporary = append(temporary, rel)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, _ := filepath.Rel(dir, path)
		files[rel] = sumOf(data)
		return err
	})
	if err != nil {
		r.t.Errorf("%s: %v", dir, err)
	}
	return files, temporary
}

// check is what holds after each step.
func (r *running) check() {
	for _, to := range r.targets {
		files, _ := r.contents(to.dir)
		for name, sum := range files {
			if !r.mayHave(to, name, sum) {
				r.t.Errorf("%s has %s with a content that no source ever had by this name", to.location, name)
			}
		}
	}
	if !r.up {
		return
	}
	r.replicas()
	for _, x := range r.all() {
		if was, over := r.ended[x.GetId()]; over && was != x.GetState() {
			r.t.Errorf("it was %s, which is an end, and now it is not: %s", task.Word(was), told(x))
		}
		if task.Ended(x.GetState()) {
			r.ended[x.GetId()] = x.GetState()
		}
	}
}

func (r *running) mayHave(to *target, name string, sum uint64) bool {
	for src := range to.from {
		if r.sources[src].ever[name][sum] {
			return true
		}
	}
	return false
}

// replicas checks that what is said to be whole is, and that what is leased is whole.
func (r *running) replicas() {
	there := map[string]string{} // what a lease holds; asked for first: what is whole stays so while it is leased
	for l, err := range r.Leases(context.Background(), &pb.ListLeasesRequest{}) {
		if err != nil {
			r.t.Errorf("the leases: %v", err)
			return
		}
		there[l.GetId()] = ""
		if l.GetTier() == "scratch" && !strings.HasPrefix(l.GetHolder(), "task:") {
			there[l.GetId()] = l.GetDataset() + "@" + l.GetDigest() + " on " + l.GetNode()
		}
	}
	whole := map[string]bool{}
	for i, src := range r.sources {
		name := fmt.Sprint("ds", i)
		for x, err := range r.Replicas(context.Background(), &pb.ListReplicasRequest{Dataset: name}) {
			if err != nil {
				if !errors.Is(err, mover.ErrNotExist) {
					r.t.Errorf("the replicas of %s: %v", name, err)
				}
				break
			}
			if x.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || x.GetTier() != "scratch" {
				continue
			}
			whole[x.GetDataset()+"@"+x.GetDigest()+" on "+x.GetNode()] = true
			files, temporary := r.contents(r.Scratch(x.GetNode(), name, x.GetDigest()))
			if len(temporary) > 0 {
				r.t.Errorf("the replica of %s on %s is whole, and has %v", name, x.GetNode(), temporary)
			}
			for file, sum := range files {
				if !src.ever[file][sum] {
					r.t.Errorf("the replica of %s on %s has another %s", name, x.GetNode(), file)
				}
			}
			if len(files) != len(src.now) {
				r.t.Errorf("the replica of %s on %s is whole with %d files of %d", name, x.GetNode(), len(files), len(src.now))
			}
		}
	}
	for id, at := range there {
		if at != "" && !whole[at] {
			r.t.Errorf("lease %s holds %s, of which no whole replica is there", id, at)
		}
	}
	for id, l := range r.leases {
		if _, is := there[id]; !l.dropped && !is {
			r.t.Errorf("lease %s on %s was given, not dropped, and is not there", id, l.dataset)
		}
	}
}

// quiet is how long all may take to come to rest, in virtual time.
const quiet = 12 * time.Hour

// end mends everything, waits until the service is at rest, and checks what has become.
func (r *running) end() {
	r.SetWeather(nil)
	for len(r.pending) > 0 {
		r.mend(true)
	}
	for _, a := range r.asked {
		for begun := time.Now(); !a.sure; time.Sleep(time.Second) {
			if r.again(a, r.Client); !a.sure && time.Since(begun) > quiet {
				r.t.Errorf("%s has no answer in fair weather: %v", a.what, a.err)
				return
			}
		}
	}
	if !r.rest() || r.t.Failed() {
		return
	}
	r.check()
	tasks := map[string]*pb.Task{}
	for _, x := range r.all() {
		tasks[x.GetId()] = x
		if x.GetState() == task.Failed && (x.GetError() == "" || x.GetErrorKind() == "") {
			r.t.Errorf("it does not say why it failed: %s", told(x))
		}
		if x.GetState() == task.Failed && !r.mayFail(x) {
			r.t.Errorf("nothing was wrong with it: %s", told(x))
		}
	}
	for _, a := range r.asked {
		if a.id != "" && tasks[a.id] == nil {
			r.t.Errorf("%s was accepted as task %s, and there is none", a.what, a.id)
		}
	}
	for i := range r.targets {
		r.arrived(i, tasks)
	}
	if !r.t.Failed() {
		r.empty()
	}
}

// rest waits until all tasks have ended. What was paused is resumed.
func (r *running) rest() bool {
	for begun := time.Now(); ; {
		open := 0
		for _, x := range r.all() {
			if x.GetState() == task.Paused {
				_, err := r.ResumeTask(context.Background(), &pb.ResumeTaskRequest{Id: x.GetId()})
				r.kind("resume", err)
			}
			if !task.Ended(x.GetState()) {
				open++
			}
		}
		if open == 0 {
			return true
		}
		if r.t.Failed() {
			return false
		}
		if time.Since(begun) > quiet {
			for _, x := range r.all() {
				if !task.Ended(x.GetState()) {
					r.t.Errorf("it does not end: %s", told(x))
				}
			}
			return false
		}
		time.Sleep(max(200*time.Millisecond, time.Since(begun)/20))
	}
}

// mayFail reports whether something was done that a task may fail of.
func (r *running) mayFail(x *pb.Task) bool {
	if x.GetTries() >= 5 { // it has killed as many workers, as it seems
		return true
	}
	switch x.GetSpec().GetKind() {
	case pb.TaskKind_TASK_KIND_RELEASE:
		return true // of what is not there, or in use
	case pb.TaskKind_TASK_KIND_STAGE, pb.TaskKind_TASK_KIND_DESCRIBE:
		return r.everChanged()
	}
	return x.GetErrorKind() == "CHANGED" && r.everChanged()
}

func (r *running) everChanged() bool {
	return slices.ContainsFunc(r.w.steps, func(s step) bool { return s.do == "change" })
}

// arrived checks a target by the last task that wrote to it, and then by one more.
func (r *running) arrived(i int, tasks map[string]*pb.Task) {
	to := r.targets[i]
	var last *asked
	var lastTask *pb.Task
	alone := true // no other one ended at the same instant
	for _, a := range r.asked {
		x := tasks[a.id]
		if a.dst != i || x.GetStartTime() == nil || x == lastTask {
			continue
		}
		switch end := x.GetEndTime().AsTime(); {
		case lastTask == nil || end.After(lastTask.GetEndTime().AsTime()):
			last, lastTask, alone = a, x, true
		case end.Equal(lastTask.GetEndTime().AsTime()):
			alone = false
		}
	}
	if last == nil {
		return
	}
	src := r.sources[last.src]
	if alone && lastTask.GetState() == task.Done && src.changed[len(src.changed)-1].Before(lastTask.GetStartTime().AsTime()) {
		r.like(to, src, last.sync, lastTask)
	}
	x, err := r.Submit(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SYNC, Source: fmt.Sprint("shared:src", last.src), Target: to.location, Options: &pb.Options{RemoveExtra: true}}})
	if err != nil {
		r.t.Errorf("once more to %s: %v", to.location, err)
		return
	}
	if !r.rest() {
		return
	}
	if x = r.Now(x.GetId()); x.GetState() != task.Done {
		r.t.Errorf("nothing is wrong any more: %s", told(x))
		return
	}
	r.like(to, src, true, x)
}

// like checks that a target has what the source has; exactly is nothing else.
func (r *running) like(to *target, src *source, exactly bool, by *pb.Task) {
	files, temporary := r.contents(to.dir)
	if len(temporary) > 0 {
		r.t.Errorf("%s has %v after %s", to.location, temporary, told(by))
	}
	for name, sum := range src.now {
		if files[name] != sum {
			r.t.Errorf("%s has another %s than the source after %s", to.location, name, told(by))
		}
		delete(files, name)
	}
	if exactly && len(files) > 0 {
		r.t.Errorf("%s has %v, and the source has not, after %s", to.location, files, told(by))
	}
	err := filepath.WalkDir(src.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(src.dir, path)
		want, err := d.Info()
		if err != nil {
			return err
		}
		got, err := os.Lstat(filepath.Join(to.dir, rel))
		if err != nil {
			return nil // told above
		}
		if !got.ModTime().Equal(want.ModTime()) {
			r.t.Errorf("%s of %s is of %v, of the source it is of %v, after %s", rel, to.location, got.ModTime(), want.ModTime(), told(by))
		}
		return nil
	})
	if err != nil {
		r.t.Errorf("%s: %v", src.dir, err)
	}
}

// empty releases all that was staged, and checks that nothing is left of it.
func (r *running) empty() {
	ctx := context.Background()
	r.Drop("")
	for i := range r.sources {
		name := fmt.Sprint("ds", i)
		if _, err := r.Unpin(ctx, &pb.UnpinRequest{Source: "dataset:" + name, Tier: "scratch"}); err != nil && !errors.Is(err, mover.ErrNotExist) {
			r.t.Errorf("unpin %s: %v", name, err)
		}
		var all []*pb.Replica
		for x, err := range r.Replicas(ctx, &pb.ListReplicasRequest{Dataset: name}) {
			if err != nil {
				break // of no such dataset
			}
			if x.GetTier() == "scratch" {
				all = append(all, x)
			}
		}
		for _, x := range all {
			y, err := r.Release(ctx, &pb.ReleaseRequest{Source: "dataset:" + name + "@" + x.GetDigest(), Tier: "scratch", Node: x.GetNode()})
			if err != nil {
				if !r.everChanged() {
					r.t.Errorf("release %v: %v", x, err)
				}
				continue
			}
			if !r.rest() {
				return
			}
			if y = r.Now(y.GetId()); y.GetState() != task.Done && !r.everChanged() {
				r.t.Errorf("what is not in use is not released: %s", told(y))
			}
		}
	}
	if r.everChanged() || r.t.Failed() { // a replica is not released when its source is not what it was
		return
	}
	for i := range r.w.agents {
		left, err := filepath.Glob(filepath.Join(r.ConfOf(nodeName(i))().Tiers["scratch"].Path, ".datasets/*/*"))
		if err != nil || len(left) > 0 {
			r.t.Errorf("all is released, and on %s there is %v %v", nodeName(i), left, err)
		}
	}
}
