// Package mountns runs the tests of root in a mount namespace of their own: what they mount is
// seen by nobody else, and gone with them.
package mountns

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// variable says that this process has a mount namespace of its own.
const variable = "DATAMOVE_APART"

// Main is what a TestMain calls at its end. Without root, tests run where they are, and skip what they can not do.
func Main(m *testing.M) {
	switch {
	case os.Geteuid() != 0:
		os.Exit(m.Run())
	case os.Getenv(variable) == "1":
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(max(1, cmd.ProcessState.ExitCode()))
	}
}
