package gpfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

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
			if calls, _ := g.seen(); len(calls) != c.calls {
				t.Errorf("it was asked %d times, and not %d", len(calls), c.calls)
			}
		})
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
	g := newGUI(t, inTurn(say(429, ``), hold, say(503, ``), say(200, fixture(t, "rest/owner.json"))))
	got, err := g.Owner(t.Context(), "fs1", "a b/%2F..?x#")
	if err != nil || got.User != "ada" {
		t.Errorf("%+v, %v", got, err)
	}
	calls, pauses := g.seen()
	if want := []time.Duration{time.Second, 7 * time.Second, 4 * time.Second}; !reflect.DeepEqual(pauses, want) {
		t.Errorf("it waited %v", pauses)
	}
	// A path is one segment, whatever is in it.
	if want := "GET /scalemgmt/v2/filesystems/fs1/owner/a%20b%2F%252F..%3Fx%23"; len(calls) != 4 || calls[3] != want {
		t.Errorf("it asked %q", calls)
	}
}

// TestLate: a reply that does not come, or does not end, within the time of a call, is
// asked for again and then given up; the caller's own end ends all.
func TestLate(t *testing.T) {
	half := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_, _ = w.Write([]byte(`{"owner":`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for name, handle := range map[string]http.HandlerFunc{"never": never, "half": half} {
		g := newGUI(t, handle)
		g.timeout = 50 * time.Millisecond
		_, err := g.Owner(t.Context(), "fs1", "x")
		if calls, _ := g.seen(); !errors.Is(err, context.DeadlineExceeded) || len(calls) != tries {
			t.Errorf("%s: %v after %d calls", name, err, len(calls))
		}
		if err := g.DeleteFileset(t.Context(), "fs1", "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if calls, _ := g.seen(); len(calls) != tries+1 {
			t.Errorf("%s: a deletion was sent %d times", name, len(calls)-tries)
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
	if _, err := g.Owner(ctx, "fs1", "x"); !errors.Is(err, why) {
		t.Errorf("it is %v", err)
	}
}

func TestPages(t *testing.T) {
	g := newGUI(t, inTurn(say(200, fixture(t, "rest/filesets.json")), say(200, fixture(t, "rest/filesets-2.json"))))
	got, err := g.Filesets(t.Context(), "fs1")
	want := []Fileset{
		{Name: "root", Junction: "/gpfs/fs1", RootInode: 3},
		{Name: "vision", ID: 1, Junction: "/gpfs/fs1/vision", InodeSpace: 1, RootInode: 524291},
		{Name: "old-runs", ID: 7, InodeSpace: 2},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if calls, _ := g.seen(); len(calls) != 2 || calls[1] != "GET /scalemgmt/v2/filesystems/fs1/filesets?fields=%3Aall%3A&lastId=12" {
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

// TestRedirect: the password goes to no other host, and not to another address of this one.
func TestRedirect(t *testing.T) {
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was followed") }))
	defer other.Close()
	for _, where := range []string{other.URL + "/scalemgmt/v2/cluster", "/login"} {
		g := newGUI(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, where, http.StatusFound) })
		if _, err := g.Cluster(t.Context()); !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), where) {
			t.Errorf("it is %v", err)
		}
		if calls, _ := g.seen(); len(calls) != 1 {
			t.Errorf("it asked %q", calls)
		}
	}
}

// TestStranger: who has no certificate that we trust gets nothing.
func TestStranger(t *testing.T) {
	g := newGUI(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	option := g.option
	option.CABundle = ""
	c, err := NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	c.pause = g.pause
	if _, err := c.Cluster(t.Context()); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("it is %v", err)
	}
}

func TestOptions(t *testing.T) {
	good := credentialsFile(t, "SCALE_USER=a\nSCALE_PASSWORD=b\n")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{
		{URL: "http://gui.example.org", CredentialsFile: good},
		{URL: "https://ada:" + testPassword + "@gui.example.org", CredentialsFile: good},
		{URL: "https://gui.example.org/path", CredentialsFile: good},
		{URL: "https://gui.example.org?x=" + testPassword, CredentialsFile: good},
		{URL: "https://", CredentialsFile: good},
		{URL: "::", CredentialsFile: good},
		{URL: "https://gui.example.org"},
		{URL: "https://gui.example.org", CredentialsFile: good + "x"},
		{URL: "https://gui.example.org", CredentialsFile: good, CABundle: good + "x"},
		{URL: "https://gui.example.org", CredentialsFile: good, CABundle: empty},
	} {
		_, err := NewClient(o)
		if err == nil {
			t.Errorf("%+v is taken", o)
		}
		noSecret(t, err)
	}
	if _, err := NewClient(Options{URL: "https://gui.example.org:443/", CredentialsFile: good}); err != nil {
		t.Error(err)
	}
}

func TestCredentials(t *testing.T) {
	c, err := ReadCredentials(credentialsFile(t, "# x\n\nSCALE_USER=mover\r\nOTHER=1\nSCALE_PASSWORD= p=w\" #1 \n"))
	if err != nil || c.user != "mover" || c.password != " p=w\" #1 " {
		t.Errorf("%q %q, %v", c.user, c.password, err)
	}
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %s %q %d", c, c, c, c, c), fmt.Sprintf("%v", struct{ C Credentials }{c})} {
		if strings.Contains(text, "mover") || strings.Contains(text, "p=w") || !strings.Contains(text, "[secret]") {
			t.Errorf("it prints %s", text)
		}
	}
	if text, err := json.Marshal(c); err != nil || string(text) != `"[secret]"` {
		t.Errorf("as JSON it is %s, %v", text, err)
	}
	for _, text := range []string{"", "SCALE_USER=x\n", "SCALE_PASSWORD=" + testPassword, "SCALE_USER=a:b\nSCALE_PASSWORD=" + testPassword,
		strings.Repeat("SCALE_USER="+testPassword+"\n", 10_000)} {
		_, err := ReadCredentials(credentialsFile(t, text))
		if err == nil {
			t.Errorf("%.20q is taken", text)
		}
		noSecret(t, err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o777} {
		path := credentialsFile(t, "SCALE_USER=a\nSCALE_PASSWORD="+testPassword)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadCredentials(path); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if _, err := ReadCredentials(t.TempDir()); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a directory: %v", err)
	}
}

// TestCredentialsOfAnother: a file that somebody else could have put there is not believed.
func TestCredentialsOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	path := credentialsFile(t, "SCALE_USER=a\nSCALE_PASSWORD=b")
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCredentials(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("it is %v", err)
	}
}

// TestNewPassword: a password that was changed counts at once.
func TestNewPassword(t *testing.T) {
	g := newGUI(t, say(200, fixture(t, "rest/owner.json")))
	if err := os.WriteFile(g.option.CredentialsFile, []byte("SCALE_USER=gone"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Owner(t.Context(), "fs1", "x"); err == nil {
		t.Error("the old password was used")
	}
}

// TestHostileNames: no name reaches a resource or an option that was not meant.
func TestHostileNames(t *testing.T) {
	g := newGUI(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("it asked %s", r.URL) })
	c := commands(t)
	for _, name := range []string{"", ".", "..", "-f", "a/b", "a b", "a:b", "a,b", "a?b", "a#b", "a%2fb", "a\nb", "a\x00", "ä", ":all:", strings.Repeat("x", 256)} {
		for what, call := range map[string]func() error{
			"file system": func() error { return second(g.FileSystem(t.Context(), name)) },
			"filesets":    func() error { return second(g.Filesets(t.Context(), name)) },
			"fileset":     func() error { return second(g.Fileset(t.Context(), "fs1", name)) },
			"quota":       func() error { _, _, err := g.FilesetQuota(t.Context(), "fs1", name); return err },
			"set quota":   func() error { return g.SetFilesetQuota(t.Context(), name, "vision", lustre.Limits{}) },
			"create":      func() error { return g.CreateFileset(t.Context(), "fs1", NewFileset{Name: name}) },
			"link":        func() error { return g.LinkFileset(t.Context(), "fs1", name, "/x") },
			"unlink":      func() error { return g.UnlinkFileset(t.Context(), name, "vision", true) },
			"delete":      func() error { return g.DeleteFileset(t.Context(), "fs1", name) },
			"pools":       func() error { return second(g.Pools(t.Context(), name)) },
			"owner":       func() error { return second(g.Owner(t.Context(), name, "x")) },
			"policy":      func() error { return g.InstallPolicy(t.Context(), "fs1", name, "", 1) },
			"partition":   func() error { return second(g.HasPolicy(t.Context(), "fs1", name)) },
			"mmlsfs":      func() error { return second(c.FileSystem(t.Context(), name)) },
			"mmlsfileset": func() error { return second(c.Fileset(t.Context(), "fs1", name)) },
			"mmlsquota":   func() error { _, _, err := c.FilesetQuota(t.Context(), name, "vision"); return err },
			"mmrepquota":  func() error { return second(c.FilesetQuotas(t.Context(), name)) },
			"mmsetquota":  func() error { return c.SetFilesetQuota(t.Context(), "fs1", name, lustre.Limits{}) },
			"mmlspool":    func() error { return second(c.Pools(t.Context(), name)) },
			"mmcrfileset": func() error { return c.CreateFileset(t.Context(), "fs1", NewFileset{Name: name}) },
			"mmdel":       func() error { return c.DeleteFileset(t.Context(), name, "vision") },
			"mmchattr":    func() error { return c.place(t.Context(), "/x", name+" ", 1) },
		} {
			if err := call(); !errors.Is(err, ErrName) {
				t.Errorf("%s with %q: %v", what, name, err)
			}
		}
	}
	for _, path := range []string{"", "x", "/a/../b", "/a//b", "/a/", "/a\nb", "/a\x00b", "-J", "/" + strings.Repeat("x", 5000)} {
		if err := g.LinkFileset(t.Context(), "fs1", "vision", path); !errors.Is(err, ErrName) {
			t.Errorf("junction %q: %v", path, err)
		}
		if _, err := c.Attributes(t.Context(), path); !errors.Is(err, ErrName) {
			t.Errorf("file %q: %v", path, err)
		}
	}
	for _, name := range commandNames {
		if calls := c.called(t, name); len(calls) > 0 {
			t.Errorf("%s was run: %q", name, calls)
		}
	}
}

// TestBodies: what is sent is what the API takes.
func TestBodies(t *testing.T) {
	var sent map[string]any
	g := newGUI(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if r.Method == http.MethodPost || r.Method == http.MethodPut {
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
			return g.CreateFileset(t.Context(), "fs1", NewFileset{Name: "vision", Junction: "/gpfs/fs1/vision", Independent: true, MaxFiles: 1000, UID: 5, GID: 6, Mode: 0o2770, Comment: "c"})
		}, "POST /scalemgmt/v2/filesystems/fs1/filesets", map[string]any{"filesetName": "vision", "path": "/gpfs/fs1/vision", "owner": "5:6", "permissions": "2770", "inodeSpace": "new", "maxNumInodes": "1000", "comment": "c"}},
		{func() error { return g.CreateFileset(t.Context(), "fs1", NewFileset{Name: "vision"}) },
			"POST /scalemgmt/v2/filesystems/fs1/filesets", map[string]any{"filesetName": "vision", "owner": "0:0", "inodeSpace": "root"}},
		{func() error { return g.LinkFileset(t.Context(), "fs1", "vision", "/gpfs/fs1/x") },
			"POST /scalemgmt/v2/filesystems/fs1/filesets/vision/link", map[string]any{"path": "/gpfs/fs1/x"}},
		{func() error { return g.UnlinkFileset(t.Context(), "fs1", "vision", true) },
			"DELETE /scalemgmt/v2/filesystems/fs1/filesets/vision/link?force=True", nil},
		{func() error { return g.DeleteFileset(t.Context(), "fs1", "vision") }, "DELETE /scalemgmt/v2/filesystems/fs1/filesets/vision", nil},
		{func() error { return g.InstallPolicy(t.Context(), "fs1", "datamove", "RULE", 3) },
			"PUT /scalemgmt/v2/filesystems/fs1/policies", map[string]any{"policy": "RULE", "partition": "datamove", "priority": 3.0}},
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
