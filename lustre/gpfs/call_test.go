package gpfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// TestStatuses: what a server answers, and the kind of error that it is.
func TestStatuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   error
		calls  int
	}{
		{"a password that is no good", 401, `{"status":{"code":401,"message":"no"}}`, fs.ErrPermission, 1},
		{"not allowed", 403, `{}`, fs.ErrPermission, 1},
		{"not there", 404, `{}`, fs.ErrNotExist, 1},
		{"not there, in the GUI's way", 400, fixture(t, "rest/bad-request.json"), fs.ErrNotExist, 1},
		{"a request that is refused", 400, `{"status":{"code":400,"message":"no such option"}}`, ErrRefused, 1},
		{"conflict", 409, `{"status":{"code":409,"message":"busy"}}`, ErrConflict, 1},
		{"the server failed", 500, `<html>trace</html>`, ErrServer, 1},
		{"too many", 429, ``, ErrBusy, tries},
		{"not now", 503, `<html>`, ErrBusy, tries},
		{"a proxy without its server", 502, ``, ErrBusy, tries},
		{"sent elsewhere", 302, `<a href>`, ErrReply, 1},
		{"a page instead of a reply", 200, `<!DOCTYPE html><html>log in</html>`, ErrReply, 1},
		{"cut off", 200, `{"filesets":[{"filesetName":"vis`, ErrReply, 1},
		{"two of them", 200, fixture(t, "rest/fileset.json") + "{}", ErrReply, 1},
		{"nothing", 200, ``, ErrReply, 1},
		{"null", 200, `null`, ErrReply, 1},
		{"a list", 200, `[]`, ErrReply, 1},
		{"deep", 200, strings.Repeat("[", 200_000), ErrReply, 1},
		{"says in the body that it failed", 200, `{"filesets":[],"status":{"code":500,"message":"x"}}`, ErrServer, 1},
		{"says in the body that it may not", 200, `{"filesets":[],"status":{"code":403,"message":"x"}}`, fs.ErrPermission, 1},
		{"an empty list", 200, `{"filesets":[],"status":{"code":200,"message":"x"}}`, fs.ErrNotExist, 1},
		{"another one", 200, strings.ReplaceAll(fixture(t, "rest/fileset.json"), `"vision"`, `"other"`), ErrReply, 1},
		{"endless", 200, `{"x":"` + strings.Repeat("y", maxReply) + `"}`, ErrReply, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGUI(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "https://elsewhere.example.org/")
				say(c.status, c.body)(w, r)
			})
			_, err := g.Fileset(t.Context(), "fs1", "vision")
			noSecret(t, err)
			var e *Error
			if !errors.Is(err, c.want) || !errors.As(err, &e) || len(err.Error()) > 1000 {
				t.Errorf("it is %v, and not %v", err, c.want)
			}
			if c.status == 401 && !strings.Contains(err.Error(), g.option.CredentialsFile) {
				t.Errorf("it does not say whose password it is: %v", err)
			}
			if calls, _ := g.seen(); len(calls) != c.calls {
				t.Errorf("it was asked %d times, and not %d", len(calls), c.calls)
			}
		})
	}
}

// TestKinds: what a kernel has a number for is known by it, so that a command ends with the
// right status.
func TestKinds(t *testing.T) {
	for status, want := range map[int]error{409: unix.EBUSY, 429: unix.EHOSTUNREACH, 503: unix.EHOSTUNREACH, 401: fs.ErrPermission, 404: fs.ErrNotExist} {
		_, err := newGUI(t, say(status, `{}`)).FileSystem(t.Context(), "fs1")
		if !errors.Is(err, want) || errors.Is(err, unix.EIO) {
			t.Errorf("%d: %v", status, err)
		}
	}
	g := newGUI(t, never)
	g.server.Close()
	if _, err := g.FileSystem(t.Context(), "fs1"); !errors.Is(err, unix.EHOSTUNREACH) {
		t.Errorf("a server that is not there: %v", err)
	}
	if _, err := g.FileSystem(t.Context(), "-x"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a name that is none: %v", err)
	}
}

// TestChangesAreSentOnce: nobody knows whether what was not answered was done.
func TestChangesAreSentOnce(t *testing.T) {
	for status, times := range map[int]int{500: 1, 502: 1, 503: 1, 504: 1, 429: tries} {
		g := newGUI(t, say(status, `{}`))
		if err := g.DeleteFileset(t.Context(), "fs1", "vision"); err == nil {
			t.Errorf("%d is taken for success", status)
		}
		if calls, _ := g.seen(); len(calls) != times {
			t.Errorf("%d: it was sent %d times, and not %d", status, len(calls), times)
		}
	}
	g := newGUI(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if err := g.LinkFileset(t.Context(), "fs1", "vision", "/gpfs/fs1/vision"); !errors.Is(err, ErrBusy) {
		t.Errorf("a connection that broke: %v", err)
	}
	if calls, _ := g.seen(); len(calls) != 1 {
		t.Errorf("it was sent %d times", len(calls))
	}
}

// TestBusyForAWhile: questions are repeated, later each time, and not before the server says.
func TestBusyForAWhile(t *testing.T) {
	hold := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		say(503, ``)(w, r)
	}
	g := newGUI(t, inTurn(say(429, ``), hold, say(503, ``), say(200, fixture(t, "rest/filesystem.json"))))
	got, err := g.FileSystem(t.Context(), "fs1")
	if err != nil || got.Mount != "/gpfs/fs1" {
		t.Errorf("%+v, %v", got, err)
	}
	calls, pauses := g.seen()
	if want := []time.Duration{time.Second, 7 * time.Second, 4 * time.Second}; !reflect.DeepEqual(pauses, want) {
		t.Errorf("it waited %v", pauses)
	}
	if want := "GET /scalemgmt/v2/filesystems/fs1?fields=%3Aall%3A"; len(calls) != 4 || calls[3] != want {
		t.Errorf("it asked %q", calls)
	}
}

// TestLate: a reply that does not come, or does not end, within the time of a call, is
// asked for again and then given up; the caller's own end ends all.
func TestLate(t *testing.T) {
	half := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_, _ = w.Write([]byte(`{"filesystems":`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for name, handle := range map[string]http.HandlerFunc{"never": never, "half": half} {
		g := newGUI(t, handle)
		g.timeout = 50 * time.Millisecond
		// A call whose time is over before it has a connection is not seen by the server, so
		// the pauses tell how often it was tried.
		_, err := g.FileSystem(t.Context(), "fs1")
		if _, pauses := g.seen(); !errors.Is(err, context.DeadlineExceeded) || len(pauses) != tries-1 {
			t.Errorf("%s: %v after %d pauses", name, err, len(pauses))
		}
		if err := g.DeleteFileset(t.Context(), "fs1", "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if _, pauses := g.seen(); len(pauses) != tries-1 {
			t.Errorf("%s: a deletion was tried again", name)
		}
	}
	for _, c := range reads {
		g := newGUI(t, never)
		g.timeout = 20 * time.Millisecond
		if got, err := c.ask(t, g); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	why := errors.New("the task was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	g := newGUI(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(why)
		<-r.Context().Done()
	})
	if _, err := g.FileSystem(ctx, "fs1"); !errors.Is(err, why) {
		t.Errorf("it is %v", err)
	}
}

func TestPages(t *testing.T) {
	g := newGUI(t, inTurn(say(200, fixture(t, "rest/filesets.json")), say(200, fixture(t, "rest/filesets-2.json")), say(200, fixture(t, "rest/filesets-3.json"))))
	got, err := g.Filesets(t.Context(), "fs1")
	want := []Fileset{
		{Name: "root", Junction: "/gpfs/fs1", RootInode: 3, Independent: true},
		{Name: "vision", ID: 1, Junction: "/gpfs/fs1/vision", RootInode: 524291, InodeSpace: 1, Independent: true},
		{Name: "small_one", ID: 10, Junction: "/gpfs/fs1/small_one", RootInode: 65828},
		{Name: "old-runs", ID: 7, InodeSpace: 2, Independent: true},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if calls, _ := g.seen(); len(calls) != 3 || calls[1] != "GET /scalemgmt/v2/filesystems/fs1/filesets?fields=%3Aall%3A&lastId=12" || !strings.HasSuffix(calls[2], "lastId=14") {
		t.Errorf("it asked %q", calls)
	}

	again := newGUI(t, say(200, fixture(t, "rest/filesets.json")))
	if _, err := again.Filesets(t.Context(), "fs1"); !errors.Is(err, ErrReply) {
		t.Errorf("the same page again: %v", err)
	}
	n := 0
	endless := newGUI(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		say(200, fmt.Sprintf(`{"filesets":[],"paging":{"next":"https://evil.example.org/?lastId=%d"},"status":{"code":200,"message":""}}`, n))(w, r)
	})
	endless.keepAlive(t)
	if _, err := endless.Filesets(t.Context(), "fs1"); !errors.Is(err, ErrReply) || n != maxPages {
		t.Errorf("after %d pages: %v", n, err)
	}
	for _, next := range []string{`"https://x/?a=b"`, `7`, `"%zz"`} {
		broken := newGUI(t, say(200, `{"filesets":[],"paging":{"next":`+next+`},"status":{"code":200,"message":""}}`))
		if _, err := broken.Filesets(t.Context(), "fs1"); !errors.Is(err, ErrReply) {
			t.Errorf("next page %s: %v", next, err)
		}
	}
}

// TestBodies: what is sent is what the API takes.
func TestBodies(t *testing.T) {
	var sent map[string]any
	g := newGUI(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if r.Method == http.MethodPost {
			sent = nil
			if err = errors.Join(err, json.Unmarshal(text, &sent)); err != nil || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %q, %v", r.URL, text, err)
			}
		}
		if r.Method == http.MethodGet {
			say(200, fixture(t, "rest/completed.json"))(w, r)
			return
		}
		say(202, fixture(t, "rest/accepted.json"))(w, r)
	})
	for _, c := range []struct {
		do   func() error
		call string
		want map[string]any
	}{
		{func() error {
			return g.SetFilesetQuota(t.Context(), "fs1", "vision", lustre.Limits{SoftBytes: 1 << 20, HardBytes: 1<<20 + 1, SoftFiles: 0, HardFiles: 7})
		}, "POST /scalemgmt/v2/filesystems/fs1/quotas", map[string]any{"operationType": "setQuota", "quotaType": "fileset", "objectName": "vision",
			"blockSoftLimit": "1024K", "blockHardLimit": "1025K", "filesSoftLimit": "0", "filesHardLimit": "7"}},
		{func() error {
			return g.CreateFileset(t.Context(), "fs1", NewFileset{Name: "vision", Within: "root", Junction: "/gpfs/fs1/vision", Mode: 0o2770})
		}, "POST /scalemgmt/v2/filesystems/fs1/filesets", map[string]any{"filesetName": "vision", "path": "/gpfs/fs1/vision", "owner": "0:0", "permissions": "2770", "inodeSpace": "root"}},
		{func() error { return g.LinkFileset(t.Context(), "fs1", "vision", "/gpfs/fs1/x") },
			"POST /scalemgmt/v2/filesystems/fs1/filesets/vision/link", map[string]any{"path": "/gpfs/fs1/x"}},
		{func() error { return g.UnlinkFileset(t.Context(), "fs1", "vision", true) },
			"DELETE /scalemgmt/v2/filesystems/fs1/filesets/vision/link?force=True", nil},
		{func() error { return g.DeleteFileset(t.Context(), "fs1", "vision") }, "DELETE /scalemgmt/v2/filesystems/fs1/filesets/vision", nil},
	} {
		sent = nil
		before, _ := g.seen()
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.call, err)
		}
		if calls, _ := g.seen(); calls[len(before)] != c.call || !reflect.DeepEqual(sent, c.want) {
			t.Errorf("it sent %s %v, and not %s %v", calls[len(before)], sent, c.call, c.want)
		}
	}
	if err := g.SetFilesetQuota(t.Context(), "fs1", "vision", lustre.Limits{SoftBytes: 2, HardBytes: 1}); !errors.Is(err, ErrName) {
		t.Errorf("a soft limit above the hard one: %v", err)
	}
}
