package cluster

import (
	"path/filepath"
	"strconv"
	"testing"

	"datamove.dev/test/cluster/rig"
)

// TestShortTasks: also of a task that ends before its agent has told how it does is known
// when its first byte passed.
func TestShortTasks(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		source := c.Tree("shared/source", 1, 0, 0)
		for i := range 10 {
			done := c.Done(c.Copy(source, filepath.Join(c.Dir, "shared", strconv.Itoa(i))).GetId())
			first := done.GetFirstByteTime()
			if first == nil || first.AsTime().Before(done.GetCreateTime().AsTime()) || first.AsTime().After(done.GetEndTime().AsTime()) {
				t.Errorf("created %v, first byte %v, ended %v", done.GetCreateTime(), first, done.GetEndTime())
			}
		}
	})
}

// TestSpareDies kills the worker that waits for the next task: the task has another one.
//
//safety:7 with mover/agent/sandbox TestReady
func TestSpareDies(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		source := c.Tree("shared/source", 20, 0, 0)
		c.Done(c.Copy(source, filepath.Join(c.Dir, "shared/first")).GetId())
		waits := c.Idle("n1")
		c.Done(c.Copy(source, filepath.Join(c.Dir, "shared/second")).GetId())
		if next := c.Idle("n1"); next == waits {
			t.Error("another one did the next task")
		}
		c.KillIdle("n1")
		target := filepath.Join(c.Dir, "shared/third")
		c.Done(c.Copy(source, target).GetId())
		c.Same(source, target)
	})
}
