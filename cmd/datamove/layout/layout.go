// Package layout has the commands that show, advise and set how files are striped.
//
// It owns the words of a layout on the command line and how one is printed; the file system is opened by cli.App.Mounted, and asked through package lustre.
// cmd/datamove/root TestLayoutCommands is a session on a Lustre in memory.
package layout

import (
	"context"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
)

// Command is datamove layout.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "layout",
		Short: "See, choose and set how files are striped",
		Long: `A layout says how the bytes of a file lie on the servers of a parallel file system:
in how many stripes of which size, in which pool, and for a progressive one, up to
which size. A file has its layout from the moment it is made; a directory has one for
the files that will be made in it.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(showCommand(a), setCommand(a), adviseCommand(a))
	return cmd
}
