package kill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// Call is a system call that the kernel has not done yet. Its process stands still in this thread.
type Call struct {
	PID, TID int
	Number   uint64
	Args     [6]uint64
}

// Trace starts a command, which nobody may wait for but this function, and calls each before every system call that
// changes a file with a name. If it returns true, the process is killed instead, and the call is never done. Trace
// returns how the process ended. The caller's goroutine keeps its thread meanwhile.
//
// The processes that the command starts are not traced.
func Trace(cmd *exec.Cmd, each func(Call) (kill bool)) (syscall.WaitStatus, error) {
	runtime.LockOSThread() // the thread that starts a traced process is the only one that may ask for it
	defer runtime.UnlockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start a traced process: %w", err)
	}
	ended := false
	defer func() {
		if !ended { // follow failed, or each has ended the test
			_ = cmd.Process.Kill()
			_, _ = follow(cmd.Process.Pid, func(Call) bool { return false })
		}
		_ = cmd.Wait() // follow has its state; here its pipes are closed
	}()
	var status unix.WaitStatus
	if _, err := wait(cmd.Process.Pid, &status); err != nil { // it stands before its first instruction
		return 0, err
	}
	if err := errors.Join(unix.PtraceSetOptions(cmd.Process.Pid, options), unix.PtraceSyscall(cmd.Process.Pid, 0)); err != nil {
		return 0, os.NewSyscallError("ptrace", err)
	}
	status, err := follow(cmd.Process.Pid, each)
	ended = err == nil
	return syscall.WaitStatus(status), err
}

const (
	options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	stopped = unix.SIGTRAP | 0x80 // at a system call, with PTRACE_O_TRACESYSGOOD
)

// follow goes with a process to its end.
func follow(pid int, each func(Call) bool) (status unix.WaitStatus, err error) {
	for known, killed := map[int]bool{pid: true}, false; ; {
		tid, err := wait(-1, &status)
		if err != nil {
			return 0, err
		}
		if !status.Stopped() {
			if tid == pid {
				return status, nil
			}
			continue
		}
		signal := status.StopSignal()
		switch {
		case signal == stopped:
			if c, counts := callOf(pid, tid); counts && !killed && each(c) {
				killed = true
				_ = unix.Kill(pid, unix.SIGKILL) // it is there until it is waited for
			}
			signal = 0
		case signal == unix.SIGTRAP && status.TrapCause() > 0, signal == unix.SIGSTOP && !known[tid]:
			signal = 0 // that a thread was made; that one begins
		}
		known[tid] = true
		if err := unix.PtraceSyscall(tid, int(signal)); err != nil && err != unix.ESRCH { // it may have been killed by now
			return 0, os.NewSyscallError("ptrace", err)
		}
	}
}

// wait waits for the traced processes of this thread only.
func wait(pid int, status *unix.WaitStatus) (int, error) {
	for {
		tid, err := unix.Wait4(pid, status, unix.WALL|unix.WNOTHREAD, nil)
		if err != unix.EINTR {
			return tid, os.NewSyscallError("wait4", err)
		}
	}
}

// callInfo is struct ptrace_syscall_info at the entry of a call; see ptrace(2).
type callInfo struct {
	op     uint8
	_      [3]uint8
	arch   uint32
	_      [2]uint64 // where the program is
	number uint64
	args   [6]uint64
}

const (
	getCallInfo = 0x420e // PTRACE_GET_SYSCALL_INFO
	atEntry     = 1      // PTRACE_SYSCALL_INFO_ENTRY
)

// callOf returns the call before which a thread stands, and whether it changes a file with a name.
func callOf(pid, tid int) (Call, bool) {
	var info callInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getCallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 || info.op != atEntry {
		return Call{}, false
	}
	c := Call{PID: pid, TID: tid, Number: info.number, Args: info.args}
	return c, c.changes()
}

// changes reports whether it changes a file with a name, as the file or the name.
func (c Call) changes() bool {
	switch c.Number {
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FCHMOD, unix.SYS_FCHOWN, unix.SYS_FSETXATTR:
		return c.named(c.Args[0])
	case unix.SYS_COPY_FILE_RANGE:
		return c.named(c.Args[2])
	case unix.SYS_IOCTL: // one that only hands something to the kernel, like FS_IOC_SETFLAGS, FICLONE, BTRFS_IOC_SUBVOL_CREATE
		return c.Args[1]>>30&3 == 1 && c.named(c.Args[0])
	case unix.SYS_OPENAT:
		return c.Args[2]&(unix.O_CREAT|unix.O_TRUNC) != 0
	case unix.SYS_OPENAT2: // its flags are the first word of a struct
		var flags [8]byte
		n, err := unix.PtracePeekData(c.TID, uintptr(c.Args[2]), flags[:])
		return n == len(flags) && err == nil && binary.NativeEndian.Uint64(flags[:])&(unix.O_CREAT|unix.O_TRUNC) != 0
	}
	return changesNames[c.Number]
}

// named reports whether a descriptor of the process is of a file with a name, and not a pipe, a socket or the like.
func (c Call) named(fd uint64) bool {
	if fd <= 2 {
		return false
	}
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.PID, fd))
	return err == nil && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/dev/") || strings.HasPrefix(to, "/dev/shm/")
}

// changesNames are the calls that change names, whatever they are.
var changesNames = set(unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_TRUNCATE, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2,
	unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT)

func set(numbers ...uint64) map[uint64]bool {
	all := map[uint64]bool{}
	for _, n := range numbers {
		all[n] = true
	}
	return all
}

// traced starts a mode and follows it to its end. What it says goes to a file, so that it is known at each call.
func traced(t testing.TB, mode, argument string, each func(Call, []string) bool) (status syscall.WaitStatus, said []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "said")
	out, err := os.Create(file)
	must.Do(t, err)
	defer out.Close()
	lines := func() []string {
		text := must.Get(os.ReadFile(file))(t)
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[:strings.Count(string(text), "\n")]
	}
	var stderr strings.Builder
	cmd := Command(mode, argument)
	cmd.Stdout, cmd.Stderr = out, &stderr
	status, err = Trace(cmd, func(c Call) bool { return each(c, lines()) })
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EIO) {
		t.Skip("can not trace a process here: ", err)
	}
	must.Do(t, err)
	if status.Exited() && status.ExitStatus() != 0 || status.Signaled() && status.Signal() != syscall.SIGKILL {
		t.Fatalf("it ended by itself: %v\n%s", status, stderr.String())
	}
	return status, lines()
}

// AtCall starts a mode and kills it before its n-th call that changes a file, from 1. It returns what the process has
// said, and whether it was killed: it may have come to its end before, with success.
func AtCall(t testing.TB, mode, argument string, n int) (said []string, killed bool) {
	t.Helper()
	t.Logf("killed at call %d", n)
	status, said := traced(t, mode, argument, func(Call, []string) bool {
		n--
		return n == 0
	})
	return said, status.Signaled()
}

// Calls runs a mode to its end and returns how many calls it makes that change files.
func Calls(t testing.TB, mode, argument string) (n int) {
	t.Helper()
	traced(t, mode, argument, func(Call, []string) bool { n++; return false })
	return n
}

// Prefixes runs a mode to its end. Before each call that changes a file it copies dir, which is what a kill would
// leave, and calls check with the copy and with what was said by then; and once more at the end. A write to a file in
// dir is seen torn, too: with one half of its bytes, and with all but the last. Other threads of the mode may not
// change anything in dir meanwhile.
func Prefixes(t testing.TB, mode, argument, dir string, check func(t testing.TB, left string, said []string)) {
	t.Helper()
	n, states, left := 0, 0, filepath.Join(t.TempDir(), "left")
	one := func(said []string, torn func() error) {
		states++
		defer func() {
			if t.Failed() {
				t.Logf("after a kill at call %d, when it had said %q", n, said)
			}
		}()
		err := errors.Join(os.RemoveAll(left), os.CopyFS(left, os.DirFS(dir)))
		if err = errors.Join(err, os.Chmod(left, 0o700), torn()); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		if check(t, left, said); t.Failed() {
			t.FailNow()
		}
	}
	whole := func() error { return nil }
	_, said := traced(t, mode, argument, func(c Call, said []string) bool {
		n++
		one(said, whole)
		if name, data, off := c.write(dir); len(data) > 1 {
			for _, some := range []int{len(data) / 2, len(data) - 1} {
				one(said, func() error { return writeAt(filepath.Join(left, name), data[:some], off) })
			}
		}
		return false
	})
	n++
	one(said, whole)
	t.Logf("%d states of %d calls", states, n-1)
}

// write returns what a call would write to which file in dir, and where; no data is that it writes to none of them.
func (c Call) write(dir string) (name string, data []byte, off int64) {
	if c.Number != unix.SYS_WRITE && c.Number != unix.SYS_PWRITE64 {
		return "", nil, 0
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.PID, c.Args[0]))
	if err != nil {
		return "", nil, 0
	}
	if name, err = filepath.Rel(dir, path); err != nil || !filepath.IsLocal(name) {
		return "", nil, 0
	}
	off = int64(c.Args[3])
	if c.Number == unix.SYS_WRITE {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", c.PID, c.Args[0]))
		if _, err := fmt.Sscanf(string(text), "pos: %d", &off); err != nil {
			return "", nil, 0
		}
	}
	data = make([]byte, c.Args[2])
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", c.PID))
	if err != nil {
		return "", nil, 0
	}
	defer memory.Close()
	n, _ := memory.ReadAt(data, int64(c.Args[1]))
	return name, data[:n], off
}

func writeAt(path string, data []byte, off int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, off)
	return errors.Join(err, f.Close())
}
