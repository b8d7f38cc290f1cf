package root

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/manual"
	"datamove.dev/test/document"
	"datamove.dev/test/must"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md, the table of docs/reference/exit-codes.md, and testdata/json.golden")

const referenceIntroduction = `# Commands

<!-- generated from the commands by make docs -->

` + "Each part is what `datamove COMMAND --help` prints. `datamove man DIR` writes the same as manual pages, and `datamove completion` the completion of a shell." + `
[Exit codes](exit-codes.md) say how a command ended.

`

// TestReference holds docs/reference/cli.md to the commands, and the table of docs/reference/exit-codes.md to their exit codes.
func TestReference(t *testing.T) {
	root := New(&cli.App{})
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	var b strings.Builder
	b.WriteString(referenceIntroduction)
	document.Describe(&b, root)
	b.WriteString(strings.TrimPrefix(contents(root), "\n"))
	b.WriteString("\n## Options of all commands\n\n" + document.Options(root.PersistentFlags()))
	b.WriteString("\n## Environment\n\n" + entryTable("variable", "is", manual.Environment) + "\n## Files\n\n" + entryTable("file", "has", manual.Files))
	must.Do(t, manual.Each(root, func(cmd *cobra.Command) error {
		if cmd.HasParent() {
			document.Chapter(&b, cmd)
		}
		return nil
	}))
	document.Hold(t, "../../..", "docs/reference/cli.md", b.String(), *update)
	document.HoldTable(t, "../../..", "docs/reference/exit-codes.md", "cmd/datamove/manual", entryTable("exit", "means", manual.ExitCodes), *update)
}

// contents lists all commands by the groups of the help.
func contents(root *cobra.Command) string {
	var b strings.Builder
	for _, g := range slices.Concat(helpFirst, helpMore) {
		fmt.Fprintf(&b, "\n**%s**\n\n%s", g.title, document.Head("command", "does"))
		for name := range strings.FieldsSeq(g.commands) {
			cmd, _, _ := root.Find([]string{name}) // TestGroups has it
			_ = manual.Each(cmd, func(cmd *cobra.Command) error {
				b.WriteString(document.Row(fmt.Sprintf("[%s](#%s)", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-")), document.Cell(cmd.Short)))
				return nil
			})
		}
	}
	return b.String()
}

func entryTable(word, means string, entries []manual.Entry) string {
	table := document.Head(word, means)
	for _, e := range entries {
		table += document.Row("`"+strings.ReplaceAll(e.Word, ", ", "`, `")+"`", document.Cell(e.Means))
	}
	return table
}

// TestManual: the page of each command has all parts, in their order, and what it says of exit codes, of the environment and of files is what all others say.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	pages := must.Get(writeManual(New(&cli.App{}), dir))(t)
	files := must.Get(filepath.Glob(filepath.Join(dir, "*.1")))(t)
	if len(files) != pages || pages < 90 {
		t.Errorf("%d pages are written, and %d are there", pages, len(files))
	}
	common := ""
	for _, file := range files {
		text, name := string(must.Get(os.ReadFile(file))(t)), filepath.Base(file)
		rest := text
		for _, part := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"} {
			_, after, found := strings.Cut(rest, "\n.SH "+part+"\n")
			if !found || strings.HasPrefix(after, ".SH") || after == "" {
				t.Errorf("%s has no %s behind what is before it", name, part)
				continue
			}
			rest = after
		}
		_, shared, _ := strings.Cut(text, ".SH EXIT STATUS\n")
		shared, _, _ = strings.Cut(shared, ".SH SEE ALSO\n")
		if common = cmp.Or(common, shared); shared != common {
			t.Errorf("%s has other exit codes, variables or files than %s", name, filepath.Base(files[0]))
		}
	}
	for _, word := range []string{"130", "DATAMOVE_SERVICE", "/run/datamove/datamoved.sock"} {
		if !strings.Contains(common, word) {
			t.Errorf("no page says %s", word)
		}
	}
}
