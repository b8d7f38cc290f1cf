package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/server/pki"
	"datamove.dev/test/must"
)

// TestLapsedNode: a node whose certificate is not good by its clock says so in its log, with the file, the dates and the clock; without a token it ends with what
// lets it join again, whether it has just begun or has slept for too long.
func TestLapsedNode(t *testing.T) {
	for _, row := range []struct {
		name   string
		change time.Duration // of the clock, after the certificate was made
		says   string        // "" is good
	}{
		{"it is good", time.Minute, ""}, {"it has ended", 48 * time.Hour, "the certificate of agent n1 ended at 2000-01-02T00:00:00Z, was good from "},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				h := &host{log: slog.New(slog.NewTextHandler(&log, nil))}
				h.at.data, h.at.node = dir, "n1"
				id, file := pki.Identity{Role: pki.Agent, Name: "n1"}, filepath.Join(dir, "identity", "identity.pem")
				a := &app{}
				if _, err := a.identity(t.Context(), h, "head:7645"); !errors.Is(err, mover.ErrUsage) || !strings.Contains(adviceFor(err), "datamove agent token n1") {
					t.Errorf("before it has joined: %v", err)
				}
				keeper := must.Get(pki.OpenStore(filepath.Dir(file), id, pki.StoreOptions{}))(t)
				authority := must.Get(pki.OpenAuthority(filepath.Join(dir, "trust")))(t)
				must.Do(t, keeper.Obtain(t.Context(), func(_ context.Context, request []byte) ([]byte, []byte, error) {
					issued, err := authority.Issue(request, id, 24*time.Hour)
					return issued.Certificate, issued.Authority, err
				}))
				time.Sleep(row.change)
				_, err := a.identity(t.Context(), h, "head:7645")
				if row.says == "" {
					must.Do(t, err)
					return
				}
				for what, text := range map[string]string{"the error": err.Error(), "the log": log.String(), "a long sleep": a.keeps(t.Context(), h, keeper, "head:7645", nil).Error()} {
					for _, want := range []string{row.says, "the clock of this machine says 2000-01-03T00:00:00Z", file} {
						if !strings.Contains(text, want) {
							t.Errorf("%s: no %q in %s", what, want, text)
						}
					}
				}
				for _, err := range []error{err, a.keeps(t.Context(), h, keeper, "head:7645", nil)} {
					if code, try := exitCode(err), adviceFor(err); code != 4 || !strings.HasPrefix(try, "timedatectl") || !strings.Contains(try, "datamove agent token n1") {
						t.Errorf("exit %d, try %s", code, try)
					}
				}
			})
		})
	}
}

// TestRefusedByTheClock: a node that the coordinator refuses because of the dates of its certificate is told to look at the clocks, beside these dates.
func TestRefusedByTheClock(t *testing.T) {
	dir := t.TempDir()
	authority := must.Get(pki.OpenAuthority(filepath.Join(dir, "trust")))(t)
	server := must.Get(authority.Server("head", "127.0.0.1"))(t)
	id := pki.Identity{Role: pki.Agent, Name: "n1"}
	keeper := must.Get(pki.OpenStore(filepath.Join(dir, "identity"), id, pki.StoreOptions{}))(t)
	must.Do(t, keeper.Obtain(t.Context(), func(_ context.Context, request []byte) ([]byte, []byte, error) {
		issued, err := authority.Issue(request, id, time.Hour)
		return issued.Certificate, issued.Authority, err
	}))
	on := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer on.Close()
	secure := pki.ServerTLS(pki.ServerOptions{Certificate: server.Certificate, Authorities: authority.Authorities})
	current := secure.GetConfigForClient
	secure.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := current(h)
		c.Time = func() time.Time { return time.Now().Add(48 * time.Hour) }
		return c, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		raw, err := on.Accept()
		if err != nil {
			return
		}
		defer raw.Close()
		_ = tls.Server(raw, secure).Handshake()
		_ = raw.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, raw) // or the alert is lost
	}()
	err := refused(t.Context(), on.Addr().String(), pki.ClientTLS(pki.ClientOptions{Authorities: keeper.Authorities, Certificate: keeper.Certificate}))
	<-ended
	if !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), keeper.Expires().UTC().Format(time.RFC3339)) || !strings.Contains(err.Error(), "the clock of this machine says ") {
		t.Fatalf("%v", err)
	}
	if try := tryRefused(err, "n1"); !strings.HasPrefix(try, "timedatectl") || !strings.Contains(try, "datamove agent token n1") {
		t.Errorf("try %s", try)
	}
	if try := tryRefused(mover.ErrPermission, "n1"); strings.Contains(try, "timedatectl") {
		t.Errorf("of another refusal: try %s", try)
	}
}
