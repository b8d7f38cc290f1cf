package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// Copy submits a copy.
func (c *Cluster) Copy(source, target string) *pb.Task {
	c.t.Helper()
	return c.Slow(source, target, 0)
}

// Slow submits a copy that reads no more than so much per second, all agents together.
func (c *Cluster) Slow(source, target string, bytesPerSecond int64) *pb.Task {
	c.t.Helper()
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: source, Target: target}
	if bytesPerSecond > 0 {
		spec.Options = &pb.Options{BytesPerSecond: bytesPerSecond}
	}
	t, err := c.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Spec: spec})
	if err != nil {
		c.t.Fatal(err)
	}
	return t
}

// Now is a task as it is now.
func (c *Cluster) Now(id string) *pb.Task {
	c.t.Helper()
	t, err := c.GetTask(context.Background(), &pb.GetTaskRequest{Id: id})
	if err != nil {
		c.t.Fatal(err)
	}
	return t
}

// Helpers gives all agents that helped a task, when it has ended.
func (c *Cluster) Helpers(id string) <-chan map[string]bool {
	out := make(chan map[string]bool, 1)
	go func() {
		all := map[string]bool{}
		_, _ = c.Wait(context.Background(), id, func(t *pb.Task) {
			for _, h := range t.GetHelpers() {
				all[h] = true
			}
		})
		out <- all
	}()
	return out
}

// Passed waits until more than so many bytes of a task have passed.
func (c *Cluster) Passed(id string, bytes int64) {
	c.t.Helper()
	c.Until(fmt.Sprintf("%d bytes of task %s have passed", bytes, id), func() bool { return c.Now(id).GetProgress().GetBytesDone() > bytes })
}

// Done waits for a task and checks that it is done.
func (c *Cluster) Done(id string) *pb.Task {
	c.t.Helper()
	t := c.ended(id)
	if t.GetState() != task.Done {
		c.t.Fatalf("task %s is %s: %s %v", id, task.Word(t.GetState()), t.GetError(), t.GetReport())
	}
	return t
}

// Ends waits for the end of a task that a call has made.
func (c *Cluster) Ends(x *pb.Task, err error) *pb.Task {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	return c.ended(x.GetId())
}

// Tree makes files below a directory of the cluster: many small ones and some large.
func (c *Cluster) Tree(name string, small, large int, largeBytes int64) string {
	c.t.Helper()
	dir := filepath.Join(c.Dir, name)
	dice := rand.New(rand.NewPCG(1, uint64(small)))
	for i := range small {
		path := filepath.Join(dir, fmt.Sprintf("d%02d", i%23), fmt.Sprintf("f%05d", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat(fmt.Sprint(i), dice.IntN(300))), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	for i := range large {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			c.t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("large%d", i)))
		if err != nil {
			c.t.Fatal(err)
		}
		block := make([]byte, 1<<20)
		for n := int64(0); n < largeBytes; n += int64(len(block)) {
			for j := 0; j < len(block); j += 8 {
				v := dice.Uint64()
				for k := range 8 {
					block[j+k] = byte(v >> (8 * k))
				}
			}
			if _, err := f.Write(block); err != nil {
				c.t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			c.t.Fatal(err)
		}
	}
	return dir
}

// Same fails when two trees differ, or when something of ours is left in the second.
func (c *Cluster) Same(source, target string) {
	c.t.Helper()
	a, b := Contents(c.t, source), Contents(c.t, target)
	for name, text := range a {
		if b[name] != text {
			c.t.Errorf("%s differs or is missing (%d bytes, %d at the target)", name, len(text), len(b[name]))
		}
		delete(b, name)
	}
	for name := range b {
		c.t.Errorf("%s is at the target only", name)
	}
}

// Contents are those of the files below a directory, by name.
func Contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = string(text)
		return err
	})
	must.Do(t, err)
	return all
}
