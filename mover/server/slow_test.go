package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// bubble is a door whose connections are pipes, so that time is the test's.
func bubble(t *testing.T, body func(t *testing.T, r *rig, remote, page *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		remote, page := newPipes("tcp"), newPipes("tcp")
		r := unstarted(t, func(o *Options) {
			o.Listen, o.Page, o.Activated = nil, "", []net.Listener{remote}
			o.pair = func() (net.Conn, net.Conn, error) { a, b := net.Pipe(); return a, b, nil }
		})
		r.entrances = append(r.entrances, entrance{Listener: page, page: true})
		r.run()
		body(t, r, remote, page)
	})
}

// ends returns how long a connection lasts from now on. What comes is read.
func ends(conn net.Conn) time.Duration {
	begun := time.Now()
	_, _ = io.Copy(io.Discard, conn)
	return time.Since(begun)
}

// Who comes and says nothing, or too little, or too slowly, does not stay.
//
//safety:8 callers that send nothing, or a letter a second, or never take the answer (slow-loris)
func TestSlowly(t *testing.T) {
	request := "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: "
	h2 := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for name, row := range map[string]struct {
		overTLS bool
		say     func(net.Conn)
		most    time.Duration
	}{
		"nothing instead of a handshake":   {false, func(net.Conn) {}, 11 * time.Second},
		"half a handshake":                 {false, func(c net.Conn) { say(c, "\x16\x03\x01\x02\x00", 0) }, 11 * time.Second},
		"nothing behind the handshake":     {true, func(net.Conn) {}, 11 * time.Second},
		"two letters":                      {true, func(c net.Conn) { say(c, "PR", 0) }, 11 * time.Second},
		"half a preface of HTTP/2":         {true, func(c net.Conn) { say(c, h2[:10], 0) }, 21 * time.Second},
		"the preface and no more":          {true, func(c net.Conn) { say(c, h2, 0) }, 21 * time.Second},
		"the preface, a letter a second":   {true, func(c net.Conn) { say(c, h2, time.Second) }, 21 * time.Second},
		"headers of HTTP/1, slowly":        {true, func(c net.Conn) { say(c, request+strings.Repeat("x", 9999), time.Second) }, 21 * time.Second},
		"HTTP/2 that never answers a ping": {true, func(c net.Conn) { say(c, h2, 0); settings(c) }, 31 * time.Second},
		"half a frame of HTTP/2":           {true, halfHeaders, 31 * time.Second},
		"headers that never end":           {true, endlessHeaders, 31 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig, remote, _ *pipes) {
				conn := remote.dial()
				if row.overTLS {
					secure := tls.Client(conn, r.tlsAs(nil))
					must.Do(t, secure.HandshakeContext(t.Context()))
					conn = secure
				}
				var talk sync.WaitGroup
				talk.Go(func() { row.say(conn) })
				if lasted := ends(conn); lasted > row.most || lasted < 10*time.Second {
					t.Errorf("it stayed for %v", lasted)
				}
				synctest.Wait()
				if n := r.arrivals.size() + r.strangers.size() + r.remotes.size(); n != 0 {
					t.Errorf("%d connections are still counted", n)
				}
				_ = conn.Close()
				talk.Wait()
			})
		})
	}
}

// say writes letter by letter, until nobody listens.
func say(c net.Conn, text string, pause time.Duration) {
	if pause == 0 {
		_, _ = io.WriteString(c, text)
		return
	}
	for i := range len(text) {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

func settings(c net.Conn) *http2.Framer {
	f := http2.NewFramer(c, nil)
	_ = f.WriteSettings()
	return f
}

func halfHeaders(c net.Conn) {
	say(c, http2.ClientPreface, 0)
	settings(c)
	say(c, "\x00\x01\x00\x01\x04\x00\x00\x00\x01half", 0)
}

// endlessHeaders sends a block of headers that goes on and on.
func endlessHeaders(c net.Conn) {
	say(c, http2.ClientPreface, 0)
	f := settings(c)
	if f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: nil}) != nil {
		return
	}
	for f.WriteContinuation(1, false, []byte("\x00\x01a\x01b")) == nil {
		time.Sleep(time.Second)
	}
}

//safety:8 with TestSlowly
func TestSlowlyOnThePage(t *testing.T) {
	for name, row := range map[string]struct {
		text  string
		pause time.Duration
	}{
		"nothing":           {"", 0},
		"half a request":    {"GET / HT", 0},
		"headers, slowly":   {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 999), time.Second},
		"a body that never": {"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *rig, _, page *pipes) {
				conn := page.dial()
				var talk sync.WaitGroup
				talk.Go(func() { say(conn, row.text, row.pause) })
				if lasted := ends(conn); lasted > 61*time.Second {
					t.Errorf("it stayed for %v", lasted)
				}
				_ = conn.Close()
				talk.Wait()
			})
		})
	}
}

// A request whose message never comes ends with the deadline of its method.
//
//safety:8 with TestSlowly
func TestMessageNeverComes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig, remote, _ *pipes) {
		config := r.user("laptop")
		conn := tls.Client(remote.dial(), config)
		must.Do(t, conn.HandshakeContext(t.Context()))
		begun := time.Now()
		f := http2.NewFramer(conn, conn)
		var writing sync.Mutex
		got := make(chan time.Duration, 1)
		go func() { // answers pings, as who is alive does, and waits for the end of the call
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				switch frame := frame.(type) {
				case *http2.PingFrame:
					if !frame.IsAck() {
						writing.Lock()
						_ = f.WritePing(true, frame.Data)
						writing.Unlock()
					}
				case *http2.HeadersFrame, *http2.RSTStreamFrame:
					select {
					case got <- time.Since(begun):
					default:
					}
				}
			}
		}()
		writing.Lock()
		say(conn, http2.ClientPreface, 0)
		_ = f.WriteSettings()
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headersOf(datamovev1.AdminService_GetInfo_FullMethodName), EndHeaders: true})
		writing.Unlock()
		if after := <-got; after != time.Minute {
			t.Errorf("ended after %v", after)
		}
		synctest.Wait() // the handler goes after the frame that says so
		if n := r.callers.open(); n != 0 {
			t.Errorf("%d calls are open", n)
		}
		_ = conn.Close()
	})
}

// headersOf are those of a call.
func headersOf(method string) []byte {
	var b strings.Builder
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", method}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	return []byte(b.String())
}

// open is how many calls are.
func (c *callers) open() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.of {
		n += u.open
	}
	return n
}

// A call has an end also when its caller asks for none, and a stream may go on.
//
//safety:8 with TestSlowly
func TestDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig, remote, _ *pipes) {
		conn := throughPipe(t, remote, r.user("laptop"))
		tasks := datamovev1.NewTaskServiceClient(conn)
		begun := time.Now()
		_, err := tasks.PauseTask(context.Background(), &datamovev1.PauseTaskRequest{Id: "forever"})
		if took := time.Since(begun); status.Code(err) != codes.DeadlineExceeded || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		s, err := tasks.WatchTask(ctx, &datamovev1.WatchTaskRequest{Id: "forever"})
		for err == nil {
			_, err = s.Recv()
		}
		if took := time.Since(begun); took < time.Hour {
			t.Errorf("a stream ended after %v: %v", took, err)
		}
	})
}

func throughPipe(t *testing.T, to *pipes, config *tls.Config) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///pipe", grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return to.dial(), nil }))
	must.Do(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A connection by certificate ends when the certificate does, in the middle of a stream.
func TestConnectionEndsWithCertificate(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig, remote, _ *pipes) {
		conn := throughPipe(t, remote, r.user("laptop"))
		begun := time.Now()
		s, err := datamovev1.NewTaskServiceClient(conn).WatchTask(context.Background(), &datamovev1.WatchTaskRequest{Id: "forever"})
		for err == nil {
			_, err = s.Recv()
		}
		if took := time.Since(begun); status.Code(err) != codes.Unavailable || took > 24*time.Hour {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// Nobody has half a minute to join, and no more.
func TestStrangersDoNotStay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig, remote, _ *pipes) {
		conn := throughPipe(t, remote, r.tlsAs(nil))
		if _, err := agentv1.NewEnrollServiceClient(conn).Join(context.Background(), &agentv1.JoinRequest{Name: "n"}); err != nil {
			t.Fatal(err)
		}
		if n := r.strangers.size(); n != 1 {
			t.Fatalf("%d strangers", n)
		}
		time.Sleep(strangerStay + time.Second)
		synctest.Wait()
		if n := r.strangers.size(); n != 0 {
			t.Errorf("%d strangers are still there", n)
		}
	})
}

// An answer that nobody takes does not hold a connection for ever.
//
//safety:8 with TestSlowly
func TestAnswerNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T, _ *rig, _, page *pipes) {
		conn := page.dial()
		begun := time.Now()
		_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
		first, err := bufio.NewReaderSize(conn, 16).ReadByte()
		if err != nil || first != 'H' {
			t.Fatal(err)
		}
		time.Sleep(slowTime + time.Second)
		synctest.Wait()
		_, err = io.Copy(io.Discard, conn)
		if took := time.Since(begun); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || took > time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		_ = conn.Close()
	})
}

// A caller that does not read its answers gets no more of them when it has too many, on whatever connections. When it has read, or a
// connection is gone, it does again.
//
//safety:8 answers that are asked for and never read, on many connections
func TestAnswersNotRead(t *testing.T) {
	const large, most = 300 << 10, 1 << 20
	for _, row := range []struct {
		name string
		then func(t *testing.T, asked []grpc.ClientStream, conns []*grpc.ClientConn)
	}{
		{"read", func(t *testing.T, asked []grpc.ClientStream, _ []*grpc.ClientConn) {
			for _, s := range asked {
				must.Do(t, s.RecvMsg(&datamovev1.Task{}))
			}
		}},
		{"gone", func(t *testing.T, _ []grpc.ClientStream, conns []*grpc.ClientConn) {
			for _, c := range conns {
				must.Do(t, c.Close())
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig, remote, _ *pipes) {
				r.Server.limits.Unread = most
				request := &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Source: strings.Repeat("x", large)}}
				other := datamovev1.NewTaskServiceClient(throughPipe(t, remote, r.user("laptop")))
				var asked []grpc.ClientStream
				var conns []*grpc.ClientConn
				for range 2 * most / large {
					conn := throughPipe(t, remote, r.user("laptop"))
					conns = append(conns, conn)
					s := must.Get(conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, datamovev1.TaskService_SubmitTask_FullMethodName,
						grpc.StaticMethod()))(t)
					must.Do(t, errors.Join(s.SendMsg(request), s.CloseSend()))
					synctest.Wait()
					asked = append(asked, s)
				}
				if held := r.callers.unread("person ada"); held < most || held > most+large+1<<10 {
					t.Errorf("%d bytes of answers wait, want %d and one answer more at most", held, most)
				}
				if _, err := other.SubmitTask(t.Context(), request); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("a caller that does not read is answered: %v", err)
				}
				row.then(t, asked[:most/large+1], conns)
				synctest.Wait()
				if held := r.callers.unread("person ada"); held != 0 {
					t.Errorf("%d bytes of answers are still counted", held)
				}
				_, err := other.SubmitTask(t.Context(), request)
				must.Do(t, err)
			})
		})
	}
}

// Of a client that is killed while it sends a task nothing is left: no call, no connection, and no task.
//
//safety:8 with TestSlowly
func TestHalfASubmission(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig, remote, _ *pipes) {
		conn := tls.Client(remote.dial(), r.user("laptop"))
		must.Do(t, conn.HandshakeContext(t.Context()))
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		f := http2.NewFramer(conn, nil)
		say(conn, http2.ClientPreface, 0)
		must.Do(t, errors.Join(f.WriteSettings(),
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headersOf(datamovev1.TaskService_SubmitTask_FullMethodName), EndHeaders: true}),
			f.WriteData(1, false, []byte("\x00\x00\x00\x10\x00half of a task"))))
		synctest.Wait()
		if calls, conns := r.callers.open(), r.remotes.size(); calls == 0 || conns != 1 {
			t.Fatalf("%d calls on %d connections", calls, conns)
		}
		_ = conn.NetConn().Close()
		synctest.Wait()
		if calls, conns, asked := r.callers.open(), r.remotes.size(), r.desk.take(); calls+conns+len(asked) != 0 {
			t.Errorf("%d calls, %d connections and %d tasks are left", calls, conns, len(asked))
		}
	})
}
