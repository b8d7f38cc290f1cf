package main

import (
	"testing"
)

// TestMemory: only a file system in memory is taken, and only where nothing else is asked for.
func TestMemory(t *testing.T) {
	t.Setenv("TMPDIR", "")
	if got := memory("/proc"); got != "" {
		t.Errorf("%q is in memory", got)
	}
	if got := memory(shm); got != "" && got != shm {
		t.Errorf("%q for %q", got, shm)
	}
	t.Setenv("TMPDIR", "/somewhere")
	if got := memory(shm); got != "" {
		t.Errorf("%q, and not what TMPDIR names", got)
	}
}
