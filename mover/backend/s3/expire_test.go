package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// sts stands before a real store and knows sessions, each with keys of its own: one is good until
// the k-th part has come with it. It checks what they have signed, and signs it for the
// store, which checks that.
type sts struct {
	access, secret string // of the store
	status         int    // of an answer to a token that has ended
	t              *testing.T

	mu      sync.Mutex // guards all below
	good    int        // number of the token that is good
	ends    int        // parts, after which the first one ends; 0 is never
	came    int        // parts with the first one
	took    map[string]int
	refused map[string]int // what was answered that the token has ended
}

func token(n int) string { return fmt.Sprint("token-", n) }

// keys are those of a session.
func (s *sts) keys(n int) s3api.Keys {
	return s3api.Keys{AccessKey: fmt.Sprint("ASIA", n), SecretKey: s3api.Secret(fmt.Sprint("secret-", n)), SessionToken: s3api.Secret(token(n))}
}

var sigV4 = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })

// sign gives a request the signature of keys over the headers that it says are signed, of the time that it says.
func sign(r *http.Request, keys aws.Credentials) (*http.Request, error) {
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return nil, err
	}
	signed := r.Clone(r.Context())
	signed.Header = http.Header{}
	for name := range strings.SplitSeq(list, ";") {
		if v := r.Header.Values(name); len(v) > 0 && name != "x-amz-security-token" {
			signed.Header[http.CanonicalHeaderKey(name)] = v
		}
	}
	err = sigV4.SignHTTP(r.Context(), keys, signed, r.Header.Get("X-Amz-Content-Sha256"), "s3", "us-east-1", at)
	return signed, err
}

// forStore is the request of a session as one for the store; nil when the session did not sign it.
func (s *sts) forStore(t *testing.T, r *http.Request) *http.Request {
	k := s.keys(s.good)
	mine, err := sign(r, aws.Credentials{AccessKeyID: k.AccessKey, SecretAccessKey: string(k.SecretKey), SessionToken: string(k.SessionToken)})
	if err != nil || mine.Header.Get("Authorization") != r.Header.Get("Authorization") {
		t.Errorf("%s %s: %v: it is signed by\n%s, and should be by\n%s", r.Method, r.URL, err, r.Header.Get("Authorization"), mine.Header.Get("Authorization"))
		return nil
	}
	out, err := sign(r, aws.Credentials{AccessKeyID: s.access, SecretAccessKey: s.secret})
	if err != nil {
		t.Error(err)
		return nil
	}
	return out
}

// what names a request: a part by its number.
func what(r *http.Request) string {
	return call(r) + r.URL.Query().Get("partNumber")
}

func (s *sts) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
	out, status := s.judge(r)
	switch {
	case out != nil:
		forward.ServeHTTP(w, out)
	case status != s.status:
		errorDocument(w, status, "SignatureDoesNotMatch")
	case r.Method == http.MethodHead: // which has no body
		w.WriteHeader(status)
	default:
		errorDocument(w, status, "ExpiredToken")
	}
	return out == nil
}

// judge gives the request for the store, or the status of a refusal.
func (s *sts) judge(r *http.Request) (out *http.Request, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := call(r) == "UploadPart"
	if part && s.good == 1 {
		if s.came++; s.came == s.ends {
			s.good = 2
		}
	}
	if r.Header.Get("X-Amz-Security-Token") != token(s.good) {
		s.refused[what(r)]++
		return nil, s.status
	}
	s.took[what(r)]++
	return s.forStore(s.t, r), http.StatusUnauthorized
}

func (s *sts) counts() (took, refused int, twice []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.took {
		if strings.HasPrefix(name, "UploadPart") {
			took++
			if n > 1 {
				twice = append(twice, name)
			}
		}
	}
	for name, n := range s.refused {
		if strings.HasPrefix(name, "UploadPart") {
			refused += n
		}
	}
	return took, refused, twice
}

// newSTS opens a place that is given token 1 and, when it asks again, what next says.
func newSTS(t *testing.T, server *s3test.Server, client string, status int, next func(s *sts, n int64) (s3api.Keys, error)) (l *liar, s *sts, asked *atomic.Int64) {
	t.Helper()
	l = newLiarOf(t, server, client)
	s = &sts{t: t, access: server.Access, secret: server.Secret, status: status, good: 1, took: map[string]int{}, refused: map[string]int{}}
	l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
		s.serve(w, r, forward)
		return true
	})
	asked = new(atomic.Int64)
	l.options.Credentials = ""
	l.options.Renew = func(context.Context) (s3api.Keys, error) {
		if n := asked.Add(1); n > 1 {
			return next(s, n)
		}
		return s.keys(1), nil
	}
	l.Backend = s3test.Open(t, l.options)
	return l, s, asked
}

const (
	partsOfSession = 4
	partsInFlight  = 3
)

// session is a file of partsOfSession parts, the last of which is a byte.
func session(p mover.Backend) []byte {
	return backendtest.Pattern((partsOfSession-1)*p.Capabilities().PartMin + 1)
}

// upload publishes a file in parts, some at a time, and tries again what passes.
func uploadTried(t *testing.T, p mover.Backend, data []byte, o retry.Options) (begins mover.Draft, err error) {
	t.Helper()
	part := p.Capabilities().PartMin
	tried := retry.New(p, o)
	d, err := tried.Draft(t.Context(), fileEntry("f", data), mover.Hints{PartBytes: part})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = d.Close() })
	parts := backendtest.Parts(int64(len(data)), part)
	receipts := make([]mover.Receipt, len(parts))
	var g errgroup.Group
	g.SetLimit(partsInFlight)
	for i, q := range parts {
		g.Go(func() (err error) {
			receipts[i], err = d.WritePart(t.Context(), q, backendtest.NewFeed(data[q.Off:q.Off+q.Length]))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return d, err
	}
	if err := d.Finish(t.Context(), fileEntry("f", data), receipts); err != nil {
		return d, err
	}
	return d, tried.Publish(t.Context(), []mover.Draft{d})[0].Err
}

var atOnce = retry.Options{First: time.Millisecond, Longest: time.Millisecond}

// TestTokenEnds: a session that ends in the middle of an upload costs the parts that were on their
// way, and nothing else: one renewal, each part taken once, and the same bytes.
func TestTokenEnds(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range clients {
		for _, status := range []int{http.StatusBadRequest, http.StatusForbidden} {
			t.Run(fmt.Sprint(client, " ", status), func(t *testing.T) {
				l, s, asked := newSTS(t, server, client, status, func(s *sts, _ int64) (s3api.Keys, error) { return s.keys(2), nil })
				s.ends = 3
				data := session(l.Backend)
				if _, err := uploadTried(t, l.Backend, data, atOnce); err != nil {
					t.Fatal(err)
				}
				took, refused, twice := s.counts()
				if took != partsOfSession || len(twice) > 0 || refused == 0 || refused > partsInFlight || asked.Load() != 2 {
					t.Errorf("%d parts were taken, %d refused, %q twice; %d renewals", took, refused, twice, asked.Load()-1)
				}
				if got := backendtest.Read(t, l.Backend, "f"); string(got) != string(data) {
					t.Error("what is there differs")
				}
				for stray := range strays(t, s3test.Open(t, l.options)) {
					t.Errorf("left %+v", stray)
				}
			})
		}
	}
}

// TestTokenEndsAtHead: an answer that has no body to say why is understood as well, and
// one that means something else is not taken for it.
func TestTokenEndsAtHead(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range clients {
		for _, status := range []int{http.StatusBadRequest, http.StatusForbidden} {
			t.Run(fmt.Sprint(client, " ", status), func(t *testing.T) {
				l, s, asked := newSTS(t, server, client, status, func(s *sts, _ int64) (s3api.Keys, error) { return s.keys(2), nil })
				data := backendtest.Pattern(1000)
				publish(t, l.Backend, drafted(t, l.Backend, "f", data), "f", data)
				s.mu.Lock()
				s.good = 2
				s.mu.Unlock()
				tried := retry.New(l.Backend, atOnce)
				if e, err := tried.Stat(t.Context(), "f"); err != nil || e.Size != 1000 || asked.Load() != 2 {
					t.Errorf("%+v, %v, after %d renewals", e, err, asked.Load()-1)
				}
				l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
					errorDocument(w, http.StatusForbidden, "AccessDenied")
					return true
				})
				if _, err := l.Stat(t.Context(), "f"); !errors.Is(err, mover.ErrPermission) || errors.Is(err, mover.ErrTransient) || asked.Load() != 2 {
					t.Errorf("what may not be read: %v, after %d renewals", err, asked.Load()-1)
				}
			})
		}
	}
}

// TestTokenEndsAtUnlock: a lock is given back although the session that took it has ended.
func TestTokenEndsAtUnlock(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			l, s, _ := newSTS(t, server, client, http.StatusBadRequest, func(s *sts, _ int64) (s3api.Keys, error) { return s.keys(2), nil })
			owner := mover.WriterID{Task: "session", Epoch: 1}
			_, unlock, err := l.Lock(t.Context(), "", owner)
			must.Do(t, err)
			s.mu.Lock()
			s.good = 2
			s.mu.Unlock()
			if err := unlock(); err != nil {
				t.Errorf("unlock: %v", err)
			}
			_, again, err := l.Lock(t.Context(), "", owner)
			if err == nil {
				err = again()
			}
			if err != nil {
				t.Errorf("it is still held: %v", err)
			}
		})
	}
}

// TestTokenComesLate: while no other keys can be had, no byte is sent with those that have
// ended; it is tried again as long as retry does, and is then one of permission.
func TestTokenComesLate(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			down := errors.New("the endpoint of STS does not answer")
			l, s, asked := newSTS(t, server, client, http.StatusBadRequest, func(*sts, int64) (s3api.Keys, error) { return s3api.Keys{}, down })
			s.ends = 3
			data := session(l.Backend)
			few := retry.Options{Tries: 3, First: time.Millisecond, Longest: time.Millisecond}
			d, err := uploadTried(t, l.Backend, data, few)
			if !errors.Is(err, mover.ErrPermission) || mover.KindName(err) != "PERMISSION" || !strings.Contains(err.Error(), down.Error()) {
				t.Errorf("without other keys: %v", err)
			}
			_, refused, _ := s.counts()
			if refused > partsInFlight || asked.Load() < 2 || asked.Load() > 3 {
				t.Errorf("%d parts were sent with what had ended, and it was asked %d times", refused, asked.Load())
			}
			s.mu.Lock()
			s.good = 1 // the store takes them again: so that the test can clean up
			s.mu.Unlock()
			if d == nil {
				t.Fatal("there is no draft")
			}
		})
	}
}

// TestKeyFileInTheMiddle: a file that somebody rewrites is read again as soon as the
// store says that its keys have ended, and not only half a minute later.
func TestKeyFileInTheMiddle(t *testing.T) {
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			server := s3test.Start(t, false)
			l := newLiarOf(t, server, client)
			s := &sts{t: t, access: server.Access, secret: server.Secret, status: http.StatusBadRequest, good: 1, ends: 3, took: map[string]int{}, refused: map[string]int{}}
			path := filepath.Join(t.TempDir(), "keys.env")
			write := func(n int) {
				k := s.keys(n)
				text := fmt.Sprintf("AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\nAWS_SESSION_TOKEN=%s\n", k.AccessKey, string(k.SecretKey), string(k.SessionToken))
				must.Tell(t, errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)))
			}
			write(1)
			var refusals atomic.Int64
			l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
				if s.serve(w, r, forward) && refusals.Add(1) == 1 {
					write(2) // the other one is always a little late
				}
				return true
			})
			l.options.Credentials = "file:" + path
			p := s3test.Open(t, l.options)
			data := session(p)
			if _, err := uploadTried(t, p, data, atOnce); err != nil {
				t.Fatal(err)
			}
			took, refused, twice := s.counts()
			if took != partsOfSession || len(twice) > 0 || refused == 0 || refused > partsInFlight {
				t.Errorf("%d parts were taken, %d refused, %q twice", took, refused, twice)
			}
			if got := backendtest.Read(t, p, "f"); string(got) != string(data) {
				t.Error("what is there differs")
			}
		})
	}
}

// TestTokenOfNobodyElse: keys that nothing follows are refused at once.
func TestTokenOfNobodyElse(t *testing.T) {
	for _, client := range clients {
		l := newLiar(t, client)
		l.options.KeyText = "AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY=s\nAWS_SESSION_TOKEN=t\n"
		l.lie(status(http.StatusBadRequest, "ExpiredToken"))
		if _, err := s3.Open(t.Context(), l.options); !errors.Is(err, mover.ErrPermission) || errors.Is(err, mover.ErrTransient) {
			t.Errorf("%s: %v", client, err)
		}
	}
}
