package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestACommandThatFailsIsRed: the test binary is the command under test. With an os.Exit(99) in the command, tests of whole programs are red, also where go test
// has a result from before.
func TestACommandThatFailsIsRed(t *testing.T) {
	source := must.Get(filepath.Abs(filepath.Join("..", "..", "cmd", "datamove", "cli", "main.go")))(t)
	text := must.Get(os.ReadFile(source))(t)
	const head = "func Main(release string, p Program) (code int) {"
	faulty := strings.Replace(string(text), head, head+"\n\tos.Exit(99)", 1)
	if faulty == string(text) {
		t.Fatal("Main has another form")
	}
	dir := t.TempDir()
	replaced, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	list := must.Get(json.Marshal(map[string]map[string]string{"Replace": {source: replaced}}))(t)
	for path, text := range map[string]string{replaced: faulty, overlay: string(list)} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	run := func(flags string) (string, error) {
		cmd := exec.Command("go", "test", "-vet=off", "-ldflags=-s -w", "-run", "^TestReadOnly$", "./test/hostile")
		cmd.Dir = filepath.Join("..", "..")
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+flags)
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	if said, err := run(""); err != nil {
		t.Fatalf("%v:\n%s", err, said)
	}
	if said, err := run(" -overlay=" + overlay); err == nil || !strings.Contains(said, "--- FAIL: TestReadOnly") || !strings.Contains(said, "99") {
		t.Errorf("%v:\n%s", err, said)
	}
}
