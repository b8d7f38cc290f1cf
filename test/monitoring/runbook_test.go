package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runbook returns the sections of RUNBOOK.md by name.
func runbook(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "RUNBOOK.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		if sections[name] != "" {
			t.Errorf("%s is there twice", name)
		}
		sections[name] = body
	}
	return sections
}

// command finds datamove and its subcommands, in a block or in a sentence: words before
// the first argument.
var command = regexp.MustCompile("(?m)(?:^|`)datamove((?: [a-z]+)+)")

// Each alert has a section in the runbook, and each section an alert; a section says
// what it means, what to look at with which commands, and what to do.
func TestRunbook(t *testing.T) {
	sections := runbook(t)
	for _, a := range alerts(t) {
		body := sections[a.Alert]
		for _, part := range []string{"**Means.**", "**Look.**", "**Do.**", "\n```\n"} {
			if !strings.Contains(body, part) {
				t.Errorf("the section of %s has no %s", a.Alert, part)
			}
		}
		if !command.MatchString(body) && !strings.Contains(body, "/metrics") && !strings.Contains(body, "\nkubectl ") && !strings.Contains(body, "/proc/") {
			t.Errorf("the section of %s has no command", a.Alert)
		}
		delete(sections, a.Alert)
	}
	for name := range sections {
		t.Errorf("there is no alert %s", name)
	}
}

// What the runbook says to run can be run: there is a manual page for it.
func TestRunbookCommandsExist(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "run", "../../cmd/datamove", "man", dir).CombinedOutput(); err != nil {
		t.Fatalf("datamove man: %v\n%s", err, out)
	}
	page := func(words string) bool {
		_, err := os.Stat(filepath.Join(dir, "datamove"+strings.ReplaceAll(words, " ", "-")+".1"))
		return err == nil
	}
	if !page(" task") {
		t.Skip("datamove has no commands for the service yet")
	}
	for name, body := range runbook(t) {
		for _, found := range command.FindAllStringSubmatch(body, -1) {
			if !page(found[1]) {
				t.Errorf("%s: there is no command datamove%s", name, found[1])
			}
		}
	}
}
