package gpfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// TestRedirect: the password goes to no other host, and not to another address of this one.
func TestRedirect(t *testing.T) {
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was followed") }))
	defer other.Close()
	for _, where := range []string{other.URL + "/scalemgmt/v2/cluster", "/login"} {
		g := newGUI(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, where, http.StatusFound) })
		if _, err := g.FileSystem(t.Context(), "fs1"); !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), where) {
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
	c := must.Get(NewClient(option))(t)
	c.pause = g.pause
	if _, err := c.FileSystem(t.Context(), "fs1"); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("it is %v", err)
	}
}

func TestOptions(t *testing.T) {
	good := credentialsFile(t, "SCALE_USER=a\nSCALE_PASSWORD=b\n")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must.Do(t, os.WriteFile(empty, []byte("nothing"), 0o600))
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
		must.Do(t, os.Chmod(path, mode))
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
	must.Do(t, os.Chown(path, 12345, 12345))
	if _, err := ReadCredentials(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("it is %v", err)
	}
}

// TestNewPassword: a password that was changed counts at once.
func TestNewPassword(t *testing.T) {
	g := newGUI(t, say(200, fixture(t, "rest/filesystem.json")))
	must.Do(t, os.WriteFile(g.option.CredentialsFile, []byte("SCALE_USER=gone"), 0o600))
	if _, err := g.FileSystem(t.Context(), "fs1"); err == nil {
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
			"create": func() error {
				return g.CreateFileset(t.Context(), "fs1", NewFileset{Name: name, Within: "root", Junction: "/x"})
			},
			"create in": func() error {
				return g.CreateFileset(t.Context(), "fs1", NewFileset{Name: "vision", Within: name, Junction: "/x"})
			},
			"link":        func() error { return g.LinkFileset(t.Context(), "fs1", name, "/x") },
			"unlink":      func() error { return g.UnlinkFileset(t.Context(), name, "vision", true) },
			"delete":      func() error { return g.DeleteFileset(t.Context(), "fs1", name) },
			"pools":       func() error { return second(g.Pools(t.Context(), name)) },
			"mmlsfs":      func() error { return second(c.FileSystem(t.Context(), name)) },
			"mmlsfileset": func() error { return second(c.Fileset(t.Context(), "fs1", name)) },
			"mmlsquota":   func() error { _, _, err := c.FilesetQuota(t.Context(), name, "vision"); return err },
			"mmsetquota":  func() error { return c.SetFilesetQuota(t.Context(), "fs1", name, lustre.Limits{}) },
			"mmlspool":    func() error { return second(c.Pools(t.Context(), name)) },
			"mmcrfileset": func() error {
				return c.CreateFileset(t.Context(), "fs1", NewFileset{Name: name, Within: "root", Junction: "/x"})
			},
			"mmdel":    func() error { return c.DeleteFileset(t.Context(), name, "vision") },
			"mmchattr": func() error { return c.place(t.Context(), "/x", name+" ", 1) },
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
		if err := g.CreateFileset(t.Context(), "fs1", NewFileset{Name: "vision", Within: "root", Junction: path}); !errors.Is(err, ErrName) {
			t.Errorf("junction %q of a new one: %v", path, err)
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

// TestPause: it is as long as it was asked for, and ends with the caller.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := pause(t.Context(), 16*time.Second); err != nil || time.Since(begun) != 16*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if err := pause(ctx, time.Hour); err != why || time.Since(begun) != 17*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
