package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// The table of who gets into a server, and as whom.
//
//safety:7 forged, foreign, expired certificates; a man in the middle of a join
func TestWhoGetsIn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := open(t)
		other := twin(t, a)
		uri := func(s string) *url.URL {
			u := must.Get(url.Parse(s))(t)
			return u
		}
		says := func(s string) *tls.Certificate {
			return forged(t, a, func(c *x509.Certificate) { c.URIs = []*url.URL{uri(s)} })
		}
		revoked := forged(t, a, func(*x509.Certificate) {})
		short := forged(t, a, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(time.Hour) })
		time.Sleep(2 * time.Hour)
		config := ServerTLS(ServerOptions{Certificate: server(t, a).Certificate, Authorities: a.Authorities,
			Admit: func(id Identity) error {
				if id.Serial == revoked.Leaf.SerialNumber.Text(16) {
					return fmt.Errorf("%w: %s is revoked", mover.ErrPermission, id)
				}
				return nil
			}})
		for _, row := range []struct {
			name string
			cert *tls.Certificate // nil: none
			want string           // who it is, or what the server says
		}{
			{"nobody", nil, "no client certificate"},
			{"an agent", forged(t, a, func(*x509.Certificate) {}), "agent gpu-07"},
			{"a user", says("datamove://user/alice"), "user alice"},
			{"revoked", revoked, "agent gpu-07 is revoked"},
			{"expired", short, "expired"},
			{"not yet valid", forged(t, a, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), "not yet valid"},
			{"another authority of the same name", forged(t, other, func(*x509.Certificate) {}), "unknown authority"},
			{"signed by itself", selfSigned(t), "unknown authority"},
			{"signed by an agent", signedBy(t, forged(t, a, func(*x509.Certificate) {})), "unknown authority"},
			{"for a server", forged(t, a, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), "incompatible key usage"},
			{"for both sides", forged(t, a, func(c *x509.Certificate) {
				c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
			}), "for another use"},
			{"for any use", forged(t, a, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} }), "for another use"},
			{"for no use", forged(t, a, func(c *x509.Certificate) { c.ExtKeyUsage = nil }), "for another use"},
			{"for one more use", forged(t, a, func(c *x509.Certificate) { c.UnknownExtKeyUsage = append(c.UnknownExtKeyUsage, []int{1, 3, 9}) }), "for another use"},
			{"the authority itself", pairOf(a.cert, a.key), "0 identities"},
			{"an authority as an agent", forged(t, a, func(c *x509.Certificate) { c.IsCA = true }), "for another use"},
			{"the service", says("datamove://service/head-01"), "wrong side"},
			{"a role that is none", says("datamove://robot/r2"), "nobody here"},
			{"another scheme", says("spiffe://agent/gpu-07"), "nobody here"},
			{"a longer path", says("datamove://agent/gpu-07/x"), "nobody here"},
			{"an escape", says("datamove://agent/gpu%2d07"), "nobody here"},
			{"a query", says("datamove://agent/gpu-07?role=user"), "nobody here"},
			{"a fragment", says("datamove://agent/gpu-07#x"), "nobody here"},
			{"a user in the URI", says("datamove://root@agent/gpu-07"), "nobody here"},
			{"a port", says("datamove://agent:1/gpu-07"), "nobody here"},
			{"no name", says("datamove://agent/"), "nobody here"},
			{"a path as a name", says("datamove://agent/.."), "nobody here"},
			{"two identities", forged(t, a, func(c *x509.Certificate) { c.URIs = append(c.URIs, uri("datamove://user/root")) }), "2 identities"},
			{"only a common name", forged(t, a, func(c *x509.Certificate) { c.URIs = nil }), "0 identities"},
		} {
			client := ClientOptions{Authorities: a.Authorities}
			if row.cert != nil {
				client.Certificate = showing(row.cert)
			}
			m := meet(config, ClientTLS(client))
			if m.server == nil {
				id, err := Peer(m.state)
				if got := id.String(); got != row.want && (!errors.Is(err, ErrAnonymous) || !strings.Contains(err.Error(), row.want)) {
					t.Errorf("%s: is in as %s (%v), want %s", row.name, got, err, row.want)
				}
				if m.client != nil {
					t.Errorf("%s: %v", row.name, m.client)
				}
				continue
			}
			m.refused(t, row.name)
			if !strings.Contains(m.server.Error(), row.want) {
				t.Errorf("%s: server: %v, want %q", row.name, m.server, row.want)
			}
		}
	})
}

func selfSigned(t *testing.T) *tls.Certificate {
	key := must.Get(newKey())(t)
	template := leaf(Identity{Role: Agent, Name: "gpu-07"}, AgentLife, x509.ExtKeyUsageClientAuth)
	cert := must.Get(sign(template, template, key.Public(), key))(t)
	return pairOf(cert, key)
}

// signedBy is a certificate that somebody who is no authority signed, and the chain.
func signedBy(t *testing.T, by *tls.Certificate) *tls.Certificate {
	key := must.Get(newKey())(t)
	template := leaf(Identity{Role: User, Name: "root"}, AgentLife, x509.ExtKeyUsageClientAuth)
	cert := must.Get(sign(template, by.Leaf, key.Public(), by.PrivateKey.(*ecdsa.PrivateKey)))(t)
	pair := pairOf(cert, key)
	pair.Certificate = append(pair.Certificate, by.Certificate...)
	return pair
}

// Whom a client takes for the service.
func TestWhoIsTheService(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := open(t)
		impostor := server(t, twin(t, a))
		old := *server(t, a).cert
		const (
			client = x509.ExtKeyUsageClientAuth
			host   = x509.ExtKeyUsageServerAuth
		)
		forge := func(role Role, usage x509.ExtKeyUsage) *tls.Certificate {
			return forged(t, a, func(c *x509.Certificate) {
				c.URIs = []*url.URL{Identity{Role: role, Name: "head-01"}.uri()}
				c.DNSNames = []string{"head-01"}
				c.ExtKeyUsage = []x509.ExtKeyUsage{usage}
			})
		}
		time.Sleep(serverLife + time.Second)
		ours := server(t, a, "coordinator.site.example", "10.0.0.1", "[fd00::1]")
		for _, row := range []struct {
			name string
			host string
			cert func() (*tls.Certificate, error)
			want string // "" is taken
		}{
			{"by the node's name", "head-01", ours.Certificate, ""},
			{"by another name", "coordinator.site.example", ours.Certificate, ""},
			{"by an address", "10.0.0.1", ours.Certificate, ""},
			{"by an address of IPv6", "fd00::1", ours.Certificate, ""},
			{"by any name", "", ours.Certificate, ""},
			{"by a wrong name", "evil.example", ours.Certificate, "evil.example"},
			{"by a wrong address", "10.0.0.2", ours.Certificate, "10.0.0.2"},
			{"by a part of its name", "site.example", ours.Certificate, "site.example"},
			{"another authority of the same name", "head-01", impostor.Certificate, "authority that is not known"},
			{"expired", "head-01", showing(&old), "and the clock of this machine says 2000-"},
			{"an agent", "head-01", showing(forge(Agent, client)), "incompatible key usage"},
			{"an agent for a server", "head-01", showing(forge(Agent, host)), "wrong side"},
			{"a user for a server", "", showing(forge(User, host)), "wrong side"},
			{"the service as a client", "", showing(forge(Service, client)), "incompatible key usage"},
		} {
			m := meet(ServerTLS(ServerOptions{Certificate: row.cert, Authorities: a.Authorities}),
				ClientTLS(ClientOptions{ServerName: row.host, Authorities: a.Authorities}))
			if row.want == "" {
				if err := errors.Join(m.client, m.server); err != nil {
					t.Errorf("%s: %v", row.name, err)
				}
				continue
			}
			m.refused(t, row.name)
			says(t, m.client, mover.ErrPermission, row.want)
		}
	})
}

// A node with a token knows the service before it sends a byte.
//
//safety:7 with TestWhoGetsIn
func TestPinOnFirstContact(t *testing.T) {
	a := open(t)
	token, _, err := a.NewToken("gpu-07", 0)
	must.Do(t, err)
	evil := twin(t, a)
	withOurs := server(t, evil) // shows our authority, too, which everybody may have
	withOurs.cert.Certificate = append(withOurs.cert.Certificate, a.cert.Raw)
	joined, err := a.Issue(requestOf(t, "gpu-07"), Identity{Role: Agent, Name: "gpu-07"}, 0)
	if err != nil || joined.Certificate == nil {
		t.Fatal(err)
	}
	wrong := token.Pin
	wrong[31] ^= 1
	ours := server(t, a)
	for _, row := range []struct {
		name string
		pin  Pin
		cert func() (*tls.Certificate, error)
		want string
	}{
		{"the service", token.Pin, ours.Certificate, ""},
		{"somebody in the middle", token.Pin, server(t, evil).Certificate, "not known"},
		{"who shows our authority, too", token.Pin, showing(withOurs.cert), "not known"},
		{"another pin", wrong, ours.Certificate, "not known"},
		{"the pin of a server, not of its authority", pinOf(ours.cert.Leaf), ours.Certificate, "not known"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := meet(ServerTLS(ServerOptions{Certificate: row.cert, Authorities: a.Authorities}), JoinTLS(row.pin, "head-01"))
			if row.want == "" {
				must.Tell(t, errors.Join(m.client, m.server))
				return
			}
			m.refused(t, row.name)
			says(t, m.client, mover.ErrPermission, "not the service", row.want)
		})
	}
}

// What is older than TLS 1.3 does not come in, and is not talked to.
func TestOnlyTLS13(t *testing.T) {
	a := open(t)
	old := ClientTLS(ClientOptions{Authorities: a.Authorities})
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	meet(serverOf(t, a), old).refused(t, "an old client")
	cert := must.Get(server(t, a).Certificate())(t)
	oldServer := &tls.Config{Certificates: []tls.Certificate{*cert}, MaxVersion: tls.VersionTLS12}
	meet(oldServer, ClientTLS(ClientOptions{Authorities: a.Authorities})).refused(t, "an old server")
}

// A client that offers an old session is judged as if it had none.
func TestNoResumption(t *testing.T) {
	a := open(t)
	client := ClientTLS(ClientOptions{ServerName: "head-01", Authorities: a.Authorities})
	client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	config := serverOf(t, a)
	for range 3 {
		m := meet(config, client)
		must.Do(t, errors.Join(m.client, m.server))
		if m.state.DidResume {
			t.Fatal("a session was resumed")
		}
	}
}

// The same through gRPC, over a real socket: nobody, and an agent.
func TestOverGRPC(t *testing.T) {
	a := open(t)
	id := Identity{Role: Agent, Name: "gpu-07"}
	k := keeper(t, id)
	must.Do(t, k.Obtain(t.Context(), issuer(a, id, 0)))
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	who := make(chan string, 1)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(ServerTLS(ServerOptions{
		Certificate: server(t, a, "127.0.0.1").Certificate, Authorities: a.Authorities}))),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			p, _ := peer.FromContext(ctx)
			id, err := Peer(p.AuthInfo.(credentials.TLSInfo).State)
			who <- fmt.Sprintf("%v %v", id, err)
			return handle(ctx, req)
		}))
	healthpb.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(listener) }()
	defer s.Stop()
	for want, certificate := range map[string]func() (*tls.Certificate, error){
		"agent gpu-07 <nil>":                           k.Certificate,
		fmt.Sprintf("%v %v", Identity{}, ErrAnonymous): nil,
	} {
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(
			ClientTLS(ClientOptions{ServerName: "127.0.0.1", Authorities: k.Authorities, Certificate: certificate}))))
		must.Do(t, err)
		if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Error(err)
		} else if got := <-who; got != want {
			t.Errorf("in as %q, want %q", got, want)
		}
		must.Tell(t, conn.Close())
	}
}

// The authority changes under a running server and a running client.
func TestRotation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "authority")
		a, err := OpenAuthority(dir)
		must.Do(t, err)
		id := Identity{Role: Agent, Name: "gpu-07"}
		k := keeper(t, id)
		renew := func() {
			t.Helper()
			must.Do(t, k.Obtain(t.Context(), issuer(a, id, 0)))
		}
		renew()
		token, _, err := a.NewToken("gpu-08", 0)
		must.Do(t, err)
		config := serverOf(t, a)
		works := func(when string, client *tls.Config) {
			t.Helper()
			if m := meet(config, client); m.client != nil || m.server != nil {
				t.Fatalf("%s: client: %v, server: %v", when, m.client, m.server)
			}
		}
		agent := ClientTLS(ClientOptions{ServerName: "head-01", Authorities: k.Authorities, Certificate: k.Certificate})
		works("before", agent)
		before := a.Pin()
		must.Do(t, a.Rotate())
		if a.Pin() == before {
			t.Fatal("nothing was rotated")
		}
		works("who knows only the old one", agent)
		works("a token of the old one", JoinTLS(token.Pin, "head-01"))
		renew()
		works("who knows both", agent)
		if got := len(k.file.other); got != 2 {
			t.Errorf("the node trusts %d authorities, want the new and the old", got)
		}
		fresh, _, err := a.NewToken("gpu-09", 0)
		must.Do(t, err)
		works("a token of the new one", JoinTLS(fresh.Pin, "head-01"))

		if a, err = OpenAuthority(dir); err != nil { // the service starts again
			t.Fatal(err)
		}
		config = serverOf(t, a)
		works("after a restart", agent)
		works("a token of the old one, after a restart", JoinTLS(token.Pin, "head-01"))
		must.Do(t, a.Rotate())
		works("a second rotation", agent)
	})
}

// A server goes on for months without a restart.
func TestServerRenewsItsCertificate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := open(t)
		config := serverOf(t, a)
		serials := map[string]bool{}
		for range 60 {
			client := ClientTLS(ClientOptions{ServerName: "head-01", Authorities: a.Authorities})
			verify := client.VerifyConnection
			client.VerifyConnection = func(state tls.ConnectionState) error {
				serials[state.PeerCertificates[0].SerialNumber.Text(16)] = true
				return verify(state)
			}
			if m := meet(config, client); m.client != nil {
				t.Fatal(m.client)
			}
			time.Sleep(24 * time.Hour)
		}
		if n := len(serials); n < 10 || n > 15 {
			t.Errorf("%d certificates in 60 days of %v each", n, serverLife)
		}
	})
}
