package root

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/test/document"
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
	if _, err := writeManual(New(&cli.App{}), dir); err != nil {
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

// TestDocumentsCommands: each call of datamove in a document, in a block that runs or not and in a sentence, is of a command that there is, with flags that it has.
func TestDocumentsCommands(t *testing.T) {
	const top = "../../.."
	root := New(&cli.App{})
	found := 0
	for _, file := range must.Get(document.Written(top))(t) {
		for _, text := range must.Get(document.Calls(top, file))(t) {
			for _, call := range calls(text) {
				if err := callable(root, call); err != nil {
					t.Errorf("%s: datamove %s: %v", file, strings.Join(call, " "), err)
				}
				found++
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d calls are found", found)
	}
}

// commanded finds calls of datamove where a shell has the name of a command.
var commanded = regexp.MustCompile(`(?m)(?:^\s*|[|;&(]\s*|-- |(?:sudo|exec|then|do|xargs(?: -\S+)*) +)(?:[A-Z_]+=\S* +)*datamove((?: +(?:"[^"]*"|'[^']*'|[^\s;|&)"'#>]+))+)`)

// calls are the words of each call of datamove in a text.
func calls(text string) [][]string {
	var found [][]string
	for _, m := range commanded.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.Fields(m[1]))
	}
	return found
}

// callable reports what is wrong with the words of a call: of which command they are, and the flags of that.
func callable(root *cobra.Command, words []string) error {
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if group := cmd.Use == cmd.Name(); cmd == root || group && cmd.HasAvailableSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("there is no such command below %q", cmd.CommandPath())
	}
	for _, word := range rest {
		name, _, _ := strings.Cut(word, "=")
		if name == "--" {
			break
		}
		long, ok := strings.CutPrefix(name, "--")
		if ok && long != "help" && cmd.Flags().Lookup(long) == nil && cmd.InheritedFlags().Lookup(long) == nil {
			return fmt.Errorf("there is no flag %s", name)
		}
	}
	return nil
}

func TestCallable(t *testing.T) {
	for _, row := range []struct{ text, err string }{
		{"datamove copy --dry-run A B | cat --nothing", ""},
		{"datamove task list -o name", ""},
		{"datamove agent list | xargs datamove task list", ""},
		{"datamove copi A B", "unknown command"},
		{"datamove copy --dyr-run A B", "no flag --dyr-run"},
		{"datamove task lst", "no such command"},
		{"x=$(datamove task lst)", "no such command"},
		{"kubectl -n datamove exec pod -- datamove task lst", "no such command"},
		{"kubectl -n datamove get pods", ""},
		{"DATAMOVE_SERVICE=none datamove task lst", "no such command"},
	} {
		var err error
		for _, call := range calls(row.text) {
			err = callable(New(&cli.App{}), call)
		}
		if (err != nil) != (row.err != "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %v, want %q", row.text, err, row.err)
		}
	}
}
