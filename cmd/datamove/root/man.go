package root

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/manual"
)

func manCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a folder",
		Example: `  datamove man ~/.local/share/man/man1`,
		Args:    cli.Exactly(1, "a folder for the pages"),
	}
	cmd.RunE = a.Do(func(_ context.Context, args []string) error {
		pages, err := writeManual(New(a), args[0])
		if err != nil || a.Quiet {
			return err
		}
		_, err = fmt.Fprintf(a.Out, "wrote %d pages to %s\n", pages, args[0])
		return err
	})
	return cmd
}

// writeManual writes one page per command. Pages of the same version are the same bytes.
func writeManual(root *cobra.Command, dir string) (pages int, err error) {
	facts := cli.BuildFacts()
	date, err := time.Parse(time.RFC3339, facts.Date)
	if err != nil {
		date = time.Unix(0, 0).UTC() // not built from a commit
	}
	return manual.Pages{Version: facts.Version, Date: date}.Write(root, dir)
}
