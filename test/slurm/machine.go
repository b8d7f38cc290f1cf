package slurm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// machine is a process 1 with processes, mounts, a network and a name of its own.
type machine struct {
	number  int
	one     *process           // nil when it is off
	daemons map[string]*Daemon // that it has, by their names

	asking  sync.Mutex
	console *console // of the controller, when it was asked; guarded by asking
}

func (m *machine) name() string { return MachineName(m.number) }

// MachineName is that of node n, from 1 on, or of the controller.
func MachineName(n int) string {
	if n == Controller {
		return "control"
	}
	return "node" + strconv.Itoa(n)
}

// Address is where machine n is, in the network of the cluster.
func Address(n int) string {
	if n == Controller {
		return "10.98.0.254"
	}
	return "10.98.0." + strconv.Itoa(n)
}

// on starts the machine: a node has the controller's root, with mounts of its own over it, and is joined to its network.
func (m *machine) on(controller *machine, o Options) error {
	text, err := json.Marshal(plan{Number: m.number, Nodes: o.Nodes, Binds: o.Binds, NVMeBytes: o.NVMeBytes})
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS)
	if m != controller {
		cmd = exec.Command("nsenter", "--target", controller.pid(), "--mount", "--", "unshare", "--mount", "--", self)
		flags &^= unix.CLONE_NEWNS
	}
	cmd.Env = []string{"PATH=" + path, isMachine + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	said, err := cmd.StdoutPipe()
	if err == nil {
		m.one, err = begin(cmd)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.name(), err)
	}
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != ready {
		m.off()
		return fmt.Errorf("%s: %w: %s", m.name(), err, complaint.String())
	}
	if m == controller {
		return nil
	}
	_ = controller.ip("link delete " + m.port()) // of when it was on before, if the kernel has not taken that away yet
	return errors.Join(controller.ip("link add "+m.port()+" type veth peer name eth0 netns "+m.pid(), "link set "+m.port()+" master br0 up"),
		m.ip("link set lo up", "address add "+Address(m.number)+"/24 dev eth0", "link set eth0 up"))
}

// port is where a node is joined to the controller's network.
func (m *machine) port() string { return "to-" + m.name() }

// ip runs commands of ip(8) in the network of the machine.
func (m *machine) ip(commands ...string) error {
	for _, c := range commands {
		cmd := exec.Command("nsenter", append([]string{"--target", m.pid(), "--net", "--", "ip"}, strings.Fields(c)...)...)
		cmd.Env = []string{"PATH=" + path}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: ip %s: %w: %s", m.name(), c, err, out)
		}
	}
	return nil
}

// off ends all that runs on the machine, as if power went.
func (m *machine) off() {
	for _, d := range m.daemons {
		_ = d.enter.cmd.Process.Signal(syscall.SIGCONT) // nsenter stops with the program that it waits for, and no machine ends that has one to wait for
	}
	m.asking.Lock()
	if m.console != nil {
		m.console.end()
		m.console = nil
	}
	m.asking.Unlock()
	if m.one != nil {
		m.one.kill()
	}
	for _, d := range m.daemons {
		<-d.enter.ended
	}
	m.one, m.daemons = nil, map[string]*Daemon{}
}

// pid is that of its process 1, as the machine outside counts.
func (m *machine) pid() string { return strconv.Itoa(m.one.cmd.Process.Pid) }

// enter is the command that runs a program in the machine.
func (m *machine) enter(program ...string) (*exec.Cmd, error) {
	if m.one == nil {
		return nil, fmt.Errorf("%s is off", m.name())
	}
	args := append([]string{"--target", m.pid(), "--mount", "--net", "--pid", "--uts", "--"}, program...)
	cmd := exec.Command("nsenter", args...)
	cmd.Env = []string{"PATH=" + path, "LANG=C.UTF-8", "GOGC=400"} // what systemd gives to a service, and what has our programs collect little (test/runner)
	return cmd, nil
}

// process is one that this one has started, and that dies with it.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has been waited for
}

// begin starts a process from a thread that stays, because the death of that would be the signal for the process to die.
func begin(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	begun := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		begun <- err
		if err == nil {
			_ = cmd.Wait() // most are killed
			close(p.ended)
		}
	}()
	return p, <-begun
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// Daemon is a program that goes on in a machine, until it is stopped or the machine is off.
type Daemon struct {
	enter *process // which has started it, and waits for it
}

// daemon starts one. What it prints is in /rig/log of the controller.
func (c *Cluster) daemon(n int, name string, program ...string) error {
	m := c.machines[n]
	cmd, err := m.enter(program...)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.Path(Controller, logFile(n, name)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	p, err := begin(cmd)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", name, m.name(), err)
	}
	m.daemons[name] = &Daemon{p}
	return nil
}

func logFile(n int, name string) string { return filepath.Join("/rig/log", MachineName(n)+"-"+name) }

// Beside starts a program on machine n: an agent, or a coordinator. It ends with the machine.
func (c *Cluster) Beside(n int, name string, program ...string) *Daemon {
	c.t.Helper()
	must.Do(c.t, c.daemon(n, name, program...))
	return c.machines[n].daemons[name]
}

// Signal sends a signal to the program itself.
func (d *Daemon) Signal(s syscall.Signal) error {
	pid := strconv.Itoa(d.enter.cmd.Process.Pid)
	text, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has ended
	}
	for child := range strings.FieldsSeq(string(text)) {
		number, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		if err := syscall.Kill(number, s); err != nil && err != syscall.ESRCH {
			return err
		}
	}
	return err
}

// Kill sends SIGKILL, and waits for the end.
func (d *Daemon) Kill() error { return d.end(syscall.SIGKILL) }

// Stop sends SIGTERM, and waits for the end.
func (d *Daemon) Stop() error { return d.end(syscall.SIGTERM) }

func (d *Daemon) end(s syscall.Signal) error {
	if err := d.Signal(s); err != nil {
		return err
	}
	_ = d.enter.cmd.Process.Signal(syscall.SIGCONT) // nsenter has stopped with the program, and does not go on with it
	<-d.enter.ended
	return nil
}

// Path is where this process finds a file of machine n, which has to be on. An absolute link in it leads elsewhere.
func (c *Cluster) Path(n int, file string) string {
	return filepath.Join("/proc", c.machines[n].pid(), "root", file)
}
