package service

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

var taskDeeds = []deed{{"copy", 8}, {"sync", 4}, {"twice", 2}, {"change", 2}, {"vanish", 1}, {"cancel", 4}, {"pause", 3}, {"resume", 3}}

// tasks are copies of sources to targets, and what is done with tasks while they run.
type tasks struct {
	*running
	plain
	targets [targets]*target
	copied  []copied
}

// target is a tree that is copied to.
type target struct {
	dir, location string
	from          map[int]bool // sources
}

// copied is a copy that was asked for.
type copied struct {
	*asked
	src, dst int
	sync     bool
}

func (r *tasks) begin() {
	for i, tier := range []string{"shared", "archive", "shared"} {
		name := fmt.Sprint("dst", i)
		r.targets[i] = &target{dir: filepath.Join(r.Dir, tier, name), location: tier + ":" + name, from: map[int]bool{}}
	}
}

func (r *tasks) do(s step) {
	switch s.do {
	case "copy", "sync":
		r.copies(s.a%sources, s.b%targets, s.do == "sync", 1)
	case "twice":
		r.copies(s.a%sources, s.b%targets, false, 2+s.c%3)
	case "change":
		src := r.sources[s.a%sources]
		names := slices.Sorted(maps.Keys(src.now))
		name := names[s.b%len(names)]
		data, err := os.ReadFile(filepath.Join(src.dir, name))
		must.Do(r.t, err)
		src.put(r.t, name, append(data, byte(s.c), byte(len(data))))
	case "vanish":
		src := r.sources[s.a%sources]
		if names := slices.Sorted(maps.Keys(src.now)); len(names) > 1 {
			src.remove(r.t, names[s.b%len(names)])
		}
	case "cancel", "pause", "resume":
		r.steer(s)
	}
}

// copies submits a copy, so many times at once with one key.
func (r *tasks) copies(src, dst int, removes bool, times int) {
	to := r.targets[dst]
	to.from[src] = true
	r.n++
	req := &pb.SubmitTaskRequest{IdempotencyKey: fmt.Sprint("key", r.n), Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: fmt.Sprint("shared:src", src), Target: to.location}}
	if removes {
		req.Spec.Kind, req.Spec.Options = pb.TaskKind_TASK_KIND_SYNC, &pb.Options{RemoveExtra: true}
	}
	a := &asked{what: fmt.Sprintf("%v %s to %s", req.Spec.Kind, req.Spec.Source, req.Spec.Target),
		call: func(ctx context.Context, c *api.Client) (string, error) {
			t, err := c.Submit(ctx, req)
			return t.GetId(), err
		}}
	r.copied = append(r.copied, copied{a, src, dst, removes})
	ids := make([]string, times-1)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			ids[i], _ = a.call(ctx, r.caller)
		})
	}
	r.ask(a)
	wg.Wait()
	for _, id := range ids {
		if id != "" && a.id != "" && id != a.id {
			r.t.Errorf("%s with one key is task %s and %s", a.what, a.id, id)
		}
		if id != "" {
			a.id = id
		}
	}
}

// steer cancels, pauses, or resumes a task.
func (r *tasks) steer(s step) {
	var ids []string
	for _, a := range r.asked {
		if a.id != "" && !a.apart {
			ids = append(ids, a.id)
		}
	}
	if len(ids) == 0 {
		return
	}
	id := ids[len(ids)-1-s.a%min(3, len(ids))]
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var err error
	switch s.do {
	case "cancel":
		_, err = r.caller.CancelTask(ctx, &pb.CancelTaskRequest{Id: id})
	case "pause":
		_, err = r.caller.PauseTask(ctx, &pb.PauseTaskRequest{Id: id})
	case "resume":
		_, err = r.caller.ResumeTask(ctx, &pb.ResumeTaskRequest{Id: id})
	}
	if !unknown(err) {
		r.kind(s.do, err)
	}
}

func (r *tasks) check() {
	for _, to := range r.targets {
		files, _ := r.contents(to.dir)
		for name, sum := range files {
			if !r.mayHave(to, name, sum) {
				r.t.Errorf("%s has %s with a content that no source ever had by this name", to.location, name)
			}
		}
	}
}

func (r *tasks) mayHave(to *target, name string, sum uint64) bool {
	for src := range to.from {
		if r.sources[src].ever[name][sum] {
			return true
		}
	}
	return false
}

func (r *tasks) mayFail(x *pb.Task) bool {
	return r.everChanged() && slices.Contains([]string{mover.KindName(mover.ErrChanged), mover.KindName(mover.ErrNotExist)}, x.GetErrorKind())
}

// clockSteps reports whether the times that the coordinator says may not be in order.
func (r *running) clockSteps() bool {
	return slices.ContainsFunc(r.w.steps, func(s step) bool { return s.do == "clock" })
}

func (r *running) everChanged() bool {
	return slices.ContainsFunc(r.w.steps, func(s step) bool { return s.do == "change" || s.do == "vanish" })
}

func (r *tasks) end(tasks map[string]*pb.Task) {
	for i := range r.targets {
		r.arrived(i, tasks)
	}
}

// arrived checks a target by the last task that wrote to it, and then by one more.
func (r *tasks) arrived(i int, tasks map[string]*pb.Task) {
	to := r.targets[i]
	var last *copied
	var lastTask *pb.Task
	alone := true // no other one ended at the same instant
	for k := range r.copied {
		a := &r.copied[k]
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
	if alone && !r.clockSteps() && lastTask.GetState() == task.Done && src.changed[len(src.changed)-1].Before(lastTask.GetStartTime().AsTime()) {
		r.like(to, src, last.sync, lastTask.GetTries() == 1 || !r.strays(), lastTask)
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
	r.like(to, src, true, true, x)
}

// strays reports whether a worker may have gone on after another one had ended its task: stopped, or cut off, just before it made a temporary file. It publishes
// nothing and removes that file, but the kernel gives the directory around it the time of that, and the next run sets it right.
func (r *running) strays() bool {
	return slices.ContainsFunc(r.w.steps, func(s step) bool {
		return slices.Contains([]string{"sleep", "cut", "break"}, s.do) || s.do == "trap" && slices.Contains([]string{"sleep", "cut", "break"}, s.trapped())
	})
}

// like checks that a target has what the source has; exactly is nothing else, and timely that directories have their times, too.
func (r *tasks) like(to *target, src *source, exactly, timely bool, by *pb.Task) {
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
		if (timely || !d.IsDir()) && !got.ModTime().Equal(want.ModTime()) {
			r.t.Errorf("%s of %s is of %v, of the source it is of %v, after %s", rel, to.location, got.ModTime(), want.ModTime(), told(by))
		}
		return nil
	})
	if err != nil {
		r.t.Errorf("%s: %v", src.dir, err)
	}
}
