package daemon

import (
	"testing"

	"datamove.dev/test/kill"
)

// TestFirstThread: no goroutine can hang in the first thread, to which Linux gives signals.
func TestFirstThread(t *testing.T) { kill.FirstThread(t) }
