package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// When it stops, calls get their answers, streams are cut off so that their listeners
// try again, and nobody holds it up for longer than it may take.
func TestStop(t *testing.T) {
	for name, row := range map[string]struct {
		calls    func(ctx context.Context, tasks datamovev1.TaskServiceClient) error
		code     codes.Code
		from, to time.Duration
	}{
		"a stream": {func(ctx context.Context, tasks datamovev1.TaskServiceClient) error {
			s, err := tasks.WatchTask(ctx, &datamovev1.WatchTaskRequest{Id: "forever"})
			for err == nil {
				_, err = s.Recv()
			}
			return err
		}, codes.Unavailable, 0, 0},
		"a call that takes a while": {func(ctx context.Context, tasks datamovev1.TaskServiceClient) error {
			_, err := tasks.ResumeTask(ctx, &datamovev1.ResumeTaskRequest{Id: "held"})
			return err
		}, codes.OK, 2 * time.Second, 2 * time.Second},
		"a call that takes for ever": {func(ctx context.Context, tasks datamovev1.TaskServiceClient) error {
			_, err := tasks.PauseTask(ctx, &datamovev1.PauseTaskRequest{Id: "forever"})
			return err
		}, codes.Unavailable, 5 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig, remote, _ *pipes) {
				tasks := datamovev1.NewTaskServiceClient(throughPipe(t, remote, r.user("laptop")))
				r.desk.hold = make(chan struct{})
				ended := make(chan error, 1)
				go func() { ended <- row.calls(context.Background(), tasks) }()
				synctest.Wait()
				time.AfterFunc(2*time.Second, func() { close(r.desk.hold) })
				begun := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				r.Stop(ctx)
				if took := time.Since(begun); took < row.from || took > row.to {
					t.Errorf("it took %v", took)
				}
				if err := <-ended; status.Code(err) != row.code {
					t.Errorf("the call: %v", err)
				}
			})
		})
	}
}

// The same by HTTP: an answer is whole, and a stream ends.
func TestStopHTTP(t *testing.T) {
	r := newRig(t)
	r.desk.hold = make(chan struct{})
	c := r.overSocket()
	stream := must.Get(c.Get("http://localhost/v1/tasks/forever:watch"))(t)
	defer stream.Body.Close()
	if first := make([]byte, 10); stream.StatusCode != 200 {
		t.Fatal(stream.Status)
	} else if _, err := io.ReadFull(stream.Body, first); err != nil {
		t.Fatal(err)
	}
	r.desk.take()
	answers := make(chan error, 1)
	go func() {
		_, err := fetch(c, http.MethodPost, "http://localhost/v1/tasks/held:resume", "{}", 200)
		answers <- err
	}()
	eventually(t, "the call is there", func() bool { return len(r.desk.take()) > 0 })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Stop(ctx)
	}()
	eventually(t, "nobody answers", func() bool {
		conn, err := net.Dial("unix", strings.TrimPrefix(r.socket, "unix://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(r.desk.hold)
	<-stopped
	if ctx.Err() != nil {
		t.Error("it waited for the stream")
	}
	if err := <-answers; err != nil {
		t.Errorf("the call: %v", err)
	}
	if rest, err := io.ReadAll(stream.Body); err == nil && !strings.Contains(string(rest), `{"error":{`) {
		t.Errorf("the stream ended as if it was whole: %s", rest)
	}
}
