package sandbox

import (
	"bytes"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// The Go runtime of a process that crashes writes why, and its stacks, to a file in memory which it inherits and its starter
// reads: a panic of any goroutine, which no recover sees, can be told as what it is.
const (
	crashFD    = socketFD + 1
	crashBytes = 64 << 10 // the file can not grow: the process may be hostile. The goroutine that crashed comes first
)

// newCrashFile makes the file; nil where the kernel has no such files, and crashes have no text then.
func newCrashFile() *os.File {
	fd, err := unix.MemfdCreate("crash", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "crash of a process")
	err = f.Truncate(crashBytes)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = f.Close()
		return nil
	}
	return f
}

// tellCrash has the runtime of this process write to the file that it inherited, if it did.
func tellCrash() {
	if _, err := unix.FcntlInt(crashFD, unix.F_GET_SEALS, 0); err != nil {
		return
	}
	f := os.NewFile(crashFD, "crash of this process")
	_ = debug.SetCrashOutput(f, debug.CrashOptions{}) // has a descriptor of its own
	_ = f.Close()
}

// readCrash reads the file, and closes it.
func readCrash(f *os.File) string {
	if f == nil {
		return ""
	}
	defer f.Close()
	text := make([]byte, crashBytes)
	n, _ := f.ReadAt(text, 0)
	text, _, _ = bytes.Cut(text[:n], []byte{0})
	return string(text)
}

// Crash is what the Go runtime of a process that has ended wrote when it crashed, at most 64 KiB of it, from a process that may be hostile;
// "" if it did not crash. It may be called after Done.
func (p *Process) Crash() string { return p.crashed }
