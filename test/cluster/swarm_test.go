package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/agent"
	"datamove.dev/mover/crc"
	"datamove.dev/mover/peer"
	"datamove.dev/mover/telemetry"
	"datamove.dev/mover/trust"
)

// peers are the ends at which the agents of a cluster give each other what they stage.
type peers struct {
	t         *testing.T
	authority *trust.Authority
	lies      map[string]*atomic.Int64 // who gives wrong bytes, and how often it did

	mu   sync.Mutex
	seen map[string]*telemetry.Metrics // guarded by mu
}

func newPeers(t *testing.T) *peers {
	authority, err := trust.OpenAuthority(filepath.Join(t.TempDir(), "authority"))
	if err != nil {
		t.Fatal(err)
	}
	return &peers{t: t, authority: authority, lies: map[string]*atomic.Int64{}, seen: map[string]*telemetry.Metrics{}}
}

func (p *peers) metrics(name string) *telemetry.Metrics {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[name] = telemetry.New(telemetry.Options{Version: "test", Bounds: telemetry.Bounds{Tiers: []string{"shared", "scratch"}}})
	return p.seen[name]
}

// of serves for an agent, over TLS, on an address of this host.
func (p *peers) of(name string) *agent.Peers {
	if p == nil {
		return nil
	}
	id := trust.Identity{Role: trust.Agent, Name: name}
	keeper, err := trust.OpenKeeper(p.t.TempDir(), id, trust.KeeperOptions{})
	if err == nil {
		err = keeper.Obtain(p.t.Context(), func(_ context.Context, request []byte) ([]byte, []byte, error) {
			i, err := p.authority.Issue(request, id, 0)
			return i.Certificate, i.Authority, err
		})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	server := peer.NewServer(peer.Options{})
	secure := tls.NewListener(l, trust.PeerServerTLS(keeper.Certificate))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if n := p.lies[name]; n != nil {
			_ = http.Serve(secure, lying(server, n))
			return
		}
		_ = server.Serve(secure)
	}()
	p.t.Cleanup(func() { _ = l.Close(); <-ended })
	return &agent.Peers{Server: server, Port: l.Addr().(*net.TCPAddr).Port, Host: "127.0.0.1", Authorities: keeper.AuthorityCertificates}
}

// lying is a server that gives wrong bytes, with a checksum that fits.
func lying(server http.Handler, n *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		server.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		if rec.Code == http.StatusOK {
			data := body[:len(body)-8]
			data[len(data)/2] ^= 1
			binary.LittleEndian.PutUint64(body[len(data):], crc.Update(0, data))
			n.Add(1)
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body)
	})
}

// total is what all agents together count of a metric.
func (p *peers) total(metric string, labels ...string) (sum float64) {
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

// sourceBytes is how much was read from the shared tier.
func (p *peers) sourceBytes() float64 {
	return p.total("datamove_tier_bytes_total", `tier="shared"`, `direction="read"`)
}

// TestSwarm: three nodes stage a dataset, one worker is killed, the coordinator begins anew, and a fourth node comes late. The
// source is read once, but for what was on its way to the dead.
func TestSwarm(t *testing.T) {
	p := newPeers(t)
	c := newCluster(t)
	c.peers = p
	nodes := []string{"n1", "n2", "n3", "n4"}
	for _, name := range nodes {
		c.join(name)
	}
	source := c.tree("shared/vision", 300, 3, 16<<20)
	digest := c.add("vision", "shared:vision")
	added := p.sourceBytes()
	c.slowly("scratch", 32<<20)
	ids := map[string]string{}
	stage := func(node string) { ids[node] = c.stage("dataset:vision", node, "job:"+node).GetTask().GetId() }
	for _, node := range nodes[:3] {
		stage(node)
	}
	c.half(ids["n2"])
	c.kill("n2", ids["n2"], syscall.SIGKILL)
	c.halt()
	c.start()
	c.eventually("n1 is heard of", func() bool { return c.now(ids["n1"]).GetProgress() != nil })
	c.ready("n4")
	stage("n4")
	for _, node := range nodes {
		c.done(ids[node])
		c.same(source, c.scratch(node, "vision", digest))
	}
	const bytes = 3 * 16 << 20
	share := (p.sourceBytes() - added) / bytes
	given := p.total("datamove_peer_read_bytes_total") / bytes
	t.Logf("the source was read %.2f times, and %.2f times it came from others", share, given)
	if share > 1.5 {
		t.Errorf("the source was read %.2f times", share)
	}
	if given < 1.5 {
		t.Errorf("it came from others %.2f times", given)
	}
	if notes := strings.Join(c.now(ids["n4"]).GetReport().GetNotes(), "\n"); !strings.Contains(notes, "came from other nodes") {
		t.Errorf("the report says %q", notes)
	}
}

// TestSwarmLies: a node gives wrong bytes. The others read those files from the source, doubt it for nothing, and ask the node no more.
func TestSwarmLies(t *testing.T) {
	p := newPeers(t)
	p.lies["n2"] = new(atomic.Int64)
	c := newCluster(t)
	c.peers = p
	nodes := []string{"n1", "n2", "n3"}
	for _, name := range nodes {
		c.join(name)
	}
	source := c.tree("shared/vision", 100, 2, 16<<20)
	digest := c.add("vision", "shared:vision")
	c.slowly("scratch", 48<<20)
	var ids []string
	for _, node := range nodes {
		ids = append(ids, c.stage("dataset:vision", node, "job:"+node).GetTask().GetId())
	}
	for i, node := range nodes {
		c.done(ids[i])
		c.same(source, c.scratch(node, "vision", digest))
	}
	n := p.lies["n2"].Load()
	t.Logf("n2 gave wrong bytes %d times", n)
	if n == 0 {
		t.Error("nobody asked the node that lies")
	}
	if r := c.replicas("vision")["shared@"]; r.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED {
		t.Errorf("the source is doubted: %v", r)
	}
}
