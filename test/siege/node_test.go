package siege

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/crash/rig"
)

// node is an agent as a process.
type node struct {
	site *site
	name string
	wire *wire
	run  *rig.Run
}

func (n *node) socket() string { return "unix://" + n.site.path(n.name+".sock") }

// start starts the agent, or starts it again.
func (n *node) start() {
	n.site.t.Helper()
	config := "config.yaml"
	if n.site.disks {
		config = "config-" + n.name + ".yaml"
	}
	n.run = n.site.service.Start(n.site.t, "--config", n.site.path(config), "--data", n.site.path(n.name), "--node", n.name,
		"--listen", n.socket(), "--join", "tcp://"+n.wire.address(), "--token-file", n.site.path(n.name+".token"))
}

// ready waits until the coordinator gives the node work.
func (n *node) ready() {
	n.site.t.Helper()
	n.site.eventually("node "+n.name+" is ready", func() bool { return n.site.state(n.name) == pb.AgentState_AGENT_STATE_READY })
}

// kill kills the agent. Its workers end with it.
func (n *node) kill() {
	n.site.t.Helper()
	n.run.Signal(syscall.SIGKILL)
	n.run.Wait()
}

// sleep stops the agent, and then every worker of it: it comes to nothing any more.
// The processes that were stopped are returned.
func (n *node) sleep() (pids []int) {
	n.site.t.Helper()
	n.run.Signal(syscall.SIGSTOP)
	pids = append([]int{n.run.PID()}, workers(n.run.PID())...)
	n.site.t.Cleanup(func() { n.wake(pids) }) // who is stopped does not end
	for _, pid := range pids[1:] {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			n.site.t.Fatal(err)
		}
	}
	for _, pid := range pids {
		n.site.eventually(fmt.Sprintf("process %d sleeps", pid), func() bool { return field(pid, 2) == "T" })
	}
	return pids
}

// wake has stopped processes go on, the workers first, which want to publish.
func (n *node) wake(pids []int) {
	n.site.t.Helper()
	for i := len(pids) - 1; i >= 0; i-- {
		if err := unix.Kill(pids[i], unix.SIGCONT); err != nil && err != unix.ESRCH {
			n.site.t.Fatal(err)
		}
	}
}

// workers are the processes that a process has started.
func workers(of int) (pids []int) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && field(pid, 3) == strconv.Itoa(of) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// field is one of /proc/PID/stat, as proc_pid_stat(5) counts them from the state (2
// here, its name being 1) on; "" when the process is gone.
func field(pid, i int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(text), ") ") // a name may have spaces
	fields := strings.Fields(after)
	if i-2 >= len(fields) {
		return ""
	}
	return fields[i-2]
}
