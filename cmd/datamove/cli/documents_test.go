package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// The documents below deploy/ whose commands are held to those that there are.
const (
	runbookFile = "../../../deploy/monitoring/RUNBOOK.md"
	burstDir    = "../../../deploy/examples/burst"
)

// TestRunbookCommands: what the runbook says to run can be run. There is a manual page for it.
func TestRunbookCommands(t *testing.T) {
	text := must.Get(os.ReadFile(runbookFile))(t)
	dir := t.TempDir()
	if _, err := writeManual((&app{}).root(), dir); err != nil {
		t.Fatal(err)
	}
	// In a block or in a sentence: words before the first argument.
	found := regexp.MustCompile("(?m)(?:^|`)datamove((?: [a-z]+)+)").FindAllStringSubmatch(string(text), -1)
	for _, call := range found {
		if _, err := os.Stat(filepath.Join(dir, "datamove"+strings.ReplaceAll(call[1], " ", "-")+".1")); err != nil {
			t.Errorf("there is no command datamove%s", call[1])
		}
	}
	if len(found) < 12 {
		t.Errorf("only %d calls are found", len(found))
	}
}

// called finds calls of datamove in a text: as words, up to what ends a command of a shell.
var called = regexp.MustCompile(`(?m)(?:^|[\s("'])datamove((?: +(?:"[^"]*"|[^\s;|&)"'#]+))+)`)

// TestBurstExamples: every call of datamove in the examples of a burst is of a command that there is, with flags that it has.
func TestBurstExamples(t *testing.T) {
	files := must.Get(os.ReadDir(burstDir))(t)
	found := 0
	for _, f := range files {
		text := must.Get(os.ReadFile(filepath.Join(burstDir, f.Name())))(t)
		for _, call := range called.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(call[1])
			if !regexp.MustCompile(`^[a-z-]+$`).MatchString(words[0]) || words[0] == "in" {
				continue // a sentence
			}
			found++
			n := 1
			if len(words) > 1 && regexp.MustCompile(`^(watch|latest|environment|up|prolog|epilog|task-prolog)\)?$`).MatchString(words[1]) {
				n = 2
			}
			if words[0] == "burst" {
				continue // its commands are held to their own examples
			}
			code, help, said := try(t, append(slices.Clone(words[:n]), "--help")...)
			if code != 0 || strings.Contains(help, "Available Commands:") {
				t.Errorf("%s: datamove %v: %d, %s", f.Name(), words[:n], code, said)
			}
			for _, word := range words[n:] {
				flag, _, _ := strings.Cut(word, "=")
				if strings.HasPrefix(flag, "--") && flag != "--" && !strings.Contains(help, flag+" ") {
					t.Errorf("%s: datamove %v has no flag %s", f.Name(), words[:n], flag)
				}
			}
		}
	}
	if found < 12 {
		t.Errorf("only %d calls are found", found)
	}
}
