package doctor

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// process is the subject of findings about ourselves.
const process = "this process"

// Limits looks at what the process may use.
func Limits() []Finding {
	var files unix.Rlimit
	found := []Finding{}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		found = append(found, warn(process, "open files", err.Error(), "check ulimit -n"))
	} else {
		found = append(found, openFiles(files.Cur))
	}
	limit, known := memoryLimit(os.DirFS("/"))
	return append(found, memory(limit, known))
}

// How many files are open at once: folders that are kept open, files in work and
// connections, for the usual parallelism; and for the highest.
const (
	leastFiles  = 512
	enoughFiles = 4096
)

// openFiles judges a limit of open files. (The Go runtime has raised it to the
// hard limit already.)
func openFiles(limit uint64) Finding {
	detail := fmt.Sprintf("at most %s", units.Count(int64(min(limit, 1<<62))))
	mend := fmt.Sprintf("ulimit -Hn %d, or LimitNOFILE= of the unit, or limits.conf", 1<<16)
	switch {
	case limit < leastFiles:
		return fail(process, "open files", detail, mend)
	case limit < enoughFiles:
		return warn(process, "open files", detail, mend)
	}
	return pass(process, "open files", detail)
}

// The memory of a task with its default buffers, and twice that.
const (
	leastMemory  = 256 << 20
	enoughMemory = 512 << 20
)

func memory(limit int64, known bool) Finding {
	if !known {
		return pass(process, "memory", "no limit of a control group")
	}
	detail := units.Bytes(limit) + " for the control group"
	const mend = "give the job or container 512 MiB, or copy with --memory 32MiB --jobs 2"
	switch {
	case limit < leastMemory:
		return fail(process, "memory", detail, mend)
	case limit < enoughMemory:
		return warn(process, "memory", detail, mend)
	}
	return pass(process, "memory", detail)
}

// noLimit is what cgroup v1 says for none, rounded to any page size.
const noLimit = 1 << 62

// memoryLimit returns the least limit of the control groups that this process is
// in, of version 2 and 1.
func memoryLimit(root fs.FS) (limit int64, known bool) {
	f, err := root.Open("proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	limit = noLimit
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			continue
		}
		dir, file := "sys/fs/cgroup", "memory.max"
		switch {
		case fields[1] == "memory":
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case fields[1] != "":
			continue
		}
		limit = min(limit, leastAbove(root, dir, fields[2], file))
	}
	return limit, limit < noLimit
}

// leastAbove is the least limit of a group and the groups above it.
func leastAbove(root fs.FS, top, group, file string) int64 {
	limit := int64(noLimit)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		text, err := fs.ReadFile(root, path.Join(top, group, file))
		if n, perr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && perr == nil {
			limit = min(limit, n)
		}
		if group == "/" {
			return limit
		}
	}
}

// State looks at the folder where the journals of tasks are kept, or at why there is none.
func State(dir string, err error) Finding {
	mend := "set XDG_STATE_HOME to a folder on a local disk that you may write to"
	if err != nil {
		return fail("this process", "journal", err.Error(), mend)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(dir, "journal", why(err), mend)
	}
	name := filepath.Join(dir, probeName(2))
	if err := os.WriteFile(name, []byte("probe"), 0o600); err != nil {
		return fail(dir, "journal", why(err), mend)
	}
	if err := os.Remove(name); err != nil {
		return fail(dir, "journal", why(err), mend)
	}
	return pass(dir, "journal", "can be kept in "+mover.Printable(dir))
}
