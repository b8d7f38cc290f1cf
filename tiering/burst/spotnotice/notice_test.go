package spotnotice

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst/spotnotice/noticetest"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_DISABLED", "HTTP_PROXY", "http_proxy"} {
		_ = os.Unsetenv(name) // nothing of the host's
	}
	os.Exit(m.Run())
}

// TestRead: what the service says, by item.
func TestRead(t *testing.T) {
	at := func(text string) time.Time {
		when := must.Get(time.Parse(time.RFC3339, text))(t)
		return when
	}
	for _, c := range []struct {
		what, path, text string
		want             Notice
		given, fails     bool
	}{
		{"a spot instance goes", "spot/instance-action", `{"action": "terminate", "time": "2017-09-18T08:22:00Z"}`, Notice{Interruption, Terminate, at("2017-09-18T08:22:00Z")}, true, false},
		{"it is stopped", "spot/instance-action", `{"action":"stop","time":"2017-09-18T10:22:00+02:00","more":1}`, Notice{Interruption, Stop, at("2017-09-18T08:22:00Z")}, true, false},
		{"it sleeps", "spot/instance-action", `{"action":"hibernate","time":"2017-09-18T08:22:00Z"}`, Notice{Interruption, Hibernate, at("2017-09-18T08:22:00Z")}, true, false},
		{"another action", "spot/instance-action", `{"action":"\u001b[2J","time":"2017-09-18T08:22:00Z"}`, Notice{}, false, true},
		{"no time", "spot/instance-action", `{"action":"stop","time":"soon"}`, Notice{}, false, true},
		{"another age", "spot/instance-action", `{"action":"stop","time":"0001-09-18T08:22:00Z"}`, Notice{}, false, true},
		{"no JSON", "spot/instance-action", `<html>`, Notice{}, false, true},
		{"two of them", "spot/instance-action", `{"action":"stop","time":"2017-09-18T08:22:00Z"}{}`, Notice{}, false, true},
		{"it may go", "events/recommendations/rebalance", `{"noticeTime":"2020-10-27T08:22:00Z"}`, Notice{Kind: Rebalance}, true, false},
		{"no time of it", "events/recommendations/rebalance", `{}`, Notice{}, false, true},
		{"a group ends it", "autoscaling/target-lifecycle-state", "Terminated\n", Notice{Kind: Lifecycle, Action: Terminate}, true, false},
		{"a warm pool stops it", "autoscaling/target-lifecycle-state", "Warmed:Stopped", Notice{Kind: Lifecycle, Action: Stop}, true, false},
		{"it serves", "autoscaling/target-lifecycle-state", "InService", Notice{}, false, false},
		{"no state", "autoscaling/target-lifecycle-state", "Gone", Notice{}, false, true},
		{"the first event", "events/maintenance/scheduled", `[{"Code":"instance-stop","NotBefore":"22 Jan 2019 09:00:43 GMT","State":"active"},
			{"Code":"system-reboot","NotBefore":"1 Jan 2019 09:00:43 GMT","State":"completed"},
			{"NotBefore":"21 Jan 2019 09:00:43 GMT","Code":"system-reboot","Description":"scheduled reboot","EventId":"instance-event-0d59937288b749b32","NotAfter":"21 Jan 2019 09:17:23 GMT","State":"active"}]`,
			Notice{Maintenance, Reboot, at("2019-01-21T09:00:43Z")}, true, false},
		{"no event", "events/maintenance/scheduled", `[]`, Notice{}, false, false},
		{"an event of another kind", "events/maintenance/scheduled", `[{"Code":"party","NotBefore":"21 Jan 2019 09:00:43 GMT"}]`, Notice{}, false, true},
		{"too many", "events/maintenance/scheduled", `[` + strings.Repeat(`{},`, scheduledMost) + `{}]`, Notice{}, false, true},
	} {
		i := slices.IndexFunc(items, func(it item) bool { return it.path == c.path })
		n, given, err := items[i].read([]byte(c.text))
		if given != c.given || (err != nil) != c.fails || given && n != c.want {
			t.Errorf("%s: %v, %v, %v", c.what, n, given, err)
		}
		if err != nil && strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%s: it prints control bytes: %q", c.what, err)
		}
	}
}

// FuzzRead: whatever the service says, a notice has a kind and an action that there is, and an error no control bytes.
//
//safety:5/jobs with tiering/checkpoint/replicate TestAlarm
func FuzzRead(f *testing.F) {
	for i, text := range []string{`{"action":"stop","time":"2017-09-18T08:22:00Z"}`, "Terminated", `[{"Code":"system-reboot","NotBefore":"21 Jan 2019 09:00:43 GMT"}]`, `{"noticeTime":"2020-10-27T08:22:00Z"}`} {
		f.Add(uint8(i), []byte(text))
	}
	f.Fuzz(func(t *testing.T, i uint8, text []byte) {
		n, given, err := items[int(i)%len(items)].read(text)
		if given && (err != nil || n.Kind == "" || !slices.Contains([]Action{Unknown, Terminate, Stop, Hibernate, Reboot}, n.Action)) {
			t.Errorf("%v, %v", n, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\n\x00") {
			t.Errorf("%q", err)
		}
	})
}

// world is a watcher of a service, with virtual time.
type world struct {
	server *noticetest.Server
	log    bytes.Buffer
	mu     sync.Mutex
	told   []Notice
}

// run begins a watcher. end ends it, and returns what it ended with.
func (w *world) run(t *testing.T, h http.Handler, insists bool) (end func() error) {
	through, done := noticetest.Pipe(h)
	watcher := Watcher{Endpoint: "http://metadata", Insists: insists, Through: through, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- watcher.Run(ctx, func(n Notice) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, n)
		})
	}()
	return func() error {
		cancel()
		err := <-ended
		done()
		return err
	}
}

func (w *world) heard() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.told)
}

// TestRun: notices are told within 5 seconds, each once, and a changed one again; tokens end and are got again; a service that refuses for a while is said once.
//
//safety:5/jobs with tiering/checkpoint/replicate TestAlarm
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{server: &noticetest.Server{}}
		end := w.run(t, w.server, false)
		until := func(what string, n int) {
			t.Helper()
			time.Sleep(Every + time.Second)
			synctest.Wait()
			if w.heard() != n {
				t.Fatalf("%s: %v", what, w.told)
			}
		}
		until("nothing is given", 0)
		goes := time.Now().Add(2 * time.Minute).Truncate(time.Second).UTC()
		w.server.Set("events/recommendations/rebalance", `{"noticeTime":"2020-10-27T08:22:00Z"}`)
		until("it may go", 1)
		w.server.Interrupt("terminate", goes)
		until("it goes", 2)
		until("that is told once", 2)
		w.server.Forget()
		w.server.Interrupt("terminate", goes.Add(-time.Minute))
		until("it goes sooner, and the token is no longer good", 3)
		if w.told[1] != (Notice{Interruption, Terminate, goes}) || w.told[2].When != goes.Add(-time.Minute) {
			t.Errorf("%v", w.told)
		}
		w.server.Refuse(http.StatusServiceUnavailable)
		until("it refuses", 3)
		until("it refuses", 3)
		w.server.Refuse(0)
		until("it is back", 3)
		was, _ := w.server.Asked()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		items, tokens := w.server.Asked()
		if n := len(items) - len(was); n < 4*115 || n > 4*125 {
			t.Errorf("%d questions in ten minutes", n)
		}
		if tokens < 3 || tokens > 6 {
			t.Errorf("%d tokens", tokens)
		}
		if err := end(); err != nil {
			t.Errorf("it was told to end: %v", err)
		}
		if n := strings.Count(w.log.String(), "item=spot/instance-action"); n != 2 {
			t.Errorf("it is said %d times that the service is away, and back:\n%s", n, &w.log)
		}
	})
}

// TestAway: where there is no such service, or one of another form, Run ends after one question; who insists goes on.
//
//safety:5/jobs with tiering/checkpoint/replicate TestAlarm
func TestAway(t *testing.T) {
	for what, h := range map[string]http.HandlerFunc{
		"it hangs":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"the first only": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"its tokens do not come as far as here": func(w http.ResponseWriter, r *http.Request) { // the hop limit, HttpPutResponseHopLimit
			if r.Method == http.MethodPut {
				<-r.Context().Done()
			}
			http.Error(w, "", http.StatusUnauthorized)
		},
		"it refuses": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusForbidden) },
		"it sends us away": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere/", http.StatusTemporaryRedirect)
		},
		"it never ends": endless,
	} {
		synctest.Test(t, func(t *testing.T) {
			w, began := &world{}, time.Now()
			through, done := noticetest.Pipe(h)
			defer done()
			watcher := Watcher{Endpoint: "http://metadata", Through: through}
			if err := watcher.Run(t.Context(), nil); err == nil || time.Since(began) > Patience {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
			server := &noticetest.Server{}
			server.Refuse(http.StatusForbidden)
			end := w.run(t, server, true)
			time.Sleep(time.Minute)
			server.Refuse(0)
			server.Interrupt("stop", time.Now())
			time.Sleep(Every)
			synctest.Wait()
			if err := end(); err != nil || w.heard() != 1 {
				t.Errorf("%s: who insists hears %v, %v", what, w.told, err)
			}
		})
	}
}

// TestThrottled: a service that can not answer at first (503: "retry the request") is there.
//
//safety:5/jobs with tiering/checkpoint/replicate TestAlarm
func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{server: &noticetest.Server{}}
		w.server.Refuse(http.StatusServiceUnavailable)
		end := w.run(t, w.server, false)
		time.Sleep(time.Minute)
		w.server.Refuse(0)
		w.server.Interrupt("terminate", time.Now())
		time.Sleep(Every)
		synctest.Wait()
		if err := end(); err != nil || w.heard() != 1 {
			t.Errorf("%v, %v", w.told, err)
		}
	})
}

// endless is a service whose replies do not end.
func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
	for r.Context().Err() == nil {
		if _, err := w.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
			return
		}
	}
}

// TestNobody: an address at which nobody listens is a place that can not be reached.
func TestNobody(t *testing.T) {
	server := http.Server{}
	through, done := noticetest.Pipe(server.Handler)
	done()
	watcher := Watcher{Endpoint: "http://metadata", Through: through}
	if err := watcher.Run(t.Context(), nil); !errors.Is(err, mover.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}
