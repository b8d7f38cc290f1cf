package posix

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// copyFromTo is set, to two directories, for a process that only copies.
const copyFromTo = "POSIX_TEST_COPY"

func copyOnly(fromTo string) int {
	from, to, _ := strings.Cut(fromTo, ":")
	source, err := Open(from, Options{})
	if err == nil {
		var target *Backend
		if target, err = Open(to, Options{}); err == nil {
			err = copyTree(context.Background(), source, target, 1, false)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// TestCost counts the system calls of copying small files: what the package
// comment says, and no more than a few for each directory beside that.
//
//safety:8 system calls for each small file are counted
func TestCost(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace")
	}
	const dirs, files = 2, 100
	from, to := memoryDir(t), memoryDir(t)
	plant(t, from, dirs, files, 4096)
	counts := t.TempDir() + "/counts"
	child := exec.Command(strace, "-f", "-c", "-o", counts, os.Args[0])
	child.Env = append(os.Environ(), copyFromTo+"="+from+":"+to)
	if out, err := child.CombinedOutput(); err != nil {
		t.Skipf("strace does not work here: %v %s", err, out)
	}
	text, err := os.ReadFile(counts)
	must.Do(t, err)
	perFile := map[string]int{
		"openat": 2, "statx": 3, "pread64": 1, "flistxattr": 1, "close": 2,
		"pwrite64": 1, "utimensat": 1, "renameat2": 1, "fchmod": 0, "fchown": 0, "fallocate": 0, "unlinkat": 0,
	}
	const others = 40 + 20*dirs // of the start of a process, and for each directory
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		name, calls := f[len(f)-1], f[3]
		want, counted := perFile[name]
		n, err := strconv.Atoi(calls)
		if !counted || err != nil {
			continue
		}
		if n > want*dirs*files+others {
			t.Errorf("%s was called %d times for %d files, %d for each are enough", name, n, dirs*files, want)
		}
		delete(perFile, name)
	}
	for name, want := range perFile {
		if want > 0 {
			t.Errorf("%s was never called: the count is wrong", name)
		}
	}
}
