package rig

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"datamove.dev/mover/agent"
	"datamove.dev/mover/checksum"
	"datamove.dev/mover/p2p/peer"
	"datamove.dev/mover/server/pki"
	"datamove.dev/mover/telemetry"
	"datamove.dev/test/must"
)

// Peers are the ends at which the agents of a cluster give each other what they stage.
type Peers struct {
	Lies map[string]*atomic.Int64 // the agents that give wrong bytes, and how often they did

	t         testing.TB
	network   bool // the addresses are of this host; else connections are in memory
	authority *pki.Authority

	mu        sync.Mutex
	seen      map[string]*telemetry.Metrics // guarded by mu, as all below
	listeners map[string]*pipes             // by address
}

// NewPeers makes them for [New], or for [Processes].
func NewPeers(t testing.TB, processes bool) *Peers {
	authority := must.Get(pki.OpenAuthority(filepath.Join(t.TempDir(), "authority")))(t)
	return &Peers{t: t, network: processes, authority: authority, Lies: map[string]*atomic.Int64{}, seen: map[string]*telemetry.Metrics{}, listeners: map[string]*pipes{}}
}

func (p *Peers) metrics(name string) *telemetry.Metrics {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[name] = telemetry.New(telemetry.Options{Version: "test", Bounds: telemetry.Bounds{Tiers: []string{"shared", "scratch"}}})
	return p.seen[name]
}

// of serves for an agent, over TLS.
func (p *Peers) of(name string) *agent.Peers {
	if p == nil {
		return nil
	}
	id := pki.Identity{Role: pki.Agent, Name: name}
	keeper, err := pki.OpenStore(p.t.TempDir(), id, pki.StoreOptions{})
	if err == nil {
		err = keeper.Obtain(p.t.Context(), func(_ context.Context, request []byte) ([]byte, []byte, error) {
			i, err := p.authority.Issue(request, id, 0)
			return i.Certificate, i.Authority, err
		})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	l, host, port := p.listen(name)
	server := peer.NewServer(peer.Options{})
	secure := tls.NewListener(l, pki.PeerServerTLS(keeper.Certificate))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if n := p.Lies[name]; n != nil {
			_ = http.Serve(secure, lying(server, n))
			return
		}
		_ = server.Serve(secure)
	}()
	p.t.Cleanup(func() { _ = l.Close(); <-ended })
	return &agent.Peers{Server: server, Port: port, Host: host, Authorities: keeper.AuthorityCertificates}
}

func (p *Peers) listen(name string) (l net.Listener, host string, port int) {
	if p.network {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.t.Fatal(err)
		}
		return l, "127.0.0.1", l.Addr().(*net.TCPAddr).Port
	}
	const memoryPort = 1
	p.mu.Lock()
	defer p.mu.Unlock()
	made := &pipes{make(chan net.Conn), make(chan struct{}), new(sync.Once)}
	p.listeners[net.JoinHostPort(name, strconv.Itoa(memoryPort))] = made
	return made, name, memoryPort
}

// dial connects in memory.
func (p *Peers) dial(ctx context.Context, _, address string) (net.Conn, error) {
	p.mu.Lock()
	l := p.listeners[address]
	p.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("no agent is at %s", address)
	}
	return l.dial(ctx)
}

// pipes is a listener in memory. On connections of bufconn a deadline that was taken back may pass all the same: a server of HTTP takes one back for
// each request, and would close some connections instead of answering.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
	once    *sync.Once
}

func (l *pipes) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.dialled <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialled:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// lying is a server that gives wrong bytes, with a checksum that fits.
func lying(server http.Handler, n *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		server.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		if rec.Code == http.StatusOK {
			data := body[:len(body)-8]
			data[len(data)/2] ^= 1
			binary.LittleEndian.PutUint64(body[len(data):], checksum.Update(0, data))
			n.Add(1)
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body)
	})
}

// Total is what all agents together count of a metric.
func (p *Peers) Total(metric string, labels ...string) (sum float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.seen {
		rec := httptest.NewRecorder()
		m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	lines:
		for s := bufio.NewScanner(rec.Body); s.Scan(); {
			line := s.Text()
			if !strings.HasPrefix(line, metric+"{") {
				continue
			}
			for _, l := range labels {
				if !strings.Contains(line, l) {
					continue lines
				}
			}
			n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				p.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// SourceBytes is how much was read from the shared tier.
func (p *Peers) SourceBytes() float64 {
	return p.Total("datamove_tier_bytes_total", `tier="shared"`, `direction="read"`)
}
