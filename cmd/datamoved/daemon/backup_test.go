package daemon

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
)

// loggedIn is an environment with nothing but the directory of sockets that systemd makes for each user; root needs none.
func loggedIn(name string) string {
	if name == "XDG_RUNTIME_DIR" {
		return "/nonexistent"
	}
	return ""
}

// command runs a command to its end, in this process.
func command(args ...string) (out string, err error) {
	var said strings.Builder
	a := app{out: &said, err: &said, env: loggedIn}
	err = a.run(context.Background(), args)
	return said.String(), err
}

// What a backup is for: everything that was accepted is there in a new place, and
// agents know the coordinator again.
func TestBackup(t *testing.T) {
	p, head, token := pairOf(t)
	node := agentOf(t, shortDir(t), p.addressOf(), token)
	doWork(t, node, node.started())
	manifest := filepath.Join(p.dir, "data", "manifests", "deadbeef")
	must.Do(t, os.WriteFile(manifest, []byte("a manifest"), 0o600))
	tasks, err := head.ListTasks(t.Context(), &datamovev1.ListTasksRequest{})
	if err != nil || len(tasks.GetTasks()) != 1 {
		t.Fatalf("%v, %v", tasks, err)
	}
	removal, err := head.SubmitTask(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Kind: datamovev1.TaskKind_TASK_KIND_REMOVE, Target: "/nowhere", Node: "n99"}})
	must.Do(t, err)
	data, address := filepath.Join(p.dir, "data"), p.addressOf()
	hot, cold := filepath.Join(p.dir, "hot.tar"), filepath.Join(p.dir, "cold.tar")
	if said, err := command("backup", hot, "--data", data, "--listen", p.socket); err != nil || !strings.HasPrefix(said, "wrote "+hot) {
		t.Fatalf("while it runs: %v: %s", err, said)
	}
	if info, err := os.Stat(hot); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := command("backup", hot, "--data", data, "--listen", p.socket); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("over another backup: %v", err)
	}
	p.signal(syscall.SIGTERM)
	p.code()
	if said, err := command("backup", cold, "--data", data); err != nil {
		t.Fatalf("while it does not run: %v: %s", err, said)
	}
	if _, err := command("restore", hot, "--data", data); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("over a ledger: %v", err)
	}
	for _, file := range []string{hot, cold} {
		dir := shortDir(t)
		if said, err := command("restore", file, "--data", filepath.Join(dir, "data")); err != nil || !strings.Contains(said, "restored the state of") ||
			!strings.Contains(said, "paused, because they remove") || !strings.Contains(said, removal.GetId()+"  remove /nowhere") {
			t.Fatalf("%v: %s", err, said)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "data", "manifests", "deadbeef")); err != nil || string(got) != "a manifest" {
			t.Errorf("%q, %v", got, err)
		}
		again := launch(t, dir, "--listen", address, "--no-agent")
		c := again.started()
		if got, err := c.GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: tasks.GetTasks()[0].GetId()}); err != nil || got.GetState() != datamovev1.TaskState_TASK_STATE_DONE {
			t.Errorf("%v, %v", got, err)
		}
		again.eventually("the agent is back", func() bool {
			l, err := c.ListAgents(t.Context(), &datamovev1.ListAgentsRequest{})
			return err == nil && len(l.GetAgents()) == 1 && l.GetAgents()[0].GetState() == datamovev1.AgentState_AGENT_STATE_READY
		})
		again.signal(syscall.SIGTERM)
		again.code()
	}
}

// archived is a backup of a state that was made by hand, beside a real ledger.
func archived(t *testing.T) []byte {
	t.Helper()
	dir := shortDir(t)
	p := launch(t, dir, "--no-agent")
	p.started()
	p.signal(syscall.SIGTERM)
	p.code()
	file := filepath.Join(dir, "b.tar")
	must.Do(t, os.WriteFile(filepath.Join(dir, "data", "manifests", "m"), bytes.Repeat([]byte("m"), 2000), 0o600))
	if said, err := command("backup", file, "--data", filepath.Join(dir, "data")); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	text := must.Get(os.ReadFile(file))(t)
	return text
}

// A backup that is cut off or changed is not restored, and the service does not start
// with what there is; the good one can be restored there afterwards.
func TestDamagedBackup(t *testing.T) {
	good := archived(t)
	dir := shortDir(t)
	file, data := filepath.Join(dir, "b.tar"), filepath.Join(dir, "data")
	attempt := func(text []byte) error {
		t.Helper()
		must.Do(t, os.WriteFile(file, text, 0o600))
		_, err := command("restore", file, "--data", data)
		return err
	}
	contents := regions(t, good)
	for _, at := range []int{0, 1, 100, 511, 512, 1024, contents["manifests/m"] + 5, contents[sumEntry], contents[ledgerEntry], contents[ledgerEntry] + 10} {
		if err := attempt(good[:at]); err == nil {
			t.Fatalf("cut off at %d: restored", at)
		}
	}
	for name, at := range contents {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		if err := attempt(bad); err == nil {
			t.Fatalf("a bit of %s: restored", name)
		}
	}
	p := launch(t, dir)
	if code := p.code(); code != 9 || !strings.Contains(p.log.String(), "a restore was interrupted, or failed") {
		t.Errorf("it started with what there is: exit %d: %s", code, p.log)
	}
	if err := attempt(good); err != nil {
		t.Errorf("the good one, after all that: %v", err)
	}
	if err := os.WriteFile(filepath.Join(data, markName), nil, 0o600); err != nil { // killed just before the end
		t.Fatal(err)
	}
	if err := attempt(good); err != nil {
		t.Errorf("once more: %v", err)
	}
	launch(t, dir).started()
}

// regions are where the contents of the entries of a tar file begin.
func regions(t *testing.T, text []byte) map[string]int {
	t.Helper()
	r := bytes.NewReader(text)
	all, entries := map[string]int{}, tar.NewReader(r)
	for {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			if len(all) < 4 {
				t.Fatalf("entries: %v", all)
			}
			return all
		}
		must.Do(t, err)
		all[h.Name] = len(text) - r.Len()
	}
}

// A backup from a stranger does not get out of the directory.
func TestHostileBackup(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "../escape", Typeflag: tar.TypeReg}, {Name: "/tmp/escape", Typeflag: tar.TypeReg}, {Name: "manifests/../../escape", Typeflag: tar.TypeReg},
		{Name: "manifests/link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "lock", Typeflag: tar.TypeReg},
		{Name: "audit/audit-1.jsonl", Typeflag: tar.TypeReg}, {Name: "manifests", Typeflag: tar.TypeReg}, {Name: "trust/authority.pem/x", Typeflag: tar.TypeReg},
	} {
		t.Run(h.Name, func(t *testing.T) {
			var text bytes.Buffer
			w := tar.NewWriter(&text)
			about := `{"format":"` + archiveFormat + `"}`
			err := errors.Join(w.WriteHeader(&tar.Header{Name: aboutEntry, Size: int64(len(about)), Mode: 0o600, Typeflag: tar.TypeReg}))
			if err == nil {
				_, err = io.WriteString(w, about)
			}
			must.Do(t, errors.Join(err, w.WriteHeader(&h), w.Close()))
			dir := t.TempDir()
			file := filepath.Join(dir, "b.tar")
			must.Do(t, os.WriteFile(file, text.Bytes(), 0o600))
			said, err := command("restore", file, "--data", filepath.Join(dir, "data"))
			if !errors.Is(err, mover.ErrCorrupt) || !strings.Contains(said, "nothing that a backup has") {
				t.Errorf("%v: %s", err, said)
			}
			for _, escaped := range []string{filepath.Join(dir, "escape"), "/tmp/escape"} {
				if _, err := os.Lstat(escaped); err == nil {
					t.Errorf("%s is there", escaped)
				}
			}
		})
	}
}

// TestBackupAtRest: of a service that does not run it is not asked where it listens.
func TestBackupAtRest(t *testing.T) {
	at := paths{data: filepath.Join(t.TempDir(), "state")}
	must.Get(hold(at.data))(t).release()
	must.Do(t, must.Get(state.Open(filepath.Join(at.data, "ledger"), state.Options{}))(t).Close())
	nowhere := func() ([]string, error) { return nil, mover.Misusef("there is no address") }
	_, done, err := ledgerOf(t.Context(), at, nowhere)
	must.Do(t, err)
	done()
	defer must.Get(hold(at.data))(t).release()
	if _, _, err := ledgerOf(t.Context(), at, nowhere); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("of one that runs: %v", err)
	}
}
