package root

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/manual"
)

// group is some of the commands, by their names.
type group struct {
	title    string
	commands string
}

// helpFirst are the commands that come first in the help, with what they do; helpMore are all others, by name.
var (
	helpFirst = []group{
		{"Copy and compare", "copy sync verify"},
		{"Look and remove", "ls du find rm"},
		{"Datasets, tasks and checkpoints", "stage task checkpoint"},
	}
	helpMore = []group{
		{"Datasets", "dataset release purge pin unpin lease"},
		{"Storage", "tier layout quota usage policy"},
		{"Service", "service agent audit burst hook"},
		{"This command", "config doctor demo completion man version"},
	}
)

// helpWith has a root print its help by these groups; that of the commands below it stays as cobra has it.
func helpWith(root *cobra.Command) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasParent() {
			usual(cmd, args)
			return
		}
		rootHelp(cmd.OutOrStdout(), cmd)
	})
}

// rootHelp prints what there is: it fits on a screen.
func rootHelp(out io.Writer, root *cobra.Command) {
	does := map[string]string{}
	for _, c := range manual.Below(root) {
		does[c.Name()] = c.Short
	}
	about, _, _ := strings.Cut(root.Long, "\n\n")
	fmt.Fprintf(out, "%s\n\nUsage: datamove COMMAND [OPTION...] LOCATION...\n\nA location is /path, s3://bucket/prefix, TIER:path or dataset:NAME.\n", about)
	for _, g := range helpFirst {
		fmt.Fprintf(out, "\n%s:\n", g.title)
		for name := range strings.FieldsSeq(g.commands) {
			fmt.Fprintf(out, "  %-12s%s\n", name, does[name])
		}
	}
	fmt.Fprint(out, "\nMore commands:\n")
	for _, g := range helpMore {
		fmt.Fprintf(out, "  %-14s%s\n", g.title+":", strings.Join(strings.Fields(g.commands), ", "))
	}
	fmt.Fprint(out, "\nOptions of all commands:\n ")
	for _, f := range manual.Flags(root.PersistentFlags()) {
		fmt.Fprintf(out, " --%s", strings.TrimSpace(f.Long+" "+f.Value))
	}
	fmt.Fprintf(out, "\n\nExamples:\n%s\n\n\"datamove COMMAND --help\" prints the options of a command, with examples.\n", root.Example)
}
