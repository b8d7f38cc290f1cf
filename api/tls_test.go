package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// certify makes an authority and a certificate of it for 127.0.0.1, valid until
// then.
func certify(t *testing.T, until time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, own, own, &key.PublicKey, key))(t)
	parsed := must.Get(x509.ParseCertificate(der))(t)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLS(t *testing.T) {
	tomorrow, yesterday := time.Now().Add(24*time.Hour), time.Now().Add(-24*time.Hour)
	good, pool := certify(t, tomorrow)
	old, oldPool := certify(t, yesterday)
	foreign, foreignPool := certify(t, tomorrow)
	for _, row := range []struct {
		name   string
		server tls.Certificate
		client *tls.Config
		most   uint16 // version that the server speaks; 0 is the newest
		want   string // in the error; "" is none
	}{
		{"both known", good, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{good}}, 0, ""},
		{"the service is not who we know", good, &tls.Config{RootCAs: foreignPool, Certificates: []tls.Certificate{good}}, 0, "unknown authority"},
		{"its certificate has expired", old, &tls.Config{RootCAs: oldPool, Certificates: []tls.Certificate{good}}, 0, "expired"},
		{"it is somewhere else", good, &tls.Config{RootCAs: pool, ServerName: "other.example"}, 0, "other.example"},
		{"we have no certificate", good, &tls.Config{RootCAs: pool}, 0, "reach tcp://"},
		{"we have a foreign one", good, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{foreign}}, 0, "reach tcp://"},
		{"it speaks an old TLS", good, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{good}}, tls.VersionTLS12, "protocol version"},
		// In the rows of our own certificate the service's word can come after its end.
	} {
		t.Run(row.name, func(t *testing.T) {
			on, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{row.server},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, NextProtos: []string{"h2"}, MaxVersion: row.most})
			must.Do(t, err)
			defer newService().serve(on)()
			c, err := Dial(t.Context(), "tcp://"+on.Addr().String(), Options{TLS: row.client})
			if err == nil {
				defer c.Close()
				_, err = c.ListTasks(t.Context(), &datamovev1.ListTasksRequest{})
			}
			if row.want == "" {
				must.Do(t, err)
			} else if !errors.Is(err, mover.ErrUnreachable) || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "running?") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestTCPNeedsTLS(t *testing.T) {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer newService().serve(on)()
	_, err = Dial(t.Context(), "tcp://"+on.Addr().String(), Options{})
	if !errors.Is(err, mover.ErrUsage) {
		t.Errorf("without TLS: %v", err)
	}
	_, err = Dial(t.Context(), "tcp://"+on.Addr().String(), Options{TLS: &tls.Config{}})
	if !errors.Is(err, mover.ErrUnreachable) || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("with TLS to a service without: %v", err)
	}
}
