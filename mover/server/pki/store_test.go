package pki

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

var gpu07 = Identity{Role: Agent, Name: "gpu-07"}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// An agent and its service over two months: never a moment without a good
// certificate, and no more renewals than there have to be.
func TestRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const days = 60
		a, k := open(t), keeper(t, gpu07)
		must.Do(t, k.Obtain(t.Context(), issuer(a, gpu07, 0)))
		renewals := 0
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- k.Run(ctx, func(ctx context.Context, request []byte) ([]byte, []byte, error) {
				if left := time.Until(k.Expires()); left > AgentLife/3+lookEvery || left < AgentLife/3-lookEvery {
					t.Errorf("renewed with %v left", left)
				}
				renewals++
				return issuer(a, gpu07, 0)(ctx, request)
			})
		}()
		config := serverOf(t, a)
		client := ClientTLS(ClientOptions{Authorities: k.Authorities, Certificate: k.Certificate})
		for range days {
			time.Sleep(24 * time.Hour)
			if m := meet(config, client); m.client != nil || m.server != nil {
				t.Fatalf("client: %v, server: %v", m.client, m.server)
			}
		}
		stop()
		must.Tell(t, <-done)
		if renewals < days || renewals > days*8/5 {
			t.Errorf("%d renewals in %d days", renewals, days)
		}
	})
}

// A coordinator that is away for hours does no harm; one that is away for too long
// leaves the agent with a plain word.
func TestRenewalThatFails(t *testing.T) {
	for _, row := range []struct {
		name string
		away time.Duration
		ends bool
	}{
		{"for seven hours", 16*time.Hour + 7*time.Hour, false},
		{"for a day", 24 * time.Hour, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log strings.Builder
				a := open(t)
				k, err := OpenStore(t.TempDir(), gpu07, StoreOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				must.Do(t, err)
				must.Do(t, k.Obtain(t.Context(), issuer(a, gpu07, 0)))
				tries, back := 0, time.Now().Add(row.away)
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					done <- k.Run(ctx, func(ctx context.Context, request []byte) ([]byte, []byte, error) {
						tries++
						if time.Now().Before(back) {
							return nil, nil, fmt.Errorf("dial head-01: %w", mover.ErrUnreachable)
						}
						return issuer(a, gpu07, 0)(ctx, request)
					})
				}()
				time.Sleep(25 * time.Hour)
				synctest.Wait()
				stop()
				err = <-done
				_, certErr := k.Certificate()
				if row.ends {
					says(t, err, mover.ErrPermission, "gpu-07", "ended at", "join token")
					says(t, certErr, mover.ErrPermission, "join token")
				} else if err := errors.Join(err, certErr); err != nil {
					t.Error(err)
				}
				if tries < 20 || tries > 120 {
					t.Errorf("%d tries", tries)
				}
				if !strings.Contains(log.String(), "will retry") || !strings.Contains(log.String(), "dial head-01") {
					t.Errorf("the log does not say why: %s", log.String())
				}
			})
		})
	}
}

// A node whose clock is hours ahead sees a certificate that is due at once.
func TestClockAheadDoesNotSpin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, k := open(t), keeper(t, gpu07)
		renewals := 0
		renew := func(ctx context.Context, request []byte) ([]byte, []byte, error) {
			renewals++
			return issuer(a, gpu07, time.Minute)(ctx, request) // all of it within the third of what skew makes it
		}
		must.Do(t, k.Obtain(t.Context(), renew))
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Second)
		defer stop()
		must.Tell(t, k.Run(ctx, renew))
		if renewals != 2 {
			t.Errorf("%d renewals in less than a minute", renewals)
		}
	})
}

func TestNotJoined(t *testing.T) {
	k := keeper(t, gpu07)
	_, err := k.Certificate()
	says(t, err, mover.ErrNotExist, "agent gpu-07", "join token")
	says(t, k.Run(t.Context(), nil), mover.ErrNotExist, "join token")
	if !k.Expires().IsZero() || !k.Authorities().Equal(poolOf(nil)) {
		t.Error("an empty directory has something in it")
	}
	a := open(t)
	m := meet(serverOf(t, a), ClientTLS(ClientOptions{Authorities: k.Authorities, Certificate: k.Certificate}))
	m.refused(t, "a node that has not joined")
}

// What another process wrote is taken up; what it broke is not.
func TestRotatedFileIsTakenUp(t *testing.T) {
	a, dir := open(t), t.TempDir()
	var k [2]*Store
	for i := range k {
		var err error
		if k[i], err = OpenStore(dir, gpu07, StoreOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	serial := func(k *Store) string {
		cert := must.Get(k.Certificate())(t)
		return cert.Leaf.SerialNumber.Text(16)
	}
	var last string
	for range 3 {
		must.Do(t, k[0].Obtain(t.Context(), issuer(a, gpu07, 0)))
		if got := serial(k[1]); got != serial(k[0]) || got == last {
			t.Fatalf("got %s after %s, want %s", got, last, serial(k[0]))
		}
		last = serial(k[0])
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, identityFile), []byte("hello"), 0o600))
	if got := serial(k[1]); got != last {
		t.Errorf("got %s, want %s", got, last)
	}
	_, err := OpenStore(dir, gpu07, StoreOptions{})
	says(t, err, mover.ErrCorrupt, dir)
}

func TestDirectoryOfSomebodyElse(t *testing.T) {
	a, dir := open(t), t.TempDir()
	k, err := OpenStore(dir, gpu07, StoreOptions{})
	must.Do(t, err)
	must.Do(t, k.Obtain(t.Context(), issuer(a, gpu07, 0)))
	for _, other := range []Identity{{Role: Agent, Name: "gpu-08"}, {Role: User, Name: "gpu-07"}} {
		_, err := OpenStore(dir, other, StoreOptions{})
		says(t, err, mover.ErrConflict, other.String())
	}
	path := filepath.Join(dir, identityFile)
	text, err := os.ReadFile(path)
	must.Do(t, err)
	must.Do(t, os.WriteFile(path, text[:bytes.LastIndex(text, []byte("-----BEGIN"))], 0o600))
	_, err = OpenStore(dir, gpu07, StoreOptions{})
	says(t, err, mover.ErrCorrupt, "no authority")
	must.Do(t, os.Chmod(path, 0o644))
	_, err = OpenStore(dir, gpu07, StoreOptions{})
	says(t, err, mover.ErrPermission, "0644")
}

// An answer that is not what was asked for changes nothing.
func TestWrongAnswers(t *testing.T) {
	a, k := open(t), keeper(t, gpu07)
	other := open(t)
	must.Do(t, k.Obtain(t.Context(), issuer(a, gpu07, 0)))
	before := k.Expires()
	stolen := must.Get(a.Issue(requestOf(t, "gpu-07"), gpu07, time.Hour))(t)
	for name, row := range map[string]struct {
		kind  error
		renew Renew
	}{
		"another key": {mover.ErrCorrupt, func(context.Context, []byte) ([]byte, []byte, error) {
			return stolen.Certificate, stolen.Authority, nil
		}},
		"another role": {mover.ErrCorrupt, issuer(a, Identity{Role: User, Name: "gpu-07"}, time.Hour)},
		"an authority that did not sign it": {mover.ErrPermission, func(ctx context.Context, request []byte) ([]byte, []byte, error) {
			c, _, err := issuer(a, gpu07, time.Hour)(ctx, request)
			return c, other.bundle(), err
		}},
		"no authority": {mover.ErrCorrupt, func(ctx context.Context, request []byte) ([]byte, []byte, error) {
			c, _, err := issuer(a, gpu07, time.Hour)(ctx, request)
			return c, nil, err
		}},
		"noise":   {mover.ErrCorrupt, func(context.Context, []byte) ([]byte, []byte, error) { return []byte("x"), []byte("y"), nil }},
		"refused": {mover.ErrRefused, func(context.Context, []byte) ([]byte, []byte, error) { return nil, nil, mover.ErrRefused }},
	} {
		t.Run(name, func(t *testing.T) {
			says(t, k.Obtain(t.Context(), row.renew), row.kind, identityFile)
			if _, err := k.Certificate(); err != nil || !k.Expires().Equal(before) {
				t.Errorf("the certificate until %v became one until %v (%v)", before, k.Expires(), err)
			}
		})
	}
	if names, err := os.ReadDir(filepath.Dir(k.path)); err != nil || len(names) != 1 {
		t.Errorf("%v is left (%v)", names, err)
	}
}
