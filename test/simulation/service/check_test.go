package service

import (
	"context"
	"errors"
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

// holds is what holds after each step.
func (r *running) holds() {
	if !r.up {
		return
	}
	for _, d := range r.domains {
		d.check()
	}
	for _, x := range r.all() {
		if was, over := r.ended[x.GetId()]; over && was != x.GetState() {
			r.t.Errorf("it was %s, which is an end, and now it is not: %s", task.Word(was), told(x))
		}
		if task.Ended(x.GetState()) {
			r.ended[x.GetId()] = x.GetState()
		}
	}
}

// quiet is how long all may take to come to rest, in virtual time.
const quiet = 2 * time.Hour

// finish mends everything, waits until the service is at rest, and checks what has become.
func (r *running) finish() {
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
	for _, d := range r.domains {
		if c, is := d.(calmer); is {
			c.calm()
		}
		if r.t.Failed() {
			return
		}
	}
	if !r.rest() || r.t.Failed() {
		return
	}
	r.holds()
	tasks := map[string]*pb.Task{}
	for _, x := range r.all() {
		tasks[x.GetId()] = x
		if x.GetState() == task.Failed && (x.GetError() == "" || x.GetErrorKind() == "") {
			r.t.Errorf("it does not say why it failed: %s", told(x))
		}
		if x.GetState() == task.Failed && !r.excused(x) {
			r.t.Errorf("nothing was wrong with it: %s", told(x))
		}
	}
	for _, a := range r.asked {
		if a.id != "" && tasks[a.id] == nil {
			r.t.Errorf("%s was accepted as task %s, and there is none", a.what, a.id)
		}
	}
	for _, d := range r.domains {
		if d.end(tasks); r.t.Failed() {
			return
		}
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
			if !task.Ended(x.GetState()) && !forever(x) {
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
				if !task.Ended(x.GetState()) && !forever(x) {
					r.t.Errorf("it does not end: %s", told(x))
				}
			}
			return false
		}
		time.Sleep(max(200*time.Millisecond, time.Since(begun)/20))
	}
}

// forever reports whether a task of the service goes on until its tier is no more.
func forever(x *pb.Task) bool { return x.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_CHECKPOINTS }

// excused reports whether something was done that a task may fail of.
func (r *running) excused(x *pb.Task) bool {
	if x.GetTries() >= 5 { // it has killed as many workers, as it seems
		return true
	}
	return slices.ContainsFunc(r.domains, func(d domain) bool { return d.mayFail(x) })
}
