package kubeauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/server/kubeauth/apitest"
	"datamove.dev/test/must"
)

// The pin is written, also when the server comes late.
func TestPublisher(t *testing.T) {
	s := apitest.New(t)
	s.Down(503)
	failed := make(chan error, 10)
	p := &Publisher{Client: clientOf(t, s), ConfigMap: "datamove/authority", Key: "pin", Value: func() string { return "the pin" }, Failed: func(err error) { failed <- err }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	if err := <-failed; !errors.Is(err, mover.ErrTransient) || !strings.Contains(err.Error(), "the server is unwell") {
		t.Errorf("%v", err)
	}
	s.Down(0)
	for limit := time.Now().Add(20 * time.Second); s.Pin() != "the pin"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it is not written")
		}
	}
	cancel()
	must.Tell(t, <-ended)
}

// Without rights to it the operator is told of what.
func TestPublishForbidden(t *testing.T) {
	s := apitest.New(t)
	p := &Publisher{Client: clientOf(t, s), ConfigMap: "datamove/another", Key: "pin", Value: func() string { return "x" }}
	if err := p.publish(t.Context()); err == nil || !strings.Contains(err.Error(), "is forbidden") || !strings.Contains(err.Error(), "/configmaps/another") {
		t.Errorf("%v", err)
	}
}

// What can not be written at the moment, or by nobody, is told in the server's words, and tried again.
func TestPublishRefused(t *testing.T) {
	s := apitest.New(t)
	p := &Publisher{Client: clientOf(t, s), ConfigMap: "datamove/authority", Key: "pin", Value: func() string { return "x" }}
	for _, code := range []int{409, 429} {
		s.Down(code)
		if err := p.publish(t.Context()); !errors.Is(err, mover.ErrTransient) || !strings.Contains(err.Error(), strconv.Itoa(code)) {
			t.Errorf("%d: %v", code, err)
		}
	}
	s.Down(0)
	must.Do(t, p.publish(t.Context()))
	s.Seal()
	if err := p.publish(t.Context()); !errors.Is(err, mover.ErrTransient) || !strings.Contains(err.Error(), "field is immutable") || s.Pin() != "x" {
		t.Errorf("%v, the pin is %q", err, s.Pin())
	}
}

// otherAuthority is a certificate that has signed nothing.
func otherAuthority(t *testing.T) string {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
