package root

import (
	"slices"
	"strings"
	"testing"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/manual"
)

// TestGroups: each command is in one group of the help, and each word of a group is a command.
func TestGroups(t *testing.T) {
	root := New(&cli.App{})
	root.InitDefaultHelpCmd()
	var grouped, all []string
	for _, g := range slices.Concat(helpFirst, helpMore) {
		grouped = append(grouped, strings.Fields(g.commands)...)
	}
	for _, c := range manual.Below(root) {
		all = append(all, c.Name())
	}
	slices.Sort(grouped)
	slices.Sort(all)
	if !slices.Equal(grouped, all) {
		t.Errorf("the groups have %q, and there are %q", grouped, all)
	}
}

// TestRootHelp: the help of datamove has the commands that are needed first with what they do, and fits on a screen of 80 columns and 40 lines; "help" and no words say the same.
func TestRootHelp(t *testing.T) {
	_, help, _ := newSession(t, nil).run("--help")
	lines := strings.Split(strings.TrimSuffix(help, "\n"), "\n")
	for _, line := range lines {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if len(lines) > 40 {
		t.Errorf("%d lines", len(lines))
	}
	described := 0
	for _, line := range lines {
		if name, does, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, "  ") && slices.Contains(strings.Fields(helpFirst[0].commands+" "+helpFirst[1].commands+" "+helpFirst[2].commands), name) {
			if described++; strings.TrimSpace(does) == "" {
				t.Errorf("nothing is said of %s", name)
			}
		}
	}
	if described != 10 {
		t.Errorf("%d commands are described, want 10:\n%s", described, help)
	}
	for _, words := range [][]string{nil, {"help"}, {"-h"}} {
		if code, said, _ := newSession(t, nil).run(words...); code != 0 || said != help {
			t.Errorf("%q: exit %d, %q", words, code, said)
		}
	}
	if _, said, _ := newSession(t, nil).run("copy", "--help"); !strings.Contains(said, "--bwlimit RATE") || strings.Contains(said, "More commands") {
		t.Errorf("copy --help: %s", said)
	}
}
