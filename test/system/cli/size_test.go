package cli

import (
	"os"
	"os/exec"
	"testing"

	"datamove.dev/test/must"
)

// TestProgramSize keeps the linker's dead-code elimination: one use of text/template anywhere links each exported method of each type, and a program of
// 35 MB has 47.
func TestProgramSize(t *testing.T) {
	const most = 38 << 20 // bytes
	if out, err := exec.Command("make", "-s", "-C", "../../..", "build-datamove").CombinedOutput(); err != nil {
		t.Fatalf("make build-datamove: %v\n%s", err, out)
	}
	if size := must.Get(os.Stat("../../../bin/datamove"))(t).Size(); size > most {
		t.Errorf("bin/datamove has %d bytes, more than %d; go build -ldflags=-dumpdep shows what reaches a <ReflectMethod>", size, most)
	}
}
