package s3api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/test/must"
)

// Secrets are not printed, by whatever prints.
func TestSecret(t *testing.T) {
	k := Keys{AccessKey: "AKIA", SecretKey: "hunter2", SessionToken: "hunter3"}
	text, err := json.Marshal(k)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("keys", "of", k, "secret", k.SecretKey)
	for _, printed := range []string{string(text), log.String(), fmt.Sprint(k), fmt.Sprintf("%+v %#v %s %q %x %d", k, k, k.SecretKey, k.SecretKey, k.SecretKey, k.SecretKey)} {
		if err != nil || strings.Contains(printed, "hunter") || strings.Contains(printed, "68756e74") || !strings.Contains(printed, hidden) {
			t.Errorf("%v: %s", err, printed)
		}
	}
}

// minting gives keys that end, each with its number, until it is stopped.
type minting struct {
	lives time.Duration
	asked atomic.Int64
	fails atomic.Pointer[error]
	takes time.Duration
}

func (m *minting) renew(ctx context.Context) (Keys, error) {
	n := m.asked.Add(1)
	select {
	case <-time.After(m.takes):
	case <-ctx.Done():
		return Keys{}, ctx.Err()
	}
	if err := m.fails.Load(); err != nil {
		return Keys{}, *err
	}
	k := Keys{AccessKey: fmt.Sprint("key", n), SecretKey: "s", SessionToken: "t"}
	if m.lives > 0 {
		k.Expires = time.Now().Add(m.lives)
	}
	return k, nil
}

func (m *minting) ring() *ring {
	return (&Options{Renew: m.renew, Stall: time.Minute, Logger: slog.New(slog.DiscardHandler)}).renewal()
}

func retrieve(t *testing.T, r *ring, want string) aws.Credentials {
	t.Helper()
	v, err := r.Retrieve(t.Context())
	if err != nil || v.AccessKeyID != want {
		t.Errorf("got %s, %v; want %s", v.AccessKeyID, err, want)
	}
	return v
}

// TestRenewAhead: keys are followed by others before they end; while others can not be had
// they are used to their end, and then not.
func TestRenewAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &minting{lives: time.Hour}
		r := m.ring()
		retrieve(t, r, "key1")
		time.Sleep(time.Hour - renewAhead - time.Second)
		retrieve(t, r, "key1")
		time.Sleep(2 * time.Second)
		retrieve(t, r, "key2")
		down := errors.New("no STS")
		m.fails.Store(&down)
		time.Sleep(time.Hour - time.Minute)
		retrieve(t, r, "key2")
		time.Sleep(2 * time.Minute)
		_, err := r.Retrieve(t.Context())
		if !errors.Is(err, mover.ErrTransient) || KindOf(err) != mover.ErrPermission || !strings.Contains(err.Error(), "the credentials of the agent ended at") || !strings.Contains(err.Error(), "no STS") {
			t.Errorf("without others: %v", err)
		}
		no := fmt.Errorf("the role is gone: %w", mover.ErrPermission)
		m.fails.Store(&no)
		time.Sleep(renewPause)
		if _, err = r.Retrieve(t.Context()); errors.Is(err, mover.ErrTransient) || !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), "the role is gone") {
			t.Errorf("refused for good: %v", err)
		}
		m.fails.Store(nil)
		time.Sleep(renewPause)
		retrieve(t, r, fmt.Sprint("key", m.asked.Load()+1))
	})
}

// TestRenewOnce: of all who find that the keys have ended one asks for others, and after a
// failure nobody asks at once.
func TestRenewOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &minting{takes: time.Second}
		r := m.ring()
		all := func(want string, used string) (failed int64) {
			var wg sync.WaitGroup
			var n atomic.Int64
			for range 50 {
				wg.Go(func() {
					if used != "" && !r.over(used) {
						t.Error("there are no others")
					}
					if v, err := r.Retrieve(t.Context()); err != nil {
						n.Add(1)
					} else if v.AccessKeyID != want {
						t.Errorf("got %s, want %s", v.AccessKeyID, want)
					}
				})
			}
			wg.Wait()
			return n.Load()
		}
		all("key1", "")
		v := retrieve(t, r, "key1")
		all("key2", identity(v))
		if r.over(identity(v)); m.asked.Load() != 2 { // of a request that was slow
			t.Errorf("asked %d times", m.asked.Load())
		}
		retrieve(t, r, "key2")
		down := errors.New("no STS")
		m.fails.Store(&down)
		if failed := all("", "key2\x00t"); failed != 50 || m.asked.Load() != 3 {
			t.Errorf("%d of 50 failed, and it was asked %d times", failed, m.asked.Load())
		}
	})
}

// TestRenewNothing: what is no other key is none; who is gone is not told of keys.
func TestRenewNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			what string
			keys Keys
			why  string
		}{
			{"the same again", Keys{AccessKey: "a", SecretKey: "s", SessionToken: "t"}, "no others yet"},
			{"no secret", Keys{AccessKey: "b"}, "has no keys"},
			{"ended", Keys{AccessKey: "b", SecretKey: "s", Expires: time.Now().Add(-time.Minute)}, "that came for them ended at"},
		} {
			next := Keys{AccessKey: "a", SecretKey: "s", SessionToken: "t"}
			r := (&Options{Renew: func(context.Context) (Keys, error) { return next, nil }, Stall: time.Minute, Logger: slog.New(slog.DiscardHandler)}).renewal()
			v := retrieve(t, r, "a")
			r.over(identity(v))
			next = row.keys
			if _, err := r.Retrieve(t.Context()); !errors.Is(err, errEnded) || !strings.Contains(err.Error(), row.why) {
				t.Errorf("%s: %v", row.what, err)
			}
		}
		m := &minting{takes: time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.ring().Retrieve(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := m.ring().Retrieve(t.Context()); !errors.Is(err, errEnded) { // it is given a minute
			t.Error(err)
		}
	})
}

// TestKeyFileEnded: a file whose keys have ended is read again at once, until it has others.
func TestKeyFileEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.env")
	write := func(text string) {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	keys := func(n int) string {
		return fmt.Sprintf("AWS_ACCESS_KEY_ID=a%d\nAWS_SECRET_ACCESS_KEY=s\nAWS_SESSION_TOKEN=t%d\n", n, n)
	}
	write(keys(1))
	f := &keyFile{path: path}
	one, err := f.Retrieve(t.Context())
	must.Do(t, err)
	if f.doubt(identity(one)) {
		t.Error("a file that has not changed has others")
	}
	f.over(identity(one))
	for _, text := range []string{keys(1), "", "AWS_ACCESS_KEY_ID=a2\n"} { // not yet, and while it is written
		write(text)
		if _, err := f.Retrieve(t.Context()); !errors.Is(err, errEnded) || strings.Contains(err.Error(), "a1") {
			t.Errorf("%q: %v", text, err)
		}
	}
	write(keys(2))
	two, err := f.Retrieve(t.Context())
	if err != nil || two.AccessKeyID != "a2" {
		t.Errorf("%s, %v", two.AccessKeyID, err)
	}
	f.over(identity(one)) // of a request that was slow
	write(keys(3))
	if !f.doubt(identity(two)) {
		t.Error("the store does not know the keys, and the file has others")
	}
	f.checked = time.Now().Add(-keysCheckEvery)
	write("half")
	if v, err := f.Retrieve(t.Context()); err != nil || v.AccessKeyID != "a3" {
		t.Errorf("while it is written: %s, %v", v.AccessKeyID, err)
	}
}

// TestFirstKeys: where a chain finds no keys to begin with, none are waited for, unless what gives them could not be talked to.
func TestFirstKeys(t *testing.T) {
	broken := &url.Error{Op: "Post", URL: "http://x", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	for _, row := range []struct {
		name   string
		err    error
		passes bool
	}{
		{"no region", errors.New("Invalid Configuration: Missing Region"), false},
		{"no profile", errors.New("no such profile"), false},
		{"STS does not answer", &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRole", Err: broken}, true},
		{"a machine without metadata", &smithy.OperationError{ServiceID: "ec2imds", OperationName: "GetMetadata", Err: broken}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRing(&Options{Stall: time.Minute, Logger: slog.New(slog.DiscardHandler)}, func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, row.err })
			_, err := r.Retrieve(t.Context())
			if retry.Passing(err) != row.passes || KindOf(err) != mover.ErrPermission || !strings.Contains(err.Error(), row.err.Error()) {
				t.Errorf("%s: %v", row.name, err)
			}
		})
	}
}
