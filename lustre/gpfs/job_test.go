package gpfs

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

func setQuota(ctx context.Context, g *gui) error {
	return g.SetFilesetQuota(ctx, "fs1", "vision", lustre.Limits{HardBytes: 1 << 20})
}

// TestJob: what changes something is over when its job is, which is asked for after 2 s and
// then less and less often.
func TestJob(t *testing.T) {
	accepted := say(202, fixture(t, "rest/accepted.json"))
	running := say(200, strings.Replace(fixture(t, "rest/accepted.json"), "202", "200", 1))
	g := newGUI(t, inTurn(accepted, running, running, running, running, running, say(200, fixture(t, "rest/completed.json"))))
	must.Do(t, setQuota(t.Context(), g))
	calls, pauses := g.seen()
	if want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 16 * time.Second, 16 * time.Second}; !reflect.DeepEqual(pauses, want) {
		t.Errorf("it waited %v", pauses)
	}
	if want := "GET /scalemgmt/v2/jobs/2000000011591?fields=%3Aall%3A"; len(calls) != 7 || calls[6] != want {
		t.Errorf("it asked %q", calls)
	}
}

func TestJobEnds(t *testing.T) {
	accepted, failed := fixture(t, "rest/accepted.json"), fixture(t, "rest/failed.json")
	said := func(text string) string {
		return strings.Replace(failed, "EFSSP1102C There is one of that name.", text, 1)
	}
	status := func(word string) string { return strings.Replace(failed, "FAILED", word, 1) }
	for _, c := range []struct {
		name, first, then string
		code              int
		want              error
		never             error
	}{
		{"there is such a fileset", accepted, failed, 200, fs.ErrExist, ErrJobLost},
		{"there is such a directory", accepted, said("EFSSG0762C is there"), 200, fs.ErrExist, nil},
		{"there is none", accepted, said("Invalid value in 'fsetName'"), 200, fs.ErrNotExist, nil},
		{"failed for another reason", accepted, said("EFSSG0019C mmsetquota: no"), 200, ErrRefused, ErrJobLost},
		{"cancelled", accepted, status("CANCELLED"), 200, nil, nil},
		{"failed at once", failed, failed, 200, fs.ErrExist, nil},
		{"a status that is none", accepted, status("WAITING"), 200, ErrJobLost, nil},
		{"unknown", accepted, status("UNKNOWN"), 200, ErrJobLost, nil},
		{"it vanishes", accepted, `{}`, 404, ErrJobLost, fs.ErrNotExist},
		{"we may not ask for it", accepted, `{}`, 403, ErrJobLost, nil},
		{"the server fails", accepted, `{}`, 500, ErrJobLost, nil},
		{"no jobs", accepted, `{"jobs":[],"status":{"code":200,"message":""}}`, 200, ErrJobLost, nil},
		{"two jobs", accepted, strings.Replace(failed, `"jobs": [`, `"jobs": [{"jobId":1,"status":"COMPLETED"},`, 1), 200, ErrJobLost, nil},
		{"another job", accepted, strings.Replace(failed, "2000000011591", "7", 1), 200, ErrJobLost, nil},
		{"taken without a job", `{"status":{"code":202,"message":""}}`, failed, 200, ErrJobLost, nil},
		{"taken with a number that is none", strings.Replace(accepted, "2000000011591", `"2000000011591"`, 1), failed, 200, ErrJobLost, nil},
		{"no status", strings.Replace(accepted, `"RUNNING"`, `null`, 1), failed, 200, ErrJobLost, nil},
		{"a reply that is none", accepted, `<html>`, 200, ErrJobLost, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGUI(t, inTurn(say(202, c.first), say(c.code, c.then)))
			err := setQuota(t.Context(), g)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || c.never != nil && errors.Is(err, c.never) {
				t.Errorf("it is %v", err)
			}
			noSecret(t, err)
			var e *Error
			if c.want == fs.ErrExist && (!errors.As(err, &e) || !strings.HasPrefix(e.Code, "EFSS")) {
				t.Errorf("its code is missing: %v", err)
			}
		})
	}
}

// TestJobOutlives: a job is cancelled when its caller goes, and what became of it is told.
func TestJobOutlives(t *testing.T) {
	job := func(status string) string {
		return strings.Replace(fixture(t, "rest/failed.json"), "FAILED", status, 1)
	}
	why := errors.New("the task was cancelled")
	for _, c := range []struct {
		name   string
		delete http.HandlerFunc
		then   string
		done   bool
		want   error
		never  error
	}{
		{"it is cancelled", say(200, job("CANCELLING")), job("CANCELLED"), false, why, ErrJobLost},
		{"it fails", say(200, job("RUNNING")), job("FAILED"), false, fs.ErrExist, ErrJobLost},
		{"it is done meanwhile", say(200, job("RUNNING")), job("COMPLETED"), true, nil, nil},
		{"it goes on", say(200, job("RUNNING")), job("RUNNING"), false, ErrJobLost, nil},
		{"it can not be cancelled", say(403, `{}`), job("COMPLETED"), false, ErrJobLost, nil},
		{"nobody answers any more", never, job("COMPLETED"), false, ErrJobLost, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			var deleted atomic.Bool
			g := newGUI(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost:
					say(202, fixture(t, "rest/accepted.json"))(w, r)
				case r.Method == http.MethodDelete:
					deleted.Store(r.URL.Path == "/scalemgmt/v2/jobs/2000000011591")
					c.delete(w, r)
				case deleted.Load():
					say(200, c.then)(w, r)
				default:
					cancel(why)
					say(200, job("RUNNING"))(w, r)
				}
			})
			g.keepAlive(t)
			if c.want == ErrJobLost { // it is waited for in vain
				g.timeout = time.Second
			}
			err := setQuota(ctx, g)
			if !deleted.Load() || (err == nil) != c.done || c.want != nil && !errors.Is(err, c.want) || c.never != nil && errors.Is(err, c.never) || err != nil && !errors.Is(err, why) {
				t.Errorf("it is %v", err)
			}
		})
	}
}

// TestJobNumber: both spellings are read.
func TestJobNumber(t *testing.T) {
	other := func(file string) string {
		return strings.ReplaceAll(fixture(t, "rest/"+file), "jobId", "jobid")
	}
	g := newGUI(t, inTurn(say(202, other("accepted.json")), say(200, other("completed.json"))))
	must.Tell(t, setQuota(t.Context(), g))
}
