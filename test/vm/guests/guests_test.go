// Package guests runs what the kernel of a build machine may not be able to do, in
// guests with Debian's stock kernel: make e2e-vm. A guest takes half a minute and more,
// so go test ./... leaves it out: DATAMOVE_VM=1 asks for it. As many guests run beside
// each other as go test -parallel says.
package guests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/test/must"
	"datamove.dev/test/vm"
	"datamove.dev/test/vm/wire"
)

func TestMain(m *testing.M) {
	if os.Getenv("DATAMOVE_VM") != "1" {
		fmt.Println("guests are booted by make e2e-vm")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "datamove-guests-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries.dir, binaries.there = dir, map[string]string{}
	return m.Run()
}

// patience is how long a guest may take, on a host that does other things beside.
const patience = 20 * time.Minute

// guestEnv tells tests that they are in a guest, where nothing may be missing.
var guestEnv = []string{"DATAMOVE_GUEST=1", "DATAMOVE_BIN=/bin", "TMPDIR=/tmp"}

// binaries are the programs for guests. All tests share them, and each is linked once.
var binaries struct {
	dir string

	mu    sync.Mutex
	there map[string]string // by the directory of each; guarded by mu
}

// program is a command of this module, and tests the test binary of a package.
func program(t *testing.T, pkg string) string {
	t.Helper()
	return built(t, "program", pkg, vm.Build)
}

func tests(t *testing.T, pkg string) string {
	t.Helper()
	return built(t, "tests", pkg, vm.BuildTest)
}

func built(t *testing.T, kind, pkg string, build func(dir, pkg string) (string, error)) string {
	t.Helper()
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	dir := filepath.Join(binaries.dir, kind, pkg) // the last names of two packages may be the same
	if path, there := binaries.there[dir]; there {
		return path
	}
	must.Do(t, os.MkdirAll(dir, 0o700))
	path := must.Get(build(dir, "datamove.dev/"+pkg))(t)
	binaries.there[dir] = path
	return path
}

// memory is a directory on a file system in memory.
func memory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "datamove-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		must.Tell(t, os.RemoveAll(dir))
	})
	return dir
}

// image makes a file system in a file, whose options are those of mkfs.
func image(t *testing.T, dir, name, system string, bytes int64, options ...string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	sparse(t, file, bytes)
	usual := map[string][]string{"ext4": {"-q", "-F", "-E", "lazy_itable_init=1,nodiscard"}, "xfs": {"-q", "-f", "-K"}, "btrfs": {"-q", "-f", "-K"}}[system]
	if out, err := exec.Command("mkfs."+system, slices.Concat(usual, options, []string{file})...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.%s: %v\n%s", system, err, out)
	}
	return file
}

// sparse makes a file of zeros that takes no room.
func sparse(t *testing.T, file string, bytes int64) {
	t.Helper()
	must.Do(t, os.WriteFile(file, nil, 0o600))
	must.Do(t, os.Truncate(file, bytes))
}

// boot runs a guest to its end. What its kernel said is shown when a test fails.
func boot(t *testing.T, g *vm.Guest) *vm.Result {
	t.Helper()
	return finish(t, begin(t, g))
}

// begin starts a guest, which ends with the test.
func begin(t *testing.T, g *vm.Guest) *vm.Machine {
	t.Helper()
	g.Init = program(t, "test/vm/init")
	end := time.Now().Add(patience)
	if last, limited := t.Deadline(); limited && last.Before(end) {
		end = last.Add(-5 * time.Second) // there is time to show how far it came
	}
	ctx, cancel := context.WithDeadlineCause(t.Context(), end, fmt.Errorf("it took longer than %v", time.Until(end).Round(time.Second)))
	t.Cleanup(cancel)
	m, err := g.Start(ctx)
	if errors.Is(err, vm.ErrMissing) {
		t.Skip(err)
	}
	must.Do(t, err)
	return m
}

func finish(t *testing.T, m *vm.Machine) *vm.Result {
	t.Helper()
	r, err := m.Wait()
	must.Tell(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the guest's console:\n%s", r.Console)
		}
	})
	return r
}

// whole ends a test whose guest did not come to the end of its commands, and shows how
// far it came.
func whole(t *testing.T, r *vm.Result) {
	t.Helper()
	if r.Failed == "" {
		return
	}
	said(t, r)
	t.Fatal(r.Failed)
}

// said shows what commands said, without the marks by which go test would take the tests of
// a guest for ours.
func said(t *testing.T, r *vm.Result) {
	t.Helper()
	for i, o := range r.Outcomes {
		t.Logf("command %d said:\n%s%s", i, strings.ReplaceAll(vm.Tail(o.Stdout), "\x16", ""), vm.Tail(o.Stderr))
	}
}

// good ends a test of whose guest not every command ended with 0, and shows what they said.
func good(t *testing.T, r *vm.Result) {
	t.Helper()
	whole(t, r)
	if err := r.Err(); err != nil {
		said(t, r)
		t.Fatal(err)
	}
}

// TestBoot: a guest runs programs one after the other, until one fails that is not
// optional, tells what each said, and says how it ended.
func TestBoot(t *testing.T) {
	t.Parallel()
	r := boot(t, &vm.Guest{
		Modules:  []string{"ext4"},
		Programs: []string{"cat", "sh", "sleep"},
		Files:    []vm.File{{Path: "/etc/greeting", Content: "hello\n"}},
		Run: []wire.Command{
			{Args: []string{"/bin/cat", "/etc/greeting", "/proc/modules"}},
			{Args: []string{"/bin/sh", "-c", "echo bad >&2; exit 3"}, Optional: true},
			{Args: []string{"/bin/sh", "-c", "echo $0; sleep 1000", "late"}, Timeout: time.Second, Optional: true},
			{Args: []string{"/bin/nothing"}},
			{Args: []string{"/bin/cat", "/etc/greeting"}},
		},
	})
	whole(t, r)
	if said := r.Outcomes[0].Stdout; !strings.HasPrefix(said, "hello\n") || !strings.Contains(said, "\next4 ") {
		t.Errorf("the first command said %q", said)
	}
	for i, want := range []vm.Outcome{
		{Ended: true, Stdout: r.Outcomes[0].Stdout},
		{Ended: true, Stderr: "bad\n", Exit: wire.Exit{Command: 1, Code: 3, Reason: "exit status 3"}},
		{Ended: true, Stdout: "late\n", Exit: wire.Exit{Command: 2, Code: -1, Reason: "took longer than 1s"}},
		{Ended: true, Exit: wire.Exit{Command: 3, Code: -1, Reason: "fork/exec /bin/nothing: no such file or directory"}},
		{},
	} {
		if r.Outcomes[i] != want {
			t.Errorf("command %d: %+v, want %+v", i, r.Outcomes[i], want)
		}
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "command 1 ended with 3") {
		t.Errorf("the result says %v", err)
	}
}

// TestMount: a guest that can not be made ready says why.
func TestMount(t *testing.T) {
	t.Parallel()
	r := boot(t, &vm.Guest{Run: []wire.Command{{Args: []string{"/bin/sh"}}},
		Mounts: []wire.Mount{{Source: "nothing", Target: "/nowhere", Type: "no such type"}}})
	if !strings.Contains(r.Failed, "mount nothing (no such type) at /nowhere") {
		t.Errorf("the guest failed with %q", r.Failed)
	}
}

// TestKill: a guest is killed, and what it had said until then is known.
func TestKill(t *testing.T) {
	t.Parallel()
	m := begin(t, &vm.Guest{Programs: []string{"sh", "sleep"},
		Run: []wire.Command{{Args: []string{"/bin/sh", "-c", "echo begun; sleep 1000"}}}})
	for m.Said(0) == "" {
		select {
		case <-m.Ended():
			t.Fatal(finish(t, m).Failed)
		case <-time.After(10 * time.Millisecond):
		}
	}
	m.Kill()
	r := finish(t, m)
	if r.Failed != "the guest was killed" || r.Outcomes[0].Stdout != "begun\n" || r.Outcomes[0].Ended {
		t.Errorf("%+v", r)
	}
}
