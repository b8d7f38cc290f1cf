package mover

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestStateDir: without HOME it is that of the account, and nothing that the environment says is taken for absolute.
func TestStateDir(t *testing.T) {
	below := func(home string) string { return filepath.Join(home, ".local", "state", "datamove") }
	account := "" // an error
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
		account = below(u.HomeDir)
	}
	for _, row := range []struct{ xdg, home, want string }{
		{"/x", "/h", "/x/datamove"},
		{"", "/h", below("/h")},
		{"x", "/h", below("/h")},
		{"", "", account},
		{"", "h", account},
	} {
		getenv := func(name string) string { return map[string]string{"XDG_STATE_HOME": row.xdg, "HOME": row.home}[name] }
		got, err := StateDir(getenv)
		if got != row.want || (err != nil) != (row.want == "") || err != nil && !errors.Is(err, ErrUsage) {
			t.Errorf("%q, %q: %q, %v", row.xdg, row.home, got, err)
		}
	}
}

// TestMakeStateDir: where commands can not remember anything, the folder is named, and the way out.
func TestMakeStateDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/proc/none/.local/state/datamove/spool", filepath.Join(file, "datamove")} {
		var e *StateDirError
		if err := MakeStateDir(dir); !errors.As(err, &e) || !strings.Contains(err.Error(), dir) || strings.Count(err.Error(), "mkdir") > 0 || !strings.Contains(e.Advice(), "XDG_STATE_HOME") {
			t.Errorf("%s: %v", dir, err)
		} else if kind := KindName(err); kind != "USAGE" {
			t.Errorf("%s: of the kind %s, and what was asked for may be there: %v", dir, kind, err)
		}
	}
	if err := MakeStateDir(filepath.Join(t.TempDir(), "a", "b")); err != nil {
		t.Error(err)
	}
}
