package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// runbook returns the sections of RUNBOOK.md by name.
func runbook(t *testing.T) map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, "RUNBOOK.md")))(t)
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
// the first argument. That there are such commands is held where they are (cmd/datamove/root TestRunbookCommands).
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
