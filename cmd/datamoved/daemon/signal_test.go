package daemon

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFirstThread: no goroutine can hang in the first thread, to which Linux gives signals.
func TestFirstThread(t *testing.T) {
	const threads = 64 // more than are idle
	all := make(chan struct{})
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
	close(all)
}
