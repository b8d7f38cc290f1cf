//go:build linux

// Command init is process 1 of a test guest: it loads modules, mounts, runs the
// commands of its job one after the other, tells what they say, and switches the
// machine off. See datamove.dev/test/vm for the host's side.
//
// The process that the kernel starts does nothing but reap: it starts itself once
// more as the one that works, so that waiting for a command and reaping what
// others left do not get in each other's way.
package main

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if os.Getpid() != 1 {
		work()
		return
	}
	if err := reap(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Fprintln(os.Stderr, "init: power off:", err)
	}
	// The kernel panics when process 1 ends, and the host has asked it to stop then.
}

// reap starts the process that works, and waits for it and for every orphan.
func reap() error {
	child, err := syscall.ForkExec("/init", []string{"/init"}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return fmt.Errorf("start the process that works: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == child && status.ExitStatus() != 0:
			return fmt.Errorf("the process that works ended: exit %d, signal %d", status.ExitStatus(), status.Signal())
		case pid == child:
			return nil
		}
	}
}
