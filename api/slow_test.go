package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// slowly connects to a gateway in memory, whose time is virtual, and calls test with
// the connection.
func slowly(t *testing.T, test func(t *testing.T, w *world, conn net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{service: newService()}
		defer w.begin()()
		c := w.client(t)
		gateway := must.Get(Gateway(t.Context(), c.Conn(), GatewayOptions{}))(t)
		on, server := bufconn.Listen(4<<10), &http.Server{Handler: gateway}
		var wg sync.WaitGroup
		wg.Go(func() { _ = server.Serve(on) }) // until Close
		conn := must.Get(on.DialContext(t.Context()))(t)
		test(t, w, conn)
		must.Do(t, conn.Close())
		must.Do(t, server.Close())
		wg.Wait()
		must.Do(t, c.Close())
	})
}

// Who sends a body slower than slowly is told so, and was all that waited; also
// when it would have been refused in any case.
func TestSlowBody(t *testing.T) {
	for _, row := range []struct {
		kind string
		code int
	}{{"application/json", http.StatusRequestTimeout}, {"text/plain", http.StatusUnsupportedMediaType}} {
		slowly(t, func(t *testing.T, w *world, conn net.Conn) {
			_, err := fmt.Fprintf(conn, "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n{", row.kind)
			must.Do(t, err)
			began := time.Now()
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			must.Do(t, err)
			defer answer.Body.Close()
			if took := time.Since(began); answer.StatusCode != row.code || took > stallTime {
				t.Errorf("HTTP %d after %v", answer.StatusCode, took)
			}
			if asked, _ := w.lastAsked(); asked != nil {
				t.Errorf("arrives as %v", asked)
			}
		})
	}
}

// Who does not read what he watches is let go of, and costs no more than what the
// connections hold until then.
func TestSlowReader(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, conn net.Conn) {
		w.submit(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Source: strings.Repeat("x", 1<<10)}})
		_, err := fmt.Fprintf(conn, "GET /v1/tasks/task1:watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
		must.Do(t, err)
		synctest.Wait()
		began, gone := time.Now(), make(chan time.Duration, 1)
		go func() {
			w.watchers.Wait()
			gone <- time.Since(began)
		}()
		for range 2000 { // 20 s of changes, and then silence
			w.change("task1", become(running))
			time.Sleep(10 * time.Millisecond)
		}
		select {
		case after := <-gone:
			if after < stallTime || after > stallTime+20*time.Second {
				t.Errorf("let go of after %v", after)
			}
		case <-time.After(time.Hour):
			t.Error("still there after an hour")
			must.Do(t, conn.Close())
			<-gone
		}
	})
}

// The time for a body ends with the body: what a slow one asks for may be slow, too.
func TestSlowCall(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, conn net.Conn) {
		w.accepted = func() { time.Sleep(stallTime * 2 / 3) }
		_, err := fmt.Fprintf(conn, "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{")
		must.Do(t, err)
		time.Sleep(stallTime * 2 / 3)
		_, err = fmt.Fprint(conn, "}")
		must.Do(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must.Do(t, err)
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("HTTP %d", answer.StatusCode)
		}
	})
}

// Who reads a large answer slowly, and goes on reading, gets it.
func TestLargeAnswer(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, conn net.Conn) {
		w.submit(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Source: strings.Repeat("x", 1<<20)}})
		_, err := fmt.Fprintf(conn, "GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n")
		must.Do(t, err)
		began := time.Now()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must.Do(t, err)
		defer answer.Body.Close()
		for err == nil {
			time.Sleep(10 * time.Second)
			_, err = io.CopyN(io.Discard, answer.Body, 32<<10)
		}
		if took := time.Since(began); err != io.EOF || took < 5*stallTime {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// Who is quiet and reads is kept, for as long as it takes.
func TestPatientReader(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, conn net.Conn) {
		w.submit(t.Context(), &datamovev1.SubmitTaskRequest{})
		_, err := fmt.Fprintf(conn, "GET /v1/tasks/task1:watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
		must.Do(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must.Do(t, err)
		defer answer.Body.Close()
		in := bufio.NewReader(answer.Body)
		readUntil(t, in, "\n")
		time.AfterFunc(24*time.Hour, func() { w.change("task1", become(done)) })
		if one := readUntil(t, in, "\n"); !strings.Contains(one, "TASK_STATE_DONE") {
			t.Errorf("a day later: %q", one)
		}
	})
}
