package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) layoutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "layout",
		Short: "See, choose and set how files are striped",
		Long: `A layout says how the bytes of a file lie on the servers of a parallel file system:
in how many stripes of which size, in which pool, and for a progressive one, up to
which size. A file has its layout from the moment it is made; a directory has one for
the files that will be made in it.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.layoutShow(), a.layoutSet(), a.layoutAdvise())
	return cmd
}
