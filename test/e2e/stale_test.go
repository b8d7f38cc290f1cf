package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/crash/rig"
)

// TestACommandThatFailsIsRed: tests of whole programs run the program of the sources as they are. With an os.Exit(99) in the command they are red, also where go test
// has a result from before: test/run wants no such result (test/run TestPlan), and this is what it asks go test for.
func TestACommandThatFailsIsRed(t *testing.T) {
	source, err := filepath.Abs(filepath.Join("..", "..", "cmd", "datamove", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	faulty := strings.Replace(string(text), "func main() {", "func main() {\n\tos.Exit(99)", 1)
	if faulty == string(text) {
		t.Fatal("main has another form")
	}
	dir := t.TempDir()
	replaced, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {source: replaced}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{replaced: faulty, overlay: string(list)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-count=1", "-vet=off", "-run", "^TestReadOnly$", "./test/hostile")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay, rig.Binaries+"=")
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "--- FAIL: TestReadOnly") || !strings.Contains(string(said), "99") {
		t.Errorf("%v:\n%s", err, said)
	}
}
