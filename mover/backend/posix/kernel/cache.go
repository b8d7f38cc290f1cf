package kernel

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Memory is the size of this machine's memory in bytes.
var Memory = sync.OnceValue(func() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 8 << 30
	}
	return int64(info.Totalram) * int64(info.Unit)
})

// Cold reports whether little of a file is in the page cache: then a read brings
// in most of its pages. Before Linux 6.5 no call tells;
// then the file is taken to be cold. It is asked once for each file, because our own
// reading ahead would look like that of another process.
func Cold(fd int, size int64) bool {
	var now unix.Cachestat_t
	err := unix.Cachestat(uint(fd), &unix.CachestatRange{}, &now, 0)
	return err != nil || int64(now.Cache)*int64(os.Getpagesize()) < size/8
}

// LetGo lets go of the clean pages of a range. Dirty ones stay.
func LetGo(fd int, off, n int64) {
	if n > 0 {
		_ = unix.Fadvise(fd, off, n, unix.FADV_DONTNEED)
	}
}

// WriteBehind starts the writing of a range and lets go of the range before it,
// which is clean by now or soon: waiting for it is what keeps the dirty pages few.
// An error is a lost write. The kernel reports it once, so the caller must not ignore it.
func WriteBehind(fd int, off, n int64) error {
	if err := flushRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE); err != nil {
		return err
	}
	before := max(off-n, 0)
	if before == off {
		return nil
	}
	const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := flushRange(fd, before, off-before, wait)
	LetGo(fd, before, off-before)
	return err
}

func flushRange(fd int, off, n int64, flags int) error {
	err := Again(func() error { return unix.SyncFileRange(fd, off, n, flags) })
	if err == unix.ENOSYS || err == unix.EINVAL || err == unix.ESPIPE {
		return nil // not on this file system
	}
	return err
}
