package mover

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
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
