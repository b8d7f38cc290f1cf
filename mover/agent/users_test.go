package agent

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover/config"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

// The journals of users are where the configuration says, also on another disk than the agent's; each directory is its user's alone.
func TestWhereJournalsAre(t *testing.T) {
	data, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "not/yet")
	who := osaccount.Account{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	for _, row := range []struct{ journals, want string }{{"", filepath.Join(data, "users")}, {elsewhere, elsewhere}} {
		a := &Agent{o: Options{Data: data, Config: func() *config.Config { return &config.Config{Agent: config.Agent{Journals: row.journals}} }}}
		dir, _, err := a.stateDir(who)
		must.Do(t, err)
		info := must.Get(os.Stat(dir))(t)
		if filepath.Dir(dir) != row.want || info.Mode().Perm() != 0o700 {
			t.Errorf("%s with %v, want it in %s", dir, info.Mode(), row.want)
		}
	}
}

// Journals are lent: while an account has a worker its directory is its own, and after the last one it is root's again, also what an agent that was killed
// had lent.
//
//safety:8 with test/cluster TestJournalsQuota
func TestJournalsAreLent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives directories away")
	}
	a := &Agent{o: Options{Data: t.TempDir()}}
	alice := osaccount.Account{UID: 1001, GID: 1001}
	is := func(when, dir string, want uint32) {
		t.Helper()
		var st unix.Stat_t
		must.Do(t, unix.Lstat(dir, &st))
		if st.Uid != want {
			t.Errorf("%s: it is of %d, want %d", when, st.Uid, want)
		}
	}
	dir, back, err := a.stateDir(alice)
	must.Do(t, err)
	_, backOfSecond, err := a.stateDir(alice)
	must.Do(t, err)
	is("two workers", dir, 1001)
	back()
	back()
	is("one worker", dir, 1001)
	must.Do(t, a.journals.takeBack(a.users()))
	is("one worker, looked at again", dir, 1001)
	backOfSecond()
	is("none", dir, 0)
	_, _, err = a.stateDir(alice)
	must.Do(t, err)
	is("the next one", dir, 1001)
	next := &Agent{o: a.o}
	must.Do(t, next.journals.takeBack(next.users()))
	is("the next agent", dir, 0)
}
