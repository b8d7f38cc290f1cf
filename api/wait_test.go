package api

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

const (
	queued  = datamovev1.TaskState_TASK_STATE_QUEUED
	running = datamovev1.TaskState_TASK_STATE_RUNNING
	done    = datamovev1.TaskState_TASK_STATE_DONE
)

// become returns a change to a state.
func become(state datamovev1.TaskState) func(*datamovev1.Task) {
	return func(t *datamovev1.Task) { t.State = state }
}

// Who waits for a task hears of its end although the service was started anew.
func TestWait(t *testing.T) {
	s, path := newService(), socket(t)
	s.submit(t.Context(), &datamovev1.SubmitTaskRequest{})
	_, kill := s.atSocket(t, path)
	c := dial(t, "unix://"+path, Options{})

	var wg sync.WaitGroup
	defer wg.Wait()
	var heard []datamovev1.TaskState
	last, err := c.Wait(t.Context(), "task1", func(task *datamovev1.Task) {
		heard = append(heard, task.State)
		switch {
		case len(heard) == 1:
			s.change("task1", become(running))
		case len(heard) == 2:
			wg.Go(func() {
				kill()
				s.change("task1", become(done))
				s.atSocket(t, path)
			})
		}
	})
	must.Do(t, err)
	if last.State != done || last.Revision != 3 || !slices.Equal(heard, []datamovev1.TaskState{queued, running, done}) {
		t.Errorf("heard %v, then %v", heard, last)
	}
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		kill := w.begin()
		c := w.client(t)
		w.submit(t.Context(), &datamovev1.SubmitTaskRequest{})

		_, err := c.Wait(t.Context(), "other", nil)
		if !errors.Is(err, mover.ErrNotExist) || err.Error() != "find task/other: file does not exist" {
			t.Errorf("a task that is not there: %v", err)
		}

		why := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Hour, func() { cancel(why) })
		if _, err := c.Wait(ctx, "task1", nil); !errors.Is(err, why) {
			t.Errorf("stopped: %v", err)
		}

		time.AfterFunc(time.Hour, kill) // and nobody comes back
		began := time.Now()
		_, err = c.Wait(t.Context(), "task1", nil)
		if took := time.Since(began) - time.Hour; !errors.Is(err, mover.ErrUnreachable) || took > patience+longestPause {
			t.Errorf("%v after the service went: %v", took, err)
		}
		must.Do(t, c.Close())
	})
}

// A service that is stopped, and so answers nothing, counts as one that is away.
func TestWaitNoticesSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		defer w.begin()()
		w.submit(t.Context(), &datamovev1.SubmitTaskRequest{})
		frozen := &freezer{dial: w.dial}
		c := dial(t, "memory", Options{Dialer: frozen.connect})
		time.AfterFunc(time.Minute, frozen.freeze)
		began := time.Now()
		_, err := c.Wait(t.Context(), "task1", nil)
		if took := time.Since(began) - time.Minute; !errors.Is(err, mover.ErrUnreachable) || took < pingTimeout || took > pingEvery+pingTimeout+2*patience {
			t.Errorf("%v after the service stopped: %v", took, err)
		}
		must.Do(t, c.Close())
	})
}

// What a service says of the past, as one does that catches up, is not told.
func TestWaitGoesForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		defer w.begin()()
		c := w.client(t)
		w.submit(t.Context(), &datamovev1.SubmitTaskRequest{})
		steps := []func(*datamovev1.Task){
			func(t *datamovev1.Task) { t.State, t.Revision = running, 6 },
			func(t *datamovev1.Task) { t.State, t.Revision = done, 3 },
			func(t *datamovev1.Task) { t.State, t.Revision = done, 8 },
		}
		for i, step := range steps {
			time.AfterFunc(time.Duration(i+1)*time.Second, func() { w.change("task1", step) })
		}
		var heard []uint64
		last := must.Get(c.Wait(t.Context(), "task1", func(task *datamovev1.Task) { heard = append(heard, task.Revision) }))(t)
		if last.Revision != 9 || !slices.Equal(heard, []uint64{1, 7, 9}) {
			t.Errorf("heard revisions %d, then %v", heard, last)
		}
		must.Do(t, c.Close())
	})
}

func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		defer w.begin()()
		c := w.client(t)
		var want []string
		for range 5 {
			task := w.submit(t.Context(), &datamovev1.SubmitTaskRequest{IdempotencyKey: time.Now().String()})
			want = append(want, task.Id)
			time.Sleep(time.Second)
		}
		req := &datamovev1.ListTasksRequest{Project: "vision"}
		var got []string
		for task, err := range c.Tasks(t.Context(), req) {
			must.Do(t, err)
			if got = append(got, task.Id); len(got) == 2 { // the last of its page
				synctest.Wait()
				if last, _ := w.lastAsked(); last.(*datamovev1.ListTasksRequest).PageToken != "2" {
					t.Errorf("the next page is not on its way: %v", last)
				}
			}
		}
		if !slices.Equal(got, want) || req.PageToken != "" {
			t.Errorf("listed %q, want %q", got, want)
		}
		got = nil
		for task, err := range c.Tasks(t.Context(), nil) {
			must.Do(t, err)
			if got = append(got, task.Id); len(got) == 3 {
				break // no more is asked for
			}
		}
		last, _ := w.lastAsked()
		if token := last.(*datamovev1.ListTasksRequest).PageToken; token != "2" || !slices.Equal(got, want[:3]) {
			t.Errorf("listed %q, and asked for page %q after it was enough", got, token)
		}
		for _, err := range c.Tasks(t.Context(), &datamovev1.ListTasksRequest{PageToken: "x"}) {
			if !errors.Is(err, mover.ErrUsage) {
				t.Errorf("a bad token: %v", err)
			}
		}
		for _, err := range c.Agents(t.Context(), nil) {
			if !errors.Is(err, mover.ErrUnsupported) {
				t.Errorf("a service without agents: %v", err)
			}
		}
		must.Do(t, c.Close())
	})
}

// late is a context whose timer fires after its time is up.
type late struct {
	context.Context
	end time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.end, true }

// The service has a timer of its own: that its answer was faster changes nothing.
func TestWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("waited long enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		p := pauses{until: time.Now().Add(time.Hour)}
		if err := p.again(late{ctx, time.Now()}, FromStatus(ToStatus(context.DeadlineExceeded))); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	})
}
