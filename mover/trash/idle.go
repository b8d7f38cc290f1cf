package trash

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// idly does something in a thread that others go before, at the processor and at disks, as far as they can be told so.
// The thread ends with it: a priority can not be raised again by everybody.
func idly(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()                 // and never unlocked
		const ofThread, idleClass = 1, 3 << 13 // IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19)
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofThread, 0, idleClass)
		do()
	}()
	<-done
}
