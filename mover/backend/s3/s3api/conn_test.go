package s3api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"datamove.dev/test/must"
)

// slowly writes p as a slow link would bring it.
func slowly(w http.ResponseWriter, p []byte) {
	out := http.NewResponseController(w)
	for len(p) > 0 {
		n := min(16<<10, len(p))
		_, _ = w.Write(p[:n])
		_ = out.Flush()
		p = p[n:]
		time.Sleep(time.Millisecond)
	}
}

// counted counts the reads of a connection that brought something.
type counted struct {
	net.Conn
	reads *int
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		*c.reads++
	}
	return n, err
}

// A body that comes slowly wakes its reader seldom, and is read to its end: of
// every length, in chunks as well, one after the other on one connection, and when
// the server ends it early.
func TestPatientReader(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 2<<16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n, short int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d/%d", &n, &short)
		if r.URL.RawQuery == "" { // else in chunks
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		slowly(w, data[:n-short])
	}))
	defer server.Close()
	reads, dials := 0, 0
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		c, err := dialWide(ctx, network, addr)
		return counted{c, &reads}, err
	}}}
	defer client.CloseIdleConnections()
	get := func(path string) ([]byte, error) {
		t.Helper()
		resp, err := client.Get(server.URL + path)
		must.Do(t, err)
		defer resp.Body.Close()
		got := make([]byte, len(data)+1)
		n, err := io.ReadFull(resp.Body, got)
		return got[:n], err
	}
	for _, n := range []int{len(data), 1, 300_000, 5000, leastMark, leastMark + 1, mostMark + 1, len(data) - 1} {
		for _, form := range []string{"", "?chunks"} {
			before := reads
			got, err := get(fmt.Sprintf("/%d/0%s", n, form))
			if err != io.ErrUnexpectedEOF || !bytes.Equal(got, data[:n]) {
				t.Errorf("%d bytes%s: %d came: %v", n, form, len(got), err)
			}
			if most := len(data) / (16 << 10) / 2; form == "" && reads-before > most {
				t.Errorf("%d bytes in pieces of 16 KiB woke the reader %d times", n, reads-before)
			}
		}
	}
	if dials != 1 {
		t.Errorf("there were %d connections", dials)
	}
	if got, err := get(fmt.Sprintf("/%d/%d", len(data), 100_000)); err != io.ErrUnexpectedEOF || len(got) != len(data)-100_000 {
		t.Errorf("of a body that ends early %d bytes came: %v", len(got), err)
	}
}

// What comes over TLS is read when it is there, also behind much that came fast: TLS reads
// into a buffer of its own, which may have room for more than an answer has.
func TestTLSIsNotPatient(t *testing.T) {
	const long, short = 32 << 20, 2449
	server := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer server.Close()
	go func() {
		c, err := server.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for sent := 0; sent < long && err == nil; sent += long / 32 {
			_, err = c.Write(make([]byte, long/32))
			time.Sleep(patience / 8) // so that there is a rate
		}
		if _, err = c.Read(make([]byte, 1)); err == nil {
			_, _ = c.Write(make([]byte, short))
			_, _ = c.Read(make([]byte, 1)) // the end
		}
	}()
	c := must.Get(newTransport(1, time.Minute, true, nil).base.DialContext(t.Context(), "tcp", server.Addr().String()))(t)
	defer c.Close()
	buffer := make([]byte, leastMark)
	for got := 0; got < long; {
		n, err := c.Read(buffer)
		if err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		got += n
	}
	if _, err := c.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := c.Read(buffer); n == 0 || err != nil {
		t.Errorf("of %d bytes %d were read: %v", short, n, err)
	}
}
