package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	life "datamove.dev/mover/task"
	"datamove.dev/test/chromium"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// crowded is the real program with many tasks in its ledger: most have ended, and some
// wait for an agent that is not there.
func crowded(t testing.TB, tasks int) *program {
	t.Helper()
	return newProgramOn(t, func(data string) {
		must.Do(t, os.MkdirAll(data, 0o700))
		books := must.Get(state.Open(filepath.Join(data, "ledger"), state.Options{}))(t)
		begun := time.Now().Add(-time.Duration(tasks) * time.Second)
		for from := 0; from < tasks; from += 500 {
			must.Do(t, books.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
				for n := from; n < from+500; n++ {
					if err := state.Tasks.Put(tx, crowdTask(n, begun.Add(time.Duration(n)*time.Second))); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		must.Do(t, books.Close())
	})
}

func crowdTask(n int, at time.Time) *datamovev1.Task {
	state := []datamovev1.TaskState{done, done, done, failed, queued, cancelled, done, done}[n%8]
	one := task(state, fmt.Sprintf("warm:group-%d/run-%06d/checkpoints/step-%d", n%40, n, n*17%many), fmt.Sprintf("warm:archive/group-%d/run-%06d", n%40, n),
		977, 977, many<<20, many<<20)
	one.Id, one.Revision, one.Spec.Class = life.NewID(at), 3, datamovev1.TaskClass_TASK_CLASS_REPLICATE
	one.Owner, one.CreateTime = &datamovev1.Account{Name: fmt.Sprintf("user%d", n%300), Uid: uint32(1000 + n%300)}, timestamppb.New(at)
	switch state {
	case queued:
		one.Progress, one.StartTime, one.Tries = nil, nil, 0
	case failed:
		one.Error, one.ErrorKind, one.ExitCode = "3 items failed; the gravest: permission denied", "PERMISSION", 4
	}
	return one
}

// cost is what a page has asked for, as the browser counts it, and how much there is of it.
type cost struct {
	Requests, Bytes, Rows, Elements float64
}

const costOf = `({
	Requests: performance.getEntriesByType('resource').length, Bytes: performance.getEntriesByType('resource').reduce((sum, e) => sum + e.transferSize, 0),
	Rows: document.querySelectorAll('.row').length, Elements: document.querySelectorAll('*').length})`

// TestCrowd: what a page costs that shows the many tasks of a real service is bounded by
// what is on the screen, and by the pages in which a list is read.
func TestCrowd(t *testing.T) {
	chromium.Need(t)
	tasks, shown := 3000, "3,000 tasks" // six times as many as rows may be
	if seed.Soak() {
		tasks, shown = 20_000, "20,000 tasks"
	}
	p := crowded(t, tasks)
	w := p.look("/", 1600, 1000)
	w.says("#shown", shown)
	c := eval[cost](w, costOf)
	if c.Rows >= 500 || c.Elements >= 5000 {
		t.Errorf("%v rows, %v elements", c.Rows, c.Elements)
	}
	if c.Requests > float64(tasks/1000+100) || c.Bytes > float64(1000*tasks) {
		t.Errorf("%v requests, %v bytes", c.Requests, c.Bytes)
	}
	if want := strconv.Itoa(tasks); eval[string](w, "document.querySelector('.rows').ariaRowCount") != want {
		t.Errorf("not %s rows are listed", want)
	}
	t.Logf("%v requests, %.1f MB, %v rows, %v elements", c.Requests, c.Bytes/1e6, c.Rows, c.Elements)
}

// BenchmarkList is how long the service takes to tell of 100,000 tasks, in the pages in
// which a page of the browser asks for them: as JSON, and as what the command asks.
func BenchmarkList(b *testing.B) {
	p := crowded(b, many)
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			total := 0
			for token, next := "", true; next; {
				answer := must.Get(http.Get(p.url + "/v1/tasks?brief=true&pageSize=1000&pageToken=" + token))(b)
				text := must.Get(io.ReadAll(answer.Body))(b)
				must.Do(b, answer.Body.Close())
				var list struct {
					Tasks         []json.RawMessage
					NextPageToken string
				}
				must.Do(b, json.Unmarshal(text, &list))
				total += len(list.Tasks)
				token, next = list.NextPageToken, list.NextPageToken != ""
			}
			if total != many {
				b.Fatalf("%d tasks", total)
			}
		}
	})
	b.Run("protobuf", func(b *testing.B) {
		for b.Loop() {
			total := 0
			for r := (&datamovev1.ListTasksRequest{Brief: true, PageSize: 1000}); ; {
				list := must.Get(p.client.ListTasks(b.Context(), r))(b)
				total += len(list.GetTasks())
				if r.PageToken = list.GetNextPageToken(); r.PageToken == "" {
					break
				}
			}
			if total != many {
				b.Fatalf("%d tasks", total)
			}
		}
	})
}
