package daemon

import (
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/test/kill"
)

// TestFirstThread: no goroutine can hang in the first thread, to which Linux gives signals.
func TestFirstThread(t *testing.T) { kill.FirstThread(t) }

// TestStartsAgainAfterCrash: a process that crashes, as by a write to a mapping on a full disk, ends in a way after which its units start it again.
func TestStartsAgainAfterCrash(t *testing.T) {
	p := launch(t, shortDir(t))
	p.started()
	p.signal(syscall.SIGBUS)
	code := p.code()
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		t.Fatal(p.err)
	}
	if status := exit.Sys().(syscall.WaitStatus); !status.Signaled() && code == 0 {
		t.Fatalf("it ended with %d", code)
	}
	if watch := readUnit(t, "datamove-checkpoint@.service"); !slices.Contains(watch["Environment"], "GOTRACEBACK=crash") { // of another command
		t.Error("systemd does not start a watch again that has crashed")
	}
	for name := range serviceUnits {
		unit := readUnit(t, name)
		if never := strings.Fields(strings.Join(unit["RestartPreventExitStatus"], " ")); slices.Contains(never, strconv.Itoa(code)) || !slices.Contains(unit["Restart"], "on-failure") {
			t.Errorf("%s: systemd does not start it again after %v", name, exit)
		}
	}
}
