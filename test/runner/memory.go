package main

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	shm  = "/dev/shm"
	room = 4 << 30 // what the packages that run at the same time have, and some more
)

// inMemory is the environment of programs that make their files in memory, nothing where that can not be.
func inMemory() (env []string) {
	if dir := memory(shm); dir != "" {
		return []string{"TMPDIR=" + dir, "GOTMPDIR=" + dir}
	}
	return nil
}

// memory returns the directory if tests may have their files there: in memory, with room, where programs run and files have attributes. Otherwise, and
// when TMPDIR names another one, it returns "". On a disk each file that is made costs four times the CPU time.
func memory(dir string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); os.Getenv("TMPDIR") != "" || err != nil || s.Type != unix.TMPFS_MAGIC || s.Flags&unix.ST_NOEXEC != 0 || s.Bavail*uint64(s.Bsize) < room {
		return ""
	}
	f, err := os.CreateTemp(dir, "datamove-*")
	if err != nil {
		return ""
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if unix.Fsetxattr(int(f.Fd()), "user.datamove", []byte("1"), 0) != nil { // before Linux 6.6
		return ""
	}
	return dir
}
