package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	prefix = "dmfabric-" // of all that a rig makes
	memory = "/dev/shm"  // where a rig mounts what its nodes write to
)

// mine begins the names of what this process makes: dmfabric-PID-START-.
func mine() string { return fmt.Sprintf("%s%d-%s-", prefix, os.Getpid(), started(os.Getpid())) }

// started is when a process began, in ticks since the boot; "" when there is none.
// With it a number that is used again is not taken for the process that had it before.
func started(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // PID (NAME) STATE ...; see proc_pid_stat(5)
	if err != nil {
		return ""
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const start = 22 - 3
	if len(fields) <= start || slices.Contains([]string{"Z", "X"}, string(fields[0])) {
		return ""
	}
	return string(fields[start])
}

// orphan reports whether a name is of a rig whose process has ended.
func orphan(name string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	fields := strings.Split(rest, "-")
	if !ok || len(fields) < 3 {
		return false
	}
	pid, err := strconv.Atoi(fields[0])
	return err == nil && pid > 0 && started(pid) != fields[1]
}

// Sweep removes what rigs have left whose process was killed.
func Sweep(ctx context.Context) error { return sweep(ctx, orphan) }

// sweep ends the processes in the namespaces that are meant, and removes them and
// the directories.
func sweep(ctx context.Context, meant func(name string) bool) error {
	var failed error
	for _, name := range entries("/run/netns", meant) {
		failed = errors.Join(failed, end(ctx, name), tool(ctx, "", "ip", "netns", "delete", name))
	}
	for _, name := range entries(memory, meant) {
		failed = errors.Join(failed, unmount(filepath.Join(memory, name)))
	}
	return failed
}

func unmount(dir string) error {
	if err := unix.Unmount(dir, 0); err != nil && err != unix.EINVAL { // it is not mounted
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return os.Remove(dir)
}

func entries(dir string, meant func(name string) bool) (names []string) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil // it is made with the first namespace
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), prefix) && meant(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// end kills every process of a namespace and waits for their end. There are none
// but those of its rig.
func end(ctx context.Context, space string) error {
	out, err := exec.CommandContext(ctx, "ip", "netns", "pids", space).Output()
	if err != nil {
		return fmt.Errorf("ip netns pids %s: %w", space, err)
	}
	var failed error
	for text := range strings.FieldsSeq(string(out)) {
		pid, err := strconv.Atoi(text)
		if err == nil {
			err = kill(pid)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("kill %s in %s: %w", text, space, err))
		}
	}
	return failed
}

// kill ends a process, and returns when it is gone.
func kill(pid int) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(process)
	if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return err
	}
	return gone(process)
}

// gone waits until a process has ended.
func gone(process int) error {
	const patience = 10_000 // ms
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, patience)
		switch {
		case err == unix.EINTR:
		case err == nil && n == 0:
			return errors.New("it does not die")
		default:
			return err
		}
	}
}

// Available says what this machine lacks for a rig, or nil.
func Available(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes network namespaces")
	}
	for _, name := range []string{"ip", "tc", "iperf3"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is missing: test/setup installs it", name)
		}
	}
	if info, err := os.Stat(memory); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no file system in memory at %s", memory)
	}
	space := mine() + "0-probe"
	if err := tool(ctx, "", "ip", "netns", "add", space); err != nil {
		return fmt.Errorf("no network namespaces: %w", err)
	}
	err := tool(ctx, "qdisc add dev lo root "+Link{}.tbf()+"\n", "tc", "-n", space, "-batch", "-")
	if err != nil {
		err = fmt.Errorf("links can not be shaped: %w", err)
	}
	return errors.Join(err, tool(ctx, "", "ip", "netns", "delete", space))
}
