package kill

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// FirstThread fails where a goroutine of the test process can run in its first thread, to which Linux gives signals: in a call that hangs it
// would hold them back.
func FirstThread(t testing.TB) {
	t.Helper()
	const threads = 64 // more than are idle
	all := make(chan struct{})
	defer close(all)
	tids := make(chan int)
	for range threads {
		go func() {
			runtime.LockOSThread() // for good: the thread ends with the goroutine
			tids <- unix.Gettid()
			<-all
		}()
	}
	for range threads {
		if tid := <-tids; tid == unix.Getpid() {
			t.Error("a goroutine runs in the first thread")
		}
	}
}
