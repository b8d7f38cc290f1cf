package root

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
)

func versionCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built from",
		Example: `  datamove version -o json`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error {
		v := cli.BuildFacts()
		if f != cli.FormatTable {
			return cli.WriteObject(a.Out, f, v)
		}
		fmt.Fprintf(a.Out, "datamove %s\n", v.Version)
		if v.Commit != "" {
			fmt.Fprintf(a.Out, "commit   %s %s%s\n", v.Commit, v.Date, map[bool]string{true: " (modified)"}[v.Modified])
		}
		_, err := fmt.Fprintf(a.Out, "built    %s %s, cgo %t\n", v.Go, v.Platform, v.Cgo)
		return err
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatYAML)
	return cmd
}
