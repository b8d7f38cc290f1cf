package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// A call of the kernel on a mount without its server hears no context, and lasts until the server is back. Linux tells in which call each thread of
// this process is (/proc/self/task/*/syscall, proc(5)); a thread that stays in the same one, and does not run, waits in it. So no call has to be noted
// where it is made, and none is missed: of sources, targets, locks, journals and the home alike.

const (
	hungLook  = time.Second      // between two looks
	hungTold  = 20 * time.Second // after so long a call is told of
	hungLeft  = 10 * time.Second // a command that is to end leaves a call behind that has no answer for so long,
	hungGrace = 2 * time.Second  // and has so much time for what does not hang
	hungWakes = 2                // a second: the thread of a call that waits wakes up this often at most, as those of Lustre do to look at their servers
)

// Arguments of calls that have the path, or the descriptor, of what the call is for. A directory is a descriptor, too.
const (
	ofPath = iota // the path is the first one
	ofAt          // a directory, and a path in it
	ofAt2         // those are the second and the third one
	ofFD          // a descriptor
)

// hungCall is what one does, and of which argument.
type hungCall struct {
	op string
	of int
}

// fileCalls are the calls that ask a file system. What waits for other processes, like a read of a terminal, is no path and left out (callPath).
var fileCalls = map[uint64]hungCall{
	unix.SYS_OPENAT: {"open", ofAt}, unix.SYS_OPENAT2: {"open", ofAt}, unix.SYS_CHDIR: {"open", ofPath},
	unix.SYS_STATX: {"stat", ofAt}, unix.SYS_NEWFSTATAT: {"stat", ofAt}, unix.SYS_FACCESSAT: {"stat", ofAt}, unix.SYS_FACCESSAT2: {"stat", ofAt},
	unix.SYS_READLINKAT: {"readlink", ofAt}, unix.SYS_FSTAT: {"stat", ofFD}, unix.SYS_STATFS: {"statfs", ofPath}, unix.SYS_FSTATFS: {"statfs", ofFD},
	unix.SYS_GETDENTS64: {"list", ofFD}, unix.SYS_LSEEK: {"seek", ofFD},
	unix.SYS_READ: {"read", ofFD}, unix.SYS_PREAD64: {"read", ofFD}, unix.SYS_READV: {"read", ofFD}, unix.SYS_PREADV: {"read", ofFD}, unix.SYS_PREADV2: {"read", ofFD},
	unix.SYS_WRITE: {"write", ofFD}, unix.SYS_PWRITE64: {"write", ofFD}, unix.SYS_WRITEV: {"write", ofFD}, unix.SYS_PWRITEV: {"write", ofFD}, unix.SYS_PWRITEV2: {"write", ofFD},
	unix.SYS_COPY_FILE_RANGE: {"copy", ofFD}, unix.SYS_SENDFILE: {"write", ofFD}, unix.SYS_FALLOCATE: {"allocate", ofFD}, unix.SYS_FTRUNCATE: {"truncate", ofFD}, unix.SYS_TRUNCATE: {"truncate", ofPath},
	unix.SYS_FSYNC: {"sync", ofFD}, unix.SYS_FDATASYNC: {"sync", ofFD}, unix.SYS_SYNC_FILE_RANGE: {"sync", ofFD}, unix.SYS_SYNCFS: {"sync", ofFD}, unix.SYS_CLOSE: {"close", ofFD},
	unix.SYS_MKDIRAT: {"mkdir", ofAt}, unix.SYS_MKNODAT: {"mknod", ofAt}, unix.SYS_UNLINKAT: {"remove", ofAt}, unix.SYS_SYMLINKAT: {"symlink", ofAt2},
	unix.SYS_LINKAT: {"link", ofAt}, unix.SYS_RENAMEAT: {"rename", ofAt}, unix.SYS_RENAMEAT2: {"rename", ofAt},
	unix.SYS_FCHMOD: {"chmod", ofFD}, unix.SYS_FCHMODAT: {"chmod", ofAt}, unix.SYS_FCHOWN: {"chown", ofFD}, unix.SYS_FCHOWNAT: {"chown", ofAt}, unix.SYS_UTIMENSAT: {"set times of", ofAt},
	unix.SYS_GETXATTR: {"read attributes of", ofPath}, unix.SYS_LGETXATTR: {"read attributes of", ofPath}, unix.SYS_FGETXATTR: {"read attributes of", ofFD},
	unix.SYS_LISTXATTR: {"read attributes of", ofPath}, unix.SYS_LLISTXATTR: {"read attributes of", ofPath}, unix.SYS_FLISTXATTR: {"read attributes of", ofFD},
	unix.SYS_SETXATTR: {"set attributes of", ofPath}, unix.SYS_LSETXATTR: {"set attributes of", ofPath}, unix.SYS_FSETXATTR: {"set attributes of", ofFD},
	unix.SYS_FLOCK: {"lock", ofFD}, unix.SYS_FCNTL: {"lock", ofFD}, unix.SYS_IOCTL: {"ask", ofFD},
}

// inCall is a thread in a call.
type inCall struct {
	thread string
	call   string // as the kernel says it, with all arguments
}

// silentCall is one that was seen there before.
type silentCall struct {
	since time.Time
	wakes int64 // of its thread, then
	what  string
	told  bool
}

// hungCalls are the calls that have no answer for a while. It is used by one goroutine.
type hungCalls struct {
	calls map[inCall]silentCall
}

// threadCall is what is known of a thread at one moment.
type threadCall struct {
	inCall
	wakes int64
	what  string // the operation and the path
}

// look takes what all threads do now, and returns the calls that wait since before a time, the longest first one.
func (h *hungCalls) look(now time.Time, threads []threadCall) {
	still := make(map[inCall]silentCall, len(threads))
	for _, t := range threads {
		was, seen := h.calls[t.inCall]
		if spent := now.Sub(was.since).Seconds(); !seen || float64(t.wakes-was.wakes) > hungWakes*(spent+1) {
			was = silentCall{since: now, wakes: t.wakes, what: t.what}
		}
		still[t.inCall] = was
	}
	h.calls = still
}

// oldest is the call that has waited longest; false is none.
func (h *hungCalls) oldest() (id inCall, w silentCall, some bool) {
	for i, c := range h.calls {
		if !some || c.since.Before(w.since) || c.since.Equal(w.since) && i.thread < id.thread {
			id, w, some = i, c, true
		}
	}
	return id, w, some
}

// tells returns what is to be said now: of the call that has waited longest, once. None is how it is when that has ended.
func (h *hungCalls) tells(now time.Time) (why string, once bool) {
	id, w, some := h.oldest()
	if !some || now.Sub(w.since) < hungTold {
		return "", false
	}
	once = !w.told
	w.told = true
	h.calls[id] = w
	return fmt.Sprintf("%s: no answer for %ds; is its server there?", w.what, int(hungTold.Seconds())), once
}

// leaves says whether a command that was told to end so long ago goes without the end of its calls, and of which.
func (h *hungCalls) leaves(now time.Time, told time.Duration) (*abandoned, bool) {
	_, w, some := h.oldest()
	if !some || told < hungGrace || now.Sub(w.since) < hungLeft {
		return nil, false
	}
	return &abandoned{w.what}, true
}

// abandoned is the end of a command that was told to stop while a call has no answer.
type abandoned struct{ what string }

func (a *abandoned) Error() string { return "interrupted; not waited for: " + a.what }
func (a *abandoned) Unwrap() error { return ErrInterrupted }

// Advice is what to do about it.
func (a *abandoned) Advice() string { return NoAnswerRemedy }

// attended does body, tells of calls that hang, and returns without its end when it was told to stop and such a call has no answer. Then the process has to end.
// The calls are not those of the first thread, which hears signals (init).
func (a *App) attended(ctx context.Context, command string, body func() error) error {
	over := make(chan error, 1)
	crash := make(chan *crashed, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				crash <- crashOf(p)
			}
		}()
		over <- body()
	}()
	ticks := time.NewTicker(hungLook)
	defer ticks.Stop()
	var calls hungCalls
	var ended time.Time
	for {
		select {
		case err := <-over:
			return err
		case c := <-crash:
			panic(c)
		case now := <-ticks.C:
			calls.look(now, threadCalls())
			if ctx.Err() == nil {
				a.hangs(command)(calls.tells(now))
				continue
			}
			if ended.IsZero() {
				ended = now
			}
			if err, leaves := calls.leaves(now, now.Sub(ended)); leaves {
				return err
			}
		}
	}
}

// ShowHung has shows show the calls that have no answer, until it is called back.
func (a *App) ShowHung(shows func(why string, once bool)) (back func()) {
	a.showsHung.Store(&shows)
	return func() { a.showsHung.Store(nil) }
}

// hangs is told of what a call that hangs is for, and whether that is new; "" is that none does.
func (a *App) hangs(command string) func(why string, once bool) {
	if shows := a.showsHung.Load(); shows != nil {
		return *shows
	}
	return func(why string, once bool) {
		if once && !a.Quiet {
			fmt.Fprintf(a.Err, "datamove: %s: waiting: %s\n", command, Shown(why))
		}
	}
}

// threadCalls are the calls to file systems that threads of this process are in. Where the kernel does not say it there are none.
func threadCalls() (all []threadCall) {
	const tasks = "/proc/self/task"
	names, err := os.ReadDir(tasks)
	if err != nil {
		return nil
	}
	for _, name := range names {
		dir := filepath.Join(tasks, name.Name())
		said := callOf(dir)
		number, args, in := parseCall(said)
		if !in {
			continue
		}
		call, files := fileCalls[number]
		if !files || number == unix.SYS_FCNTL && args[1] != unix.F_SETLKW && args[1] != unix.F_OFD_SETLKW && args[1] != unix.F_SETLK && args[1] != unix.F_OFD_SETLK {
			continue
		}
		path := callPath(call.of, args)
		if path == "" || said != callOf(dir) { // it is another one by now, and what the path was is something else
			continue
		}
		all = append(all, threadCall{inCall{name.Name(), said}, wakesOf(dir), call.op + " " + mover.Printable(path)})
	}
	return all
}

// callOf is the call that a thread is in, as the kernel says it.
func callOf(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "syscall")) // the thread may have ended
	return strings.TrimSpace(string(text))
}

// parseCall reads a line of /proc/PID/syscall: the number of the call, its six arguments, and two registers. A thread that runs is in none.
func parseCall(said string) (number uint64, args [6]uint64, in bool) {
	fields := strings.Fields(said)
	if len(fields) != 9 {
		return 0, args, false
	}
	number, err := strconv.ParseUint(fields[0], 10, 64)
	for i := range args {
		if err == nil {
			args[i], err = strconv.ParseUint(fields[1+i], 0, 64)
		}
	}
	return number, args, err == nil
}

// wakesOf is how often a thread went to wait.
func wakesOf(dir string) int64 {
	text, _ := os.ReadFile(filepath.Join(dir, "status"))
	_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return n
}

// callPath is the path that a call is for; "" is none. It asks no file system.
func callPath(of int, args [6]uint64) string {
	switch of {
	case ofPath:
		return pathIn(unix.AT_FDCWD, args[0])
	case ofAt:
		return pathIn(int(int32(args[0])), args[1])
	case ofAt2:
		return pathIn(int(int32(args[1])), args[2])
	}
	return openPath(int(int32(args[0])))
}

// pathIn is a path that lies in the memory of this process, in a directory.
func pathIn(dir int, at uint64) string {
	name := ""
	if at != 0 {
		name = textAt(at)
	}
	switch {
	case filepath.IsAbs(name):
		return name
	case dir == unix.AT_FDCWD:
		wd, _ := os.Readlink("/proc/self/cwd")
		return filepath.Join(wd, name)
	}
	if around := openPath(dir); around != "" {
		return filepath.Join(around, name)
	}
	return name
}

// openPath is the path of an open file of a file system.
func openPath(fd int) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/") || fd == 0 { // a pipe, a socket, a terminal; what is read from may wait for a person
		return ""
	}
	return path
}

// textAt is a string of C at an address, which may be gone by now.
func textAt(at uint64) string {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return ""
	}
	defer memory.Close()
	text := make([]byte, unix.PathMax)
	n, _ := memory.ReadAt(text, int64(at)) // below 1<<63
	if end := bytes.IndexByte(text[:n], 0); end >= 0 {
		return string(text[:end])
	}
	return ""
}
