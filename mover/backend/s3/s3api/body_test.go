package s3api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
)

// narrow is a listener whose connections take little before it is read.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetReadBuffer(64 << 10)
	}
	return c, err
}

func dialNarrow(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := dialWide(ctx, network, addr)
	if err == nil {
		err = c.(*wideConn).SetWriteBuffer(1 << 20)
	}
	return c, err
}

// Who waits for a part to be stored knows how much of that the bytes were on their way:
// at least until the server has read all but what both ends of the connection hold, and
// not when it has them all and does not answer.
func TestSending(t *testing.T) {
	const size, held = 32 << 20, 8 << 20 // of the part; more than the connection holds
	for name, row := range map[string]struct{ each, then time.Duration }{
		"bytes go slowly":         {each: 5 * time.Millisecond},
		"the server answers late": {then: time.Second},
		"both":                    {each: 2 * time.Millisecond, then: 200 * time.Millisecond},
	} {
		for secure, start := range map[bool]func(*httptest.Server){false: (*httptest.Server).Start, true: (*httptest.Server).StartTLS} {
			var read, quiet time.Duration // until all but held was read; from the last byte to the answer
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				var begun time.Time // when it has the first bytes: the header may be long before them
				for got, n := int64(0), int64(1); n > 0; got += n {
					n, _ = io.CopyN(io.Discard, r.Body, 512<<10)
					switch got + n {
					case n:
						begun = time.Now()
					case size - held:
						read = time.Since(begun)
					}
					time.Sleep(row.each)
				}
				begun = time.Now()
				time.Sleep(row.then)
				quiet = time.Since(begun)
			}))
			server.Listener = narrow{server.Listener}
			start(server)
			tr := newTransport(1, time.Minute, secure, nil)
			tr.base.DialContext = dialNarrow
			if secure {
				tr.base.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
			}
			ctx, r := withReply(t.Context())
			r.data = make([]byte, size)
			req := must.Get(http.NewRequestWithContext(ctx, http.MethodPut, server.URL, (&Put{Data: r.data}).reader()))(t)
			req.ContentLength = size
			resp := must.Get(tr.RoundTrip(req))(t)
			resp.Body.Close()
			tr.base.CloseIdleConnections()
			server.Close()
			sending, all := (&Client{transport: tr}).Sending()
			if read == 0 || sending < read || sending+quiet/2 > all { // it hears a little late that the last byte was taken
				t.Errorf("%s, TLS %v: it was sending for %v of %v; the server had nearly all after %v, and did not answer for %v", name, secure, sending, all, read, quiet)
			}
		}
	}
}

// TestGivenBeforeTheServerHasIt: that a request is given whole is known before the server can have it: a caller that stops at that instant waits for the answer.
func TestGivenBeforeTheServerHasIt(t *testing.T) {
	const text = "a part"
	watched := func() *watchdog {
		w := newWatchdog(time.Hour, func(error) {})
		t.Cleanup(func() { w.timer.Stop() })
		return w
	}
	given := func(w *watchdog) bool {
		select {
		case <-w.given:
			return true
		default:
			return false
		}
	}
	b := &sentBody{from: io.NopCloser(strings.NewReader(text)), left: int64(len(text)), watch: watched()}
	for read := 1; read <= len(text); read++ {
		must.Get(b.Read(make([]byte, 1)))(t)
		if got := given(b.watch); got != (read == len(text)) {
			t.Errorf("%d bytes are read of %d, and it is given: %v", read, len(text), got)
		}
	}
	server := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer server.Close()
	b = &sentBody{data: []byte(text), watch: watched()}
	known := make(chan bool, 1)
	go func() {
		c, err := server.Accept()
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, len(text)))
			_ = c.Close()
		}
		known <- err == nil && given(b.watch)
	}()
	c := must.Get(dialWide(t.Context(), "tcp", server.Addr().String()))(t)
	defer c.Close()
	must.Get(c.(*wideConn).ReadFrom(&io.LimitedReader{R: b, N: int64(len(text))}))(t)
	if !<-known {
		t.Error("the server has it all, and it is not given")
	}
}

// TestSignerOfOneWhoGoes: keys that do not come are not waited for by somebody who stops.
func TestSignerOfOneWhoGoes(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	gone := errors.New("another one leads")
	tr := newTransport(1, time.Minute, false, nil)
	tr.sign = func(r *http.Request) error {
		stop(gone)
		<-r.Context().Done()
		return context.Cause(r.Context())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://127.0.0.1:1/", http.NoBody)
	must.Do(t, err)
	resp, err := tr.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, gone) {
		t.Errorf("it ended with %v", err)
	}
}
