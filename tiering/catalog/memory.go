package catalog

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mappedMost is how much of mapped files may be in memory before the kernel is asked to take it back. It does so by itself when memory is short, but
// until then all that was ever read counts as ours.
const mappedMost = 96 << 20

// easeEvery is after how many bytes that were written or read it is looked at.
const easeEvery = 4 << 20

// easing counts bytes, and eases the memory from time to time.
type easing struct {
	c    *Catalog
	left int
}

func (e *easing) moved(bytes int) {
	if e.left -= bytes; e.left > 0 {
		return
	}
	e.left = easeEvery
	e.c.ease()
}

// ease has the kernel take back the pages of the store's tables, when they are many. Nothing is lost by it: a reader that needs one reads it again.
func (c *Catalog) ease() {
	if mapped() < mappedMost || !c.easing.TryLock() {
		return
	}
	defer c.easing.Unlock()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		var from, to uintptr
		if line := lines.Text(); strings.HasSuffix(line, ".sst") && strings.Contains(line, c.storeDir()) {
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err == nil {
				// What is meanwhile mapped there may be another's: this takes nothing from it that it does not get again.
				_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_PAGEOUT)
			}
		}
	}
}

// mapped is how much of files is in the memory of this process, in bytes; 0 is not known.
func mapped() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		return 0
	}
	return shared * int64(os.Getpagesize())
}
