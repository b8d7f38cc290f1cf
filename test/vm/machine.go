package vm

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"datamove.dev/test/vm/wire"
)

// The names in the directory of a machine.
const (
	initramfs = "initramfs"
	console   = "console"
)

// mostOutput is how much one command may say in all, before its machine is stopped.
const mostOutput = 64 << 20

// Machine is a guest that was started.
type Machine struct {
	dir    string
	cmd    *exec.Cmd
	stderr bytes.Buffer // of qemu; read when it has ended
	ended  chan struct{}

	mu     sync.Mutex
	said   []text // guarded by mu, as all below
	failed string
	done   bool // the guest has told its end
	killed bool
}

// text is what a command has said so far, and its end.
type text struct {
	out, err bytes.Buffer
	exit     *wire.Exit
}

func start(ctx context.Context, dir, kernel string, g *Guest) (*Machine, error) {
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return nil, fmt.Errorf("qemu-system-x86_64 %w", ErrMissing)
	}
	m := &Machine{dir: dir, ended: make(chan struct{}), said: make([]text, len(g.Run))}
	m.cmd = exec.CommandContext(ctx, qemu, arguments(dir, kernel, g)...)
	m.cmd.Stderr = &m.stderr
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := m.cmd.StdinPipe(); err != nil { // at its end, the guest's port would have no listener
		return nil, err
	}
	events, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begun := make(chan error)
	go func() {
		runtime.LockOSThread() // the death of this thread would be the signal for the child to die
		defer runtime.UnlockOSThread()
		err := m.cmd.Start()
		begun <- err
		if err == nil {
			m.watch(ctx, events)
		}
	}()
	if err := <-begun; err != nil {
		return nil, fmt.Errorf("start qemu: %w", err)
	}
	return m, nil
}

// arguments is the command line of qemu: a machine with a console, a port for events
// that is qemu's standard output, disks, and a network if it is to have one.
func arguments(dir, kernel string, g *Guest) []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-nographic", "-monitor", "none",
		"-machine", "q35", "-accel", cmp.Or(os.Getenv("DATAMOVE_VM_ACCEL"), "tcg,thread=multi"), "-cpu", "max",
		"-smp", fmt.Sprint(cmp.Or(g.Processors, 2)), "-m", fmt.Sprint(cmp.Or(g.MemoryMiB, 1536)),
		"-kernel", kernel, "-initrd", filepath.Join(dir, initramfs),
		// A panic ends the machine, and so does -no-reboot then. An emulated timer is late on a
		// busy host, which is no reason to take it for broken.
		"-append", "console=ttyS0 loglevel=5 panic=-1 rdinit=/init mitigations=off random.trust_cpu=on no_timer_check",
		"-chardev", "file,id=console,path=" + filepath.Join(dir, console), "-serial", "chardev:console",
		"-device", "virtio-serial-pci", "-chardev", "stdio,id=events,signal=off", "-device", "virtserialport,chardev=events,name=" + wire.Port,
	}
	if g.Network {
		args = append(args, "-netdev", "user,id=network", "-device", "virtio-net-pci,netdev=network,romfile=")
	}
	for i, d := range g.Disks {
		args = append(args, "-blockdev", d.blockdev(i), "-device", fmt.Sprintf("virtio-blk-pci,drive=disk%d,serial=disk%d", i, i))
	}
	return args
}

// blockdev describes a disk. Its writes stay in the host's memory until the guest
// asks for them to be stable, as in the cache of a real disk.
func (d Disk) blockdev(i int) string {
	node := map[string]any{
		"node-name": fmt.Sprint("disk", i), "driver": "raw", "read-only": d.ReadOnly,
		"cache": map[string]bool{"direct": false, "no-flush": false},
		"file":  map[string]any{"driver": "file", "filename": d.File, "locking": "off"},
	}
	if d.Socket != "" {
		node["file"] = map[string]any{"driver": "nbd", "server": map[string]string{"type": "unix", "path": d.Socket}}
	}
	text, err := json.Marshal(node)
	if err != nil {
		panic(err) // strings and booleans have a form in JSON
	}
	return string(text)
}

// watch reads what the guest says until it has ended, and reaps it.
func (m *Machine) watch(ctx context.Context, events io.Reader) {
	defer close(m.ended)
	readErr := m.read(events)
	if readErr != nil {
		_ = m.cmd.Process.Kill() // it says what we do not understand
	}
	err := m.cmd.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.failed != "":
	case context.Cause(ctx) != nil:
		m.failed = "the guest was stopped: " + context.Cause(ctx).Error()
	case m.killed:
		m.failed = "the guest was killed"
	case readErr != nil:
		m.failed = "the guest's events: " + readErr.Error()
	case err != nil:
		m.failed = fmt.Sprintf("qemu: %v: %s", err, m.stderr.String())
	case !m.done:
		m.failed = fmt.Sprintf("the guest ended before its commands did: %s", m.stderr.String())
	}
}

func (m *Machine) read(events io.Reader) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 2*wire.ChunkBytes+4096) // base64, and the words around it
	for lines.Scan() {
		var e wire.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("%w in %.200q", err, lines.Text())
		}
		if err := m.note(e); err != nil {
			return err
		}
	}
	return lines.Err()
}

var errNoCommand = errors.New("an event of a command that there is not")

func (m *Machine) note(e wire.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case e.Done:
		m.done = true
	case e.Failed != "":
		m.failed = "in the guest: " + e.Failed
	case e.Exit != nil:
		if e.Exit.Command < 0 || e.Exit.Command >= len(m.said) {
			return errNoCommand
		}
		m.said[e.Exit.Command].exit = e.Exit
	case e.Output != nil:
		if e.Output.Command < 0 || e.Output.Command >= len(m.said) {
			return errNoCommand
		}
		to := &m.said[e.Output.Command].out
		if e.Output.Error {
			to = &m.said[e.Output.Command].err
		}
		if to.Len()+len(e.Output.Text) > mostOutput {
			return fmt.Errorf("command %d says more than %d bytes", e.Output.Command, mostOutput)
		}
		to.Write(e.Output.Text)
	}
	return nil
}

// Said is what a command has written to its standard output so far.
func (m *Machine) Said(command int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said[command].out.String()
}

// Exited reports whether a command has ended.
func (m *Machine) Exited(command int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said[command].exit != nil
}

// Ended is closed when the machine is off.
func (m *Machine) Ended() <-chan struct{} { return m.ended }

// Kill ends the machine at once, as a power cut does.
func (m *Machine) Kill() {
	m.mu.Lock()
	m.killed = true
	m.mu.Unlock()
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.ended
}

// Wait waits for the end, and returns what became of the commands. Files of the machine
// are removed. It is to be called once, also after Kill.
func (m *Machine) Wait() (*Result, error) {
	<-m.ended
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &Result{Failed: m.failed}
	for i := range m.said {
		o := Outcome{Stdout: m.said[i].out.String(), Stderr: m.said[i].err.String()}
		if exit := m.said[i].exit; exit != nil {
			o.Ended, o.Exit = true, *exit
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	said, err := os.ReadFile(filepath.Join(m.dir, console))
	r.Console = string(said)
	return r, errors.Join(err, os.RemoveAll(m.dir))
}
