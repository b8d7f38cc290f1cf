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
	for name, most := range map[string]int64{"datamove": 38 << 20, "datamoved": 46 << 20} { // bytes
		if out, err := exec.Command("make", "-s", "-C", "../../..", "build-"+name).CombinedOutput(); err != nil {
			t.Fatalf("make build-%s: %v\n%s", name, err, out)
		}
		if size := must.Get(os.Stat("../../../bin/" + name))(t).Size(); size > most {
			t.Errorf("bin/%s has %d bytes, more than %d; go build -ldflags=-dumpdep shows what reaches a <ReflectMethod>", name, size, most)
		}
	}
}
