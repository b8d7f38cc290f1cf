package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// spoil changes a byte of a file, and nothing that a listing shows.
func spoil(t *testing.T, path string) (mend func()) {
	t.Helper()
	was := must.Get(os.ReadFile(path))(t)
	info := must.Get(os.Stat(path))(t)
	write := func(content []byte) {
		t.Helper()
		must.Do(t, os.WriteFile(path, content, 0o644))
		must.Do(t, os.Chtimes(path, time.Now(), info.ModTime()))
	}
	other := bytes.Clone(was)
	other[len(other)/2] ^= 1
	write(other)
	return func() { write(was) }
}

// TestDatasetIsExpected: what is copied as a dataset is that dataset, or the copy fails and
// names what is not, also where a helper has moved it. A replica that is not the dataset is
// relied on no more, until it is looked at again.
//
//safety:4/datasets a replica that is not any more what its digest says: what is read of it as the dataset is named and not published, also by a helper, also at a second try; and the replica is doubted until it is looked at again
func TestDatasetIsExpected(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		source := c.Tree("shared/vision", 300, 2, 4<<20)
		c.Add("vision", "shared:vision")
		copied := func(to string) *pb.Task {
			t.Helper()
			id := c.Slow("dataset:vision", "shared:"+to, 4<<20).GetId()
			return c.Ends(c.Now(id), nil)
		}
		refused := func(what string, done *pb.Task, names ...string) {
			t.Helper()
			said := done.GetError()
			for _, f := range done.GetReport().GetFailures() {
				said += " " + string(f.GetName())
			}
			if done.GetState() != task.Failed || done.GetErrorKind() != mover.KindName(mover.ErrCorrupt) || done.GetExitCode() != 9 {
				t.Errorf("%s: it ends as %v", what, done)
			}
			for _, name := range names {
				if !strings.Contains(said, name) {
					t.Errorf("%s: %s is not named: %s", what, name, said)
				}
			}
		}
		if done := copied("first"); done.GetState() != task.Done {
			t.Fatalf("it ends as %v", done)
		}
		c.Same(source, filepath.Join(c.Dir, "shared/first"))

		replica := func() *pb.Replica { return c.ReplicasOf("vision")["shared@"] }
		doubted := func(what string, mend ...func()) {
			t.Helper()
			if r := replica(); r.GetLevel() != pb.Level_LEVEL_UNSPECIFIED || r.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE {
				t.Errorf("%s: its replica is %v", what, r)
			}
			_, err := c.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:vision", Target: "shared:" + what}})
			if !errors.Is(err, mover.ErrNotExist) {
				t.Errorf("%s: it is read again: %v", what, err)
			}
			for _, again := range mend {
				again()
			}
			c.Add("vision", "shared:vision")
			if r := replica(); r.GetLevel() != pb.Level_LEVEL_READ {
				t.Errorf("%s: mended, it is %v", what, r)
			}
		}
		names := []string{"d14/f00290", "d07/f00007", "large1"}
		var mend []func()
		for _, name := range names {
			mend = append(mend, spoil(t, filepath.Join(source, name)))
		}
		refused("other contents", copied("second"), names...)
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(c.Dir, "shared/second", name)); err == nil {
				t.Errorf("%s, which is something else, was published", name)
			}
		}
		doubted("contents", mend...)

		more, less := filepath.Join(source, "d03", "more"), filepath.Join(source, "d03/f00003")
		change := func(err error) {
			t.Helper()
			must.Do(t, err)
		}
		change(os.WriteFile(more, nil, 0o644))
		refused("one more file", copied("third"), "d03/more")
		doubted("more", func() { change(os.Remove(more)) })

		was, err := os.ReadFile(less)
		change(err)
		put := func() { change(os.WriteFile(less, was, 0o644)) }
		change(os.WriteFile(less, nil, 0o644))
		refused("another size", copied("third"), "d03/f00003")
		doubted("size", put)
		change(os.Remove(less))
		refused("one less", copied("third"), "d03/f00003")
		doubted("less", put)

		change(os.Rename(source, source+"-old"))
		if done := copied("third"); done.GetState() != task.Failed || done.GetExitCode() != 3 {
			t.Errorf("nothing is there: it ends as %v", done)
		}
		doubted("all", func() { change(os.Rename(source+"-old", source)) })
	})
}
