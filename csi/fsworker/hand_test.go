package fsworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestMain is the hand, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "hand" {
		if err := Serve(context.Background(), methods); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var methods = map[string]Method{
	"double": Typed(func(_ context.Context, n int) (int, error) { return 2 * n, nil }),
	"pid":    Typed(func(context.Context, struct{}) (int, error) { return os.Getpid(), nil }),
	"fail": Typed(func(_ context.Context, kind string) (int, error) {
		return 0, &mover.Error{Op: "try", Location: "here", Err: cmpKind(kind)}
	}),
	"panic": Typed(func(context.Context, struct{}) (int, error) { panic("at the disco") }),
	"hang": Typed(func(_ context.Context, socket string) (int, error) {
		if _, err := net.Dial("unix", socket); err != nil {
			return 0, err
		}
		select {}
	}),
	"stat": Typed(func(_ context.Context, path string) (int64, error) {
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}),
	"exit": Typed(func(context.Context, struct{}) (int, error) { os.Exit(7); return 0, nil }),
	"odd":  func(context.Context, json.RawMessage) (any, error) { return make(chan int), nil },
}

func cmpKind(name string) error {
	if kind := mover.KindNamed(name); kind != nil {
		return kind
	}
	return errors.New(name)
}

// crew is one whose hands are gone at the end of the test.
func crew(t *testing.T) *Pool {
	c := &Pool{}
	t.Cleanup(c.Close)
	return c
}

func pidOf(t *testing.T, c *Pool, lane string) (pid int) {
	t.Helper()
	must.Do(t, c.Call(t.Context(), lane, "pid", struct{}{}, &pid))
	return pid
}

func TestCalls(t *testing.T) {
	c := crew(t)
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() {
			var got int
			if err := c.Call(t.Context(), "a", "double", i, &got); err != nil || got != 2*i {
				t.Errorf("%d: %d, %v", i, got, err)
			}
		})
	}
	calls.Wait()
	if a, b := pidOf(t, c, "a"), pidOf(t, c, "b"); a == b || a != pidOf(t, c, "a") || a == os.Getpid() {
		t.Errorf("lanes a and b are processes %d and %d", a, b)
	}
}

// TestErrors: every kind arrives as what it was, with its text.
func TestErrors(t *testing.T) {
	c := crew(t)
	for _, kind := range mover.Kinds() {
		err := c.Call(t.Context(), "a", "fail", mover.KindName(kind), nil)
		if !errors.Is(err, kind) || err.Error() != "try here: "+kind.Error() {
			t.Errorf("%v came as %v", kind, err)
		}
	}
	for _, row := range []struct {
		method string
		args   any
		kind   error
		says   string
	}{
		{"fail", "of no kind", nil, "of no kind"},
		{"panic", struct{}{}, nil, "at the disco"},
		{"odd", struct{}{}, nil, "can not be sent"},
		{"nonsense", struct{}{}, mover.ErrUnsupported, "nonsense"},
		{"double", "two", mover.ErrUsage, "two"},
		{"double", 2, nil, ""}, // and it goes on
	} {
		err := c.Call(t.Context(), "a", row.method, row.args, nil)
		if row.says == "" {
			must.Tell(t, err)
			continue
		}
		if err == nil || row.kind != nil && !errors.Is(err, row.kind) || row.says != "two" && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", row.method, err)
		}
	}
}

// hanging returns the argument of calls that hang, and what tells once for each that it does.
func hanging(t *testing.T) (socket string, does <-chan struct{}) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l := must.Get(net.Listen("unix", socket))(t)
	t.Cleanup(func() { _ = l.Close() })
	calls := make(chan struct{})
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return // the test is over
			}
			select {
			case calls <- struct{}{}:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return socket, calls
}

// TestHung: who does not answer is killed, the others on its lane are told, and the next call has another one.
func TestHung(t *testing.T) {
	c := crew(t)
	before, other := pidOf(t, c, "a"), pidOf(t, c, "b")
	socket, hangs := hanging(t)
	beside := make(chan error, 1)
	go func() { beside <- c.Call(t.Context(), "a", "hang", socket, nil) }()
	<-hangs
	if err := c.Call(late{t.Context(), hangs}, "a", "hang", socket, nil); !errors.Is(err, mover.ErrTimeout) {
		t.Errorf("%v", err)
	}
	if err := <-beside; !errors.Is(err, mover.ErrTransient) {
		t.Errorf("beside it: %v", err)
	}
	if pidOf(t, c, "a") == before {
		t.Error("the hand that hangs is asked again")
	}
	if pidOf(t, c, "b") != other {
		t.Error("the hand of another lane was killed")
	}
}

// TestDied: a hand that dies by itself is started again.
func TestDied(t *testing.T) {
	c := crew(t)
	pidOf(t, c, "a")
	if err := c.Call(t.Context(), "a", "exit", struct{}{}, nil); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("%v", err)
	}
	for range 2 {
		var got int
		if err := c.Call(t.Context(), "a", "double", 4, &got); err == nil && got == 8 {
			return
		}
	}
	t.Error("it was not started again")
}

func TestClosed(t *testing.T) {
	c := crew(t)
	pidOf(t, c, "a")
	c.Close()
	if err := c.Call(t.Context(), "a", "double", 4, nil); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("%v", err)
	}
}

// TestIdle: a hand that nobody asks is ended, and another one is there for the next call. One that has a call is not.
func TestIdle(t *testing.T) {
	c := crew(t)
	c.Idle = time.Millisecond
	first := pidOf(t, c, "a")
	for limit := time.Now().Add(30 * time.Second); c.working("a") > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it stays")
		}
	}
	if second := pidOf(t, c, "a"); second == first {
		t.Error("it was gone, and answers")
	}
	c.Idle = time.Hour
	hung, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	socket, hangs := hanging(t)
	go func() { ended <- c.Call(hung, "b", "hang", socket, nil) }()
	<-hangs
	busy := pidOf(t, c, "b")
	c.Idle = time.Millisecond
	for range 20 {
		if pidOf(t, c, "b") != busy {
			t.Fatal("it was ended under a call")
		}
		time.Sleep(2 * time.Millisecond)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
