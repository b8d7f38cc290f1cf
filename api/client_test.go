package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestAddresses(t *testing.T) {
	for _, row := range []struct{ address, want string }{
		{"unix:relative", "unix:///path or tcp://host:port"},
		{"unix://run/x", "begins with /"},
		{"tcp://host", "unix:///path or tcp://host:port"},
		{"tcp://:7000", "unix:///path or tcp://host:port"},
		{"tcp://host:7000", "needs TLS"},
		{"host:7000", "unix:///path or tcp://host:port"},
		{"dns:///host:7000", "unix:///path or tcp://host:port"},
		{"", "unix:///path or tcp://host:port"},
	} {
		_, err := Dial(t.Context(), row.address, Options{})
		if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", row.address, err)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	path := socket(t)
	_, err := Dial(t.Context(), "unix://"+path, Options{})
	want := "reach unix://" + path + ": can not be reached: dial unix " + path +
		": connect: no such file or directory; is datamoved running? systemctl status datamoved"
	if !errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrNotExist) || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// TestAdviceOn: what is to be looked at follows what has failed.
func TestAdviceOn(t *testing.T) {
	dialing := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, row := range []struct {
		failed error
		want   string
	}{
		{dialing(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "is datamoved running?"},
		{dialing(&net.DNSError{Err: "no such host", Name: "coordinatr", IsNotFound: true}), "is that the name of the host of the service?"},
		{dialing(&net.DNSError{Err: "server misbehaving", Name: "coordinator"}), "is datamoved running?"},
		{fmt.Errorf("handshake: %w", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), "is that its port?"},
		{dialing(os.NewSyscallError("connect", os.ErrPermission)), ""},
		{io.ErrUnexpectedEOF, ""},
		{nil, ""},
	} {
		if got := adviceOn(row.failed); row.want == "" && got != "" || !strings.Contains(got, row.want) {
			t.Errorf("%v: %q, want %q", row.failed, got, row.want)
		}
	}
}

func TestRefused(t *testing.T) {
	refuse := func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", os.ErrPermission)}
	}
	_, err := Dial(t.Context(), "unix:///run/x.sock", Options{Dialer: refuse})
	if !errors.Is(err, mover.ErrPermission) || errors.Is(err, mover.ErrUnreachable) || strings.Contains(err.Error(), "running?") {
		t.Errorf("%v", err)
	}
}

func TestDialIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		why := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if _, err := Dial(ctx, "memory", Options{Dialer: silent}); !errors.Is(err, why) {
			t.Errorf("stopped: %v", err)
		}
		began := time.Now()
		_, err := Dial(t.Context(), "memory", Options{Dialer: silent})
		if took := time.Since(began); err == nil || took != connectTime {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// A listener that is no service of ours is found out at once.
func TestNoService(t *testing.T) {
	on, err := net.Listen("unix", socket(t))
	must.Do(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := on.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 mail.example ESMTP\r\n"))
			_ = conn.Close()
		}
	})
	_, err = Dial(t.Context(), "unix://"+on.Addr().String(), Options{})
	if !errors.Is(err, mover.ErrUnreachable) || strings.Contains(err.Error(), "rpc error") {
		t.Errorf("%v", err)
	}
	must.Do(t, on.Close())
	wg.Wait()
}

// world is a service in memory, in virtual time.
type world struct {
	*service
	mu sync.Mutex // guards on
	on *bufconn.Listener
}

// begin begins to serve; what it returns ends that, and another call serves again.
func (w *world) begin() (kill func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = bufconn.Listen(64 << 10)
	return w.serve(w.on)
}

func (w *world) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.on.DialContext(ctx)
}

func (w *world) client(t *testing.T) *Client {
	return dial(t, "memory", Options{Dialer: w.dial})
}

// What a service does when it dies between receiving and answering is done once.
func TestSubmit(t *testing.T) {
	s, path := newService(), socket(t)
	_, kill := s.atSocket(t, path)
	died := make(chan struct{})
	s.accepted = sync.OnceFunc(func() {
		go func() { kill(); close(died) }()
		<-died
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		<-died
		s.atSocket(t, path)
	})
	c := dial(t, "unix://"+path, Options{})
	task, err := c.Submit(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Source: "/a"}})
	wg.Wait()
	must.Do(t, err)
	if task.Id != "task1" || len(s.tasks) != 1 || task.Spec.Source != "/a" {
		t.Errorf("submitted %v, there are %d tasks", task, len(s.tasks))
	}
	if len(s.keys) != 2 || len(s.keys[0]) < 20 || s.keys[0] != s.keys[1] {
		t.Errorf("it was asked with the keys %q", s.keys)
	}
}

// What does not say that it may be repeated is not, and what does is.
func TestNothingIsSentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		kill := w.begin()
		c := w.client(t)
		w.accepted = kill
		if _, err := c.SubmitTask(t.Context(), &datamovev1.SubmitTaskRequest{}); !errors.Is(err, mover.ErrUnreachable) {
			t.Errorf("submit to a service that dies: %v", err)
		}
		defer w.begin()()
		if len(w.keys) != 1 || len(w.keys[0]) < 20 { // whoever asks again by hand has its key
			t.Errorf("it was submitted with the keys %q", w.keys)
		}

		away := status.Error(codes.Unavailable, "not yet")
		w.errs = []error{away, away, away}
		_, err := c.GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: "task1"})
		must.Do(t, err)
		w.errs = []error{away, away, away}
		changes, err := c.WatchTask(t.Context(), &datamovev1.WatchTaskRequest{Id: "task1"})
		must.Do(t, err)
		_, err = changes.Recv()
		must.Do(t, err)
		w.errs = []error{away, away, away, away}
		if _, err := c.GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: "task1"}); !errors.Is(err, mover.ErrUnreachable) || strings.Contains(err.Error(), "rpc error") {
			t.Errorf("it is repeated for ever, or ends in %v", err)
		}
		must.Do(t, c.Close())
	})
}

func TestRepeatable(t *testing.T) {
	once := []string{"SubmitTask", "AddDataset", "RemoveDataset", "Stage", "Release", "Purge", "AcquireLease", "CreateJoinToken", "PlanPolicy", "ApplyBurst", "IssueIdentity"}
	for _, m := range methods() {
		c := configOf(m)
		if got, want := c.Retry != nil, !slices.Contains(once, string(m.Name())); got != want {
			t.Errorf("%s is repeated: %v", m.FullName(), got)
		}
		if got, want := c.Timeout != "", !m.IsStreamingServer(); got != want {
			t.Errorf("%s ends by itself: %v", m.FullName(), got)
		}
	}
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		defer w.begin()()
		c := w.client(t)
		hang := make(chan struct{})
		w.accepted = func() { <-hang }
		began := time.Now()
		_, err := c.SubmitTask(t.Context(), &datamovev1.SubmitTaskRequest{})
		if took := time.Since(began); !errors.Is(err, mover.ErrTimeout) || took != callTime || err.Error() != "ask memory: context deadline exceeded" {
			t.Errorf("after %v: %v", took, err)
		}
		close(hang)
		must.Do(t, c.Close())
	})

	l := &link{address: "memory"}
	reset := status.Error(codes.Canceled, "stream terminated by RST_STREAM")
	if err := l.explain(t.Context(), reset); !errors.Is(err, mover.ErrTimeout) || errors.Is(err, context.Canceled) {
		t.Errorf("the service ended the call at its deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.explain(ctx, reset); !errors.Is(err, context.Canceled) {
		t.Errorf("we ended it: %v", err)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		defer w.begin()()
		c := w.client(t)
		submit := func(bytes int) error {
			_, err := c.Submit(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Source: strings.Repeat("x", bytes)}})
			return err
		}
		must.Do(t, submit(MaxMessageBytes-100))
		err := submit(MaxMessageBytes)
		if !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "a message of 16.0 MiB; at most 16.0 MiB are taken") || len(w.tasks) != 1 {
			t.Errorf("%v, and there are %d tasks", err, len(w.tasks))
		}
		must.Do(t, c.Close())
	})
}

func TestSubmitKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		defer w.begin()()
		c := w.client(t)
		mine := &datamovev1.SubmitTaskRequest{IdempotencyKey: "mine"}
		other := &datamovev1.SubmitTaskRequest{}
		for _, req := range []*datamovev1.SubmitTaskRequest{mine, mine, other, other} {
			_, err := c.Submit(t.Context(), req)
			must.Do(t, err)
		}
		if len(w.tasks) != 3 || !slices.Equal(w.keys[:2], []string{"mine", "mine"}) || other.IdempotencyKey != "" {
			t.Errorf("there are %d tasks, of the keys %q", len(w.tasks), w.keys)
		}
		must.Do(t, c.Close())
	})
}

func TestSubmitHasPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		kill := w.begin()
		c := w.client(t)
		kill()

		began := time.Now()
		_, err := c.Submit(t.Context(), &datamovev1.SubmitTaskRequest{})
		if took := time.Since(began); !errors.Is(err, mover.ErrUnreachable) || took < patience-2*longestPause || took > patience+longestPause {
			t.Errorf("after %v: %v", took, err)
		}

		again := make(chan func(), 1)
		time.AfterFunc(40*time.Second, func() { again <- w.begin() })
		_, err = c.Submit(t.Context(), &datamovev1.SubmitTaskRequest{})
		must.Do(t, err)
		if len(w.tasks) != 1 {
			t.Errorf("there are %d tasks", len(w.tasks))
		}

		why := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		(<-again)()
		time.AfterFunc(5*time.Second, func() { cancel(why) })
		if _, err = c.Submit(ctx, &datamovev1.SubmitTaskRequest{}); !errors.Is(err, why) {
			t.Errorf("stopped: %v", err)
		}
		must.Do(t, c.Close())
	})
}

// freezer makes connections whose other side can stop, as SIGSTOP does it.
type freezer struct {
	dial func(context.Context) (net.Conn, error)

	mu   sync.Mutex // guards conn
	conn *frozen
}

func (f *freezer) connect(ctx context.Context) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil {
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: os.ErrDeadlineExceeded}
	}
	conn, err := f.dial(ctx)
	if err == nil {
		f.conn = &frozen{Conn: conn, stopped: make(chan struct{}), closed: make(chan struct{})}
	}
	return f.conn, err
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.conn.stopped)
}

// frozen neither takes nor gives anything once it has stopped.
type frozen struct {
	net.Conn
	stopped, closed chan struct{}
	close           sync.Once
}

func (f *frozen) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	select {
	case <-f.stopped:
		<-f.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (f *frozen) Write(p []byte) (int, error) {
	select {
	case <-f.stopped:
		return len(p), nil
	default:
		return f.Conn.Write(p)
	}
}

func (f *frozen) Close() error {
	f.close.Do(func() { close(f.closed) })
	return f.Conn.Close()
}
