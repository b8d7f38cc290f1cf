package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// panicsIn is the name of a folder with whose file system workers of this package panic.
const panicsIn = "panics"

func fileSystemOf(dir int) (mover.FileSystem, error) {
	if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir)); err == nil && filepath.Base(path) == panicsIn {
		panic("a fault of the worker")
	}
	return nil, mover.ErrUnsupported
}

// TestWorkerPanics: a panic of a worker is a fault of the program. It is told as one, with what to report, and not tried again.
func TestWorkerPanics(t *testing.T) {
	c := newCluster(t, "n1")
	c.Tree("shared/"+panicsIn, 1, 0, 0)
	got, err := c.SubmitTask(t.Context(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:" + panicsIn, Target: "shared:target"}})
	must.Do(t, err)
	c.Until("it has ended", func() bool { return c.Now(got.GetId()).GetEndTime() != nil })
	end := c.Now(got.GetId())
	if end.GetState() != pb.TaskState_TASK_STATE_FAILED || end.GetTries() != 1 || end.GetErrorKind() != "OTHER" {
		t.Errorf("%v after %d tries, of the kind %s", end.GetState(), end.GetTries(), end.GetErrorKind())
	}
	for _, want := range []string{"a fault of datamove test", "report it", "a fault of the worker", "node n1", got.GetId()} {
		if !strings.Contains(end.GetError(), want) {
			t.Errorf("%q is not in %q", want, end.GetError())
		}
	}
}
