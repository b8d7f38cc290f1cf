package burst

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
)

const unserved = "kind: Burst\nmetadata: {name: llama}\nspec:\n  team: vision\n  job: {kind: training, gpus: 1}\n  cloud: {tier: aws, region: us-east-1}\n  link: {kind: vpn, rate: 1GB}\n  lasts: 1h\n  results: [{path: r, home: /home/r}]\n"

// TestUnadopted: each burst that was begun without a service, and may cost, is warned of by what is in AWS and by its file, in each state; also where its record can not be read.
func TestUnadopted(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, "datamove", "burst")
	must.Do(t, os.MkdirAll(dir, 0o700))
	b := must.Get(burst.Read("test", []byte(unserved)))(t)
	for state, fs := range map[burst.State]*burst.Made{
		burst.Declared: nil, burst.Creating: {}, burst.Ready: {ID: "fs-0123456789abcdef0"}, burst.Leaving: {ID: "fs-0123456789abcdef1", Gone: true}, burst.Gone: {ID: "fs-0123456789abcdef2", Gone: true},
	} {
		r := burst.Begin(b[0], "ada", burst.Admitted{}, time.Unix(0, 0))
		r.ID, r.State, r.FileSystem = "id-"+string(state), state, fs
		must.Do(t, os.WriteFile(filepath.Join(dir, r.ID+".json"), must.Get(json.Marshal(r))(t), 0o600))
	}
	for name, text := range map[string]string{"half.json": `{"id":"half"`, "odd.json": `{"id":"odd","state":"new"}`, "budget.jsonl": "{}", "llama.lock": "1", "id-taken.json.adopted": "{}"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var said bytes.Buffer
	u := &bursts{App: &cli.App{Err: &said, Quiet: true, Env: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }}}
	u.noteUnadopted()
	lines := strings.Split(strings.TrimSuffix(said.String(), "\n"), "\n")
	for _, want := range []string{
		"(id-declared, declared; no file system and s3 below aws:bursts/llama/, in us-east-1) was begun", "(id-creating, creating; a file system that was asked for and s3", "(id-ready, ready; file system fs-0123456789abcdef0 and s3",
		"(id-leaving, leaving; no file system and s3", "datamove burst adopt " + filepath.Join(dir, "id-ready.json") + " has the service", "look there for the tag datamove.dev/burst=half", "look there for the tag datamove.dev/burst=odd",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("nothing says %q", want)
		}
	}
	if len(lines) != 6 || t.Failed() {
		t.Errorf("%d lines:\n%s", len(lines), said.String())
	}
}

// TestAdoptsNoBusyBurst: a burst on which a process of an earlier version works is not taken over beside it.
func TestAdoptsNoBusyBurst(t *testing.T) {
	dir := t.TempDir()
	b := must.Get(burst.Read("test", []byte(unserved)))(t)
	file := filepath.Join(dir, "x.json")
	must.Do(t, os.WriteFile(file, must.Get(json.Marshal(burst.Begin(b[0], "ada", burst.Admitted{}, time.Unix(0, 0))))(t), 0o600))
	r := must.Get(readRecord(file))(t)
	must.Do(t, r.free())
	lock := must.Get(os.Create(filepath.Join(dir, "llama.lock")))(t)
	must.Do(t, r.free())
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	must.Do(t, unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &whole))
	_ = must.Get(lock.WriteString("42\n"))(t)
	if err := r.free(); !errors.Is(err, mover.ErrHeld) || !strings.Contains(err.Error(), "process 42 of an earlier version works on it") {
		t.Errorf("%v", err)
	}
	must.Do(t, lock.Close())
	must.Do(t, r.free())
}
