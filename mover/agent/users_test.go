package agent

import (
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover/account"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// The journals of users are where the configuration says, also on another disk than the agent's; each directory is its user's alone.
func TestWhereJournalsAre(t *testing.T) {
	data, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "not/yet")
	who := account.Account{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	for _, row := range []struct{ journals, want string }{{"", filepath.Join(data, "users")}, {elsewhere, elsewhere}} {
		a := &Agent{o: Options{Data: data, Config: func() *config.Config { return &config.Config{Agent: config.Agent{Journals: row.journals}} }}}
		dir := must.Get(a.stateDir(who))(t)
		info := must.Get(os.Stat(dir))(t)
		if filepath.Dir(dir) != row.want || info.Mode().Perm() != 0o700 {
			t.Errorf("%s with %v, want it in %s", dir, info.Mode(), row.want)
		}
	}
}
