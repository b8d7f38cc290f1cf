// Package guests runs what the kernel of a build machine may not be able to do, in
// guests with Debian's stock kernel: make e2e-vm. A guest takes half a minute and more,
// so go test ./... leaves it out: DATAMOVE_VM=1 asks for it.
package guests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/vm"
	"datamove.dev/test/vm/wire"
)

func TestMain(m *testing.M) {
	if os.Getenv("DATAMOVE_VM") != "1" {
		fmt.Println("guests are booted by make e2e-vm")
		return
	}
	os.Exit(m.Run())
}

// patience is how long a guest may take, on a host that does other things beside.
const patience = 280 * time.Second

// guestEnv tells tests that they are in a guest, where nothing may be missing.
var guestEnv = []string{"DATAMOVE_GUEST=1", "DATAMOVE_BIN=/bin", "TMPDIR=/tmp"}

// built is where the binaries for guests are, which all tests share.
func built(t *testing.T, build func(dir, pkg string) (string, error), pkg string) string {
	t.Helper()
	path, err := build(t.TempDir(), "datamove.dev/"+pkg)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// boot runs a guest to its end. What its kernel said is shown when a test fails.
func boot(t *testing.T, g *vm.Guest) *vm.Result {
	t.Helper()
	return finish(t, begin(t, g))
}

// begin starts a guest, which ends with the test.
func begin(t *testing.T, g *vm.Guest) *vm.Machine {
	t.Helper()
	g.Init = built(t, vm.Build, "test/vm/init")
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("it took longer than %v", patience))
	t.Cleanup(cancel)
	m, err := g.Start(ctx)
	if errors.Is(err, vm.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func finish(t *testing.T, m *vm.Machine) *vm.Result {
	t.Helper()
	r, err := m.Wait()
	if err != nil {
		t.Error(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the guest's console:\n%s", r.Console)
		}
	})
	return r
}

// TestBoot: a guest runs programs one after the other, until one fails that is not
// optional, tells what each said, and says how it ended.
func TestBoot(t *testing.T) {
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
	if r.Failed != "" {
		t.Fatal(r.Failed)
	}
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
	r := boot(t, &vm.Guest{Run: []wire.Command{{Args: []string{"/bin/sh"}}},
		Mounts: []wire.Mount{{Source: "nothing", Target: "/nowhere", Type: "no such type"}}})
	if !strings.Contains(r.Failed, "mount nothing (no such type) at /nowhere") {
		t.Errorf("the guest failed with %q", r.Failed)
	}
}

// TestKill: a guest is killed, and what it had said until then is known.
func TestKill(t *testing.T) {
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
