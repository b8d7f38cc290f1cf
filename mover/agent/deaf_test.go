package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/osaccount"
)

// stopped is a worker that a signal has stopped: it reads and writes nothing, and only a kill ends it.
type stopped struct {
	conn  net.Conn
	once  sync.Once
	done  chan struct{}
	crash string
}

func (w *stopped) Conn() net.Conn        { return w.conn }
func (w *stopped) PID() int              { return 1 }
func (w *stopped) Done() <-chan struct{} { return w.done }
func (w *stopped) Crash() string         { return w.crash }
func (w *stopped) Stop(time.Duration) error {
	w.once.Do(func() { close(w.done) })
	return nil
}

// told is a coordinator that hears how leads end.
type told struct {
	agentv1.LinkServiceClient
	ends chan *agentv1.FinishRequest
}

func (l *told) Finish(_ context.Context, r *agentv1.FinishRequest, _ ...grpc.CallOption) (*agentv1.FinishResponse, error) {
	l.ends <- r
	return &agentv1.FinishResponse{}, nil
}

// TestDeaf: a worker that answers no more, from its first word on or later, is killed, and its lead is put back within a bounded time.
func TestDeaf(t *testing.T) {
	for when, says := range map[string]func(net.Conn){
		"before it says anything": func(net.Conn) {},
		"in its work": func(c net.Conn) { // it greets as HTTP/2 does, with no settings
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			go func() { _, _ = io.Copy(io.Discard, c) }()
			_, _ = c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		},
	} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &stopped{done: make(chan struct{})}
				began := time.Now()
				end := servedBy(w, slog.New(slog.DiscardHandler), says)
				if took := time.Since(began); took > time.Minute || !end.GetPutBack() || end.GetEpoch() != 7 || end.GetError() != errDeaf.Error() {
					t.Errorf("after %v: %v", took, end)
				}
			})
		})
	}
}

// TestCrash: the lead of a worker that has crashed fails, its text is that of a fault, and the log has the stack.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := &stopped{done: make(chan struct{}), crash: "panic: nil\n\ngoroutine 7 [running]:\n"}
		close(w.done)
		w.once.Do(func() {})
		end := servedBy(w, slog.New(slog.NewTextHandler(&log, nil)), func(net.Conn) {})
		if end.GetPutBack() || !strings.Contains(end.GetError(), "a fault of datamove") || !strings.Contains(end.GetError(), "panic: nil") {
			t.Errorf("%v", end)
		}
		if !strings.Contains(log.String(), "task=t ") || !strings.Contains(log.String(), "goroutine 7") {
			t.Errorf("the log has %s", log.String())
		}
	})
}

// servedBy has an agent serve a worker until it has ended, and says what the coordinator hears then. The other side of its connection says something.
func servedBy(w *stopped, log *slog.Logger, says func(net.Conn)) *agentv1.FinishRequest {
	here, there := net.Pipe()
	defer there.Close()
	w.conn = here
	link := &told{ends: make(chan *agentv1.FinishRequest, 1)}
	a := &Agent{
		o: Options{Config: func() *config.Config { return &config.Config{} }}, link: link, log: log, turns: newTurns(),
		sessions: map[sessionKey]*session{}, procs: map[string]*process{}, changed: make(chan struct{}, 1),
	}
	a.prestarter.most = func() int { return 0 }
	p := newProcess(a, &pb.Task{Id: "t", Spec: &pb.TaskSpec{}}, &agentv1.Job{})
	p.lead, p.epoch, p.acting = newSession(7), 7, w
	a.running.Add(1)
	go says(there)
	p.serve()
	return <-link.ends
}

// slow is a process that waits to hear what it may reach, and does not answer.
type slow struct{ asked chan struct{} }

func (s *slow) Confine(ctx context.Context, _ sandbox.Confinement, _ func(string)) (Worker, error) {
	close(s.asked)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}
func (s *slow) Stop() error { return nil }

// TestStartsWithoutLock: while a process that was stopped is waited for, the agent goes on telling of itself.
func TestStartsWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{make(chan struct{})}
		a := &Agent{o: Options{Program: []string{""}, Config: func() *config.Config { return &config.Config{} }}, log: slog.New(slog.DiscardHandler), turns: newTurns()}
		a.prestarter.ready = func(sandbox.Options) (Waiting, error) { return s, nil }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		p := newProcess(a, &pb.Task{Id: "t", Spec: &pb.TaskSpec{}}, &agentv1.Job{})
		go func() { ended <- a.run(ctx, p, osaccount.Account{}, sandbox.Confinement{}) }()
		<-s.asked
		if !a.mu.TryLock() {
			t.Fatal("the agent is locked")
		}
		a.mu.Unlock()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		a.running.Wait()
	})
}

// late is a process that is confined after something else has happened.
type late struct {
	process *stopped
	first   func()
}

func (l *late) Confine(context.Context, sandbox.Confinement, func(string)) (Worker, error) {
	l.first()
	return l.process, nil
}
func (l *late) Stop() error { return nil }

// TestStartsTooLate: a process that is ready when a later lead of its task is here, or when the agent leaves, gets no job and is ended.
func TestStartsTooLate(t *testing.T) {
	for what, row := range map[string]struct {
		meanwhile func(a *Agent)
		want      error
	}{
		"a later lead":     {func(a *Agent) { a.add(sessionKey{"t", ""}, newSession(8)) }, mover.ErrHeld},
		"the agent leaves": {func(a *Agent) { a.leave(agentv1.How_HOW_PAUSE) }, errLeaving},
	} {
		t.Run(what, func(t *testing.T) {
			a := &Agent{
				o: Options{Program: []string{""}, Config: func() *config.Config { return &config.Config{} }}, log: slog.New(slog.DiscardHandler), turns: newTurns(),
				sessions: map[sessionKey]*session{}, procs: map[string]*process{}, changed: make(chan struct{}, 1),
			}
			p := newProcess(a, &pb.Task{Id: "t", Spec: &pb.TaskSpec{}}, &agentv1.Job{})
			p.lead, p.epoch = newSession(7), 7
			a.add(sessionKey{"t", ""}, p.lead)
			w := &stopped{done: make(chan struct{})}
			a.prestarter.ready = func(sandbox.Options) (Waiting, error) { return &late{w, func() { row.meanwhile(a) }}, nil }
			if err := a.run(t.Context(), p, osaccount.Account{}, sandbox.Confinement{}); !errors.Is(err, row.want) {
				t.Error(err)
			}
			<-w.Done()
			if a.running.Wait(); len(a.procs) > 0 {
				t.Errorf("processes: %v", a.procs)
			}
		})
	}
}
