package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/manual"
)

func (a *app) manCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a folder",
		Example: `  datamove man ~/.local/share/man/man1`,
		Args:    exactly(1, "a folder for the pages"),
	}
	cmd.RunE = a.do(func(_ context.Context, args []string) error {
		pages, err := writeManual(a.root(), args[0])
		if err != nil || a.quiet {
			return err
		}
		_, err = fmt.Fprintf(a.out, "wrote %d pages to %s\n", pages, args[0])
		return err
	})
	return cmd
}

// writeManual writes one page per command. Pages of the same version are the same bytes.
func writeManual(root *cobra.Command, dir string) (pages int, err error) {
	facts := buildFacts()
	date, err := time.Parse(time.RFC3339, facts.Date)
	if err != nil {
		date = time.Unix(0, 0).UTC() // not built from a commit
	}
	return manual.Pages{Version: facts.Version, Date: date}.Write(root, dir)
}
