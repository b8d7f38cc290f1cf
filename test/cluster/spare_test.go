package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// children are the processes that the agents of this process have started.
func children(t *testing.T) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Skip("the kernel does not tell the children of a process (CONFIG_PROC_CHILDREN)")
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may end
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestShortTasks: also of a task that ends before its agent has told how it does is known
// when its first byte passed.
func TestShortTasks(t *testing.T) {
	c := newCluster(t, "n1")
	source := c.tree("shared/source", 1, 0, 0)
	for i := range 10 {
		done := c.done(c.submit(source, filepath.Join(c.dir, "shared", strconv.Itoa(i))).GetId())
		first := done.GetFirstByteTime()
		if first == nil || first.AsTime().Before(done.GetCreateTime().AsTime()) || first.AsTime().After(done.GetEndTime().AsTime()) {
			t.Errorf("created %v, first byte %v, ended %v", done.GetCreateTime(), first, done.GetEndTime())
		}
	}
}

// TestSpareDies kills the process that waits for the next task: the task has another one.
func TestSpareDies(t *testing.T) {
	c := newCluster(t, "n1")
	source := c.tree("shared/source", 20, 0, 0)
	c.done(c.submit(source, filepath.Join(c.dir, "shared/first")).GetId())
	var waits int
	c.eventually("the next process waits", func() bool {
		now := children(t)
		if len(now) == 1 {
			waits = now[0]
		}
		return len(now) == 1
	})
	second := c.submit(source, filepath.Join(c.dir, "shared/second")).GetId()
	c.done(second)
	var next int
	c.eventually("it did the next task", func() bool {
		now := children(t)
		if len(now) == 1 {
			next = now[0]
		}
		return len(now) == 1 && next != waits
	})
	if err := syscall.Kill(next, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(c.dir, "shared/third")
	c.done(c.submit(source, target).GetId())
	c.same(source, target)
}
