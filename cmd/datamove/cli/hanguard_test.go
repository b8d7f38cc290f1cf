package cli

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"datamove.dev/test/kill"
)

// TestFirstThread: in the second process no goroutine can hang in the first thread, to which Linux gives signals.
func TestFirstThread(t *testing.T) {
	if os.Getenv(secondKey) != "" {
		kill.FirstThread(t)
		return
	}
	second := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	second.Env = append(os.Environ(), secondKey+"=-")
	text, err := second.CombinedOutput()
	if err != nil || !bytes.Contains(text, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v: %s", err, text)
	}
}
