package loopfs

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// As runs do as an ordinary user, without groups and capabilities, in a thread that ends
// with it. The rest of the process stays who it is.
func As(uid int, do func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread dies with the goroutine
		err := errors.New("what was done as an ordinary user did not come to its end")
		defer func() { done <- err }()
		if no := become(uid); no != nil {
			err = no
			return
		}
		do()
		err = nil
	}()
	return <-done
}

func become(uid int) error {
	id := uintptr(uid)
	for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, id, id, id}, {unix.SYS_SETRESUID, id, id, id}} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return errno
		}
	}
	return nil
}
