package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// TestEveryKindHasACode fails when mover has a kind of error that exits has not.
func TestEveryKindHasACode(t *testing.T) {
	for _, kind := range mover.Kinds() {
		i := slices.IndexFunc(exits, func(e exit) bool { return errors.Is(kind, e.kind) })
		if i < 0 {
			t.Errorf("%v has no exit code", kind)
			continue
		}
		if got := exitCode(fmt.Errorf("open: %w", kind)); got != exits[i].code {
			t.Errorf("%v: exit %d", kind, got)
		}
	}
	if exitCode(nil) != 0 || exitCode(errors.New("?")) != 1 || exitCode(mover.Misusef("x")) != 2 {
		t.Error("nil, others or usage")
	}
}

// Where it lives: flags before the configuration before systemd before what is usual.
func TestPlace(t *testing.T) {
	root := os.Geteuid() == 0
	usual, usualSocket := "/h/.local/state/datamove/service", "unix:///x/datamove/datamoved.sock"
	if root {
		usual, usualSocket = "/var/lib/datamove", "unix:///run/datamove/datamoved.sock"
	}
	systemd := map[string]string{"STATE_DIRECTORY": "/var/lib/d", "RUNTIME_DIRECTORY": "/run/d", "HOME": "/h", "XDG_RUNTIME_DIR": "/x"}
	home := map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/x"}
	conf := &config.Config{Data: "/conf", Listen: []string{"unix:///conf/s"}, Node: "conf", Metrics: "127.0.0.1:1"}
	for name, row := range map[string]struct {
		flags  flags
		conf   *config.Config
		env    map[string]string
		data   string
		listen string
	}{
		"usual":   {flags{}, &config.Config{}, home, usual, usualSocket},
		"systemd": {flags{}, &config.Config{}, systemd, "/var/lib/d", "unix:///run/d/datamoved.sock"},
		"config":  {flags{}, conf, systemd, "/conf", "unix:///conf/s"},
		"flags":   {flags{data: "/flag", listen: []string{"tcp://h:1"}, node: "n"}, conf, systemd, "/flag", "tcp://h:1"},
	} {
		a := app{flags: row.flags, env: func(key string) string { return row.env[key] }}
		at, err := a.place(row.conf)
		if err != nil || at.data != row.data || !slices.Equal(at.listen, []string{row.listen}) || at.page != row.conf.Metrics {
			t.Errorf("%s: %+v, %v", name, at, err)
		}
	}
	a := app{flags: flags{node: "../n"}, env: func(string) string { return "/x" }}
	if _, err := a.place(&config.Config{}); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("an odd name: %v", err)
	}
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := must.Get(hold(dir))(t)
	if _, err := hold(dir); !errors.Is(err, mover.ErrHeld) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("a second: %v", err)
	}
	first.release()
	second := must.Get(hold(dir))(t)
	second.release()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must.Do(t, os.Chmod(dir, 0o777))
	if _, err := hold(dir); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("a directory that others can write: %v", err)
	}
}

// Root does not work in the directory of another user, whose service could not
// write there afterwards; it hears who has it all the same.
func TestLockOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to have a directory of another user takes root")
	}
	dir := filepath.Join(t.TempDir(), "state")
	held := must.Get(hold(dir))(t)
	must.Do(t, os.Chown(dir, 23456, 23456))
	if _, err := hold(dir); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("while it is held: %v", err)
	}
	held.release()
	if _, err := hold(dir); !errors.Is(err, mover.ErrPermission) || !strings.Contains(adviceFor(err), "--reuid=23456") {
		t.Errorf("afterwards: %v", err)
	}
}

// A part that ends by itself ends all, in order; when they are told to, each ends
// before those that it needs.
func TestParts(t *testing.T) {
	var order []string
	named := func(name string, err error) *part {
		return until(name, func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, name)
			return err
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	must.Tell(t, attend(ctx, func() { order = append(order, "stopping") }, named("a", nil), named("b", nil)))
	if got := strings.Join(order, " "); got != "stopping a b" {
		t.Errorf("order %q", got)
	}
	order = nil
	broken := begin("c", func() error { return mover.ErrFull }, func() {})
	err := attend(context.Background(), func() {}, named("a", nil), broken, named("b", nil))
	if !errors.Is(err, mover.ErrFull) || strings.Join(order, " ") != "a b" {
		t.Errorf("%v, %q", err, order)
	}
	if err := attend(context.Background(), func() {}, begin("d", func() error { return nil }, func() {})); err == nil || !strings.Contains(err.Error(), "d has ended by itself") {
		t.Errorf("without an error: %v", err)
	}
}

// The certificate of a server on a certain address has it, on all addresses has some.
func TestNames(t *testing.T) {
	if got := namesOf(tcpHosts([]string{"unix:///s", "tcp://head:1", "tcp://[::1]:2"}, nil)); !slices.Equal(got, []string{"::1", "head"}) {
		t.Errorf("%q", got)
	}
	if got := namesOf(tcpHosts([]string{"tcp://0.0.0.0:1"}, nil)); len(got) == 0 || slices.Contains(got, "0.0.0.0") {
		t.Errorf("%q", got)
	}
}

// What a command says, and with which code it ends.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	must.Do(t, os.WriteFile(bad, []byte("roles: {a: {members: [x], may: [task.fly]}}\n"), 0o600))
	for name, row := range map[string]struct {
		args []string
		code int
		says string
	}{
		"an unknown flag":        {[]string{"--fly"}, 2, "try: datamoved --help"},
		"an argument":            {[]string{"fly"}, 2, "unknown command"},
		"a log level":            {[]string{"--log-level", "loud"}, 2, "--log-level is loud"},
		"a log format":           {[]string{"--log-format", "xml"}, 2, "--log-format is xml"},
		"a join without a port":  {[]string{"--join", "head", "--data", dir + "/d"}, 2, "want tcp://host:port"},
		"neither agent nor head": {[]string{"--join", "tcp://head:1", "--no-agent"}, 2, "exclude each other"},
		"a role that is nothing": {[]string{"check", "--config", bad}, 2, "roles.a.may[0]"},
		"no configuration":       {[]string{"check", "--config", dir + "/none"}, 2, "no such file"},
		"no backup":              {[]string{"restore", dir + "/none", "--data", dir + "/d"}, 3, "no such file"},
		"nothing to back up":     {[]string{"backup", dir + "/b", "--data", dir + "/d"}, 3, "no such file"},
		"an address":             {[]string{"--listen", "http://x", "--data", dir + "/e"}, 2, "want unix:///path or tcp://host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			a := app{out: io.Discard, err: &said, env: loggedIn}
			err := a.run(t.Context(), row.args)
			if code := exitCode(err); code != row.code || !strings.Contains(said.String(), row.says) {
				t.Errorf("exit %d: %s", code, said.String())
			}
		})
	}
}
