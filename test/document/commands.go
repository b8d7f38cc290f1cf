package document

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/manual"
)

// Program is the page of a program, below its introduction: what it does, and a chapter for each command of it.
func Program(introduction string, root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(introduction)
	_ = manual.Each(root, func(cmd *cobra.Command) error { // which never fails
		if cmd.Name() != "completion" && !strings.Contains(cmd.CommandPath(), " completion ") { // cobra's own
			Chapter(&b, cmd)
		}
		return nil
	})
	return b.String()
}

// Chapter writes what a command does, takes, and looks like. Options of a command that those below it have, too, stand at it alone.
func Chapter(b *strings.Builder, cmd *cobra.Command) {
	var c strings.Builder
	fmt.Fprintf(&c, "## %s\n\n```text\n%s\n```\n\n", cmd.CommandPath(), strings.Join(manual.Synopses(cmd), "\n"))
	Describe(&c, cmd)
	if table := Options(cmd.LocalFlags()); table != "" {
		c.WriteString(table + "\n")
	}
	if cmd.Example != "" {
		fmt.Fprintf(&c, "```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(strings.Trim(cmd.Example, "\n"), "  "), "\n  ", "\n"))
	}
	b.WriteString("\n" + strings.TrimSpace(c.String()) + "\n")
}

// Describe writes the paragraphs of what a command does; what is indented stays as it is.
func Describe(b *strings.Builder, cmd *cobra.Command) {
	for part := range strings.SplitSeq(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short+".")), "\n\n") {
		if strings.HasPrefix(part, " ") {
			fmt.Fprintf(b, "```text\n%s\n```\n\n", part)
		} else {
			b.WriteString(Cell(part) + "\n\n")
		}
	}
}

// Options lists the flags of a set; "" has none.
func Options(set *pflag.FlagSet) string {
	var b strings.Builder
	for _, f := range manual.Flags(set) {
		name := "`--" + strings.TrimSpace(f.Long+" "+f.Value) + "`"
		if f.Short != "" {
			name = "`-" + f.Short + "`, " + name
		}
		if f.Long != "help" {
			b.WriteString(Row(name, Cell(f.Means)))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return Head("option", "meaning") + b.String()
}
