package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built from",
		Example: `  datamove version -o json`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error {
		v := buildFacts()
		if f != formatTable {
			return writeObject(a.out, f, v)
		}
		fmt.Fprintf(a.out, "datamove %s\n", v.Version)
		if v.Commit != "" {
			fmt.Fprintf(a.out, "commit   %s %s%s\n", v.Commit, v.Date, map[bool]string{true: " (modified)"}[v.Modified])
		}
		_, err := fmt.Fprintf(a.out, "built    %s %s, cgo %t\n", v.Go, v.Platform, v.Cgo)
		return err
	})
	formatVar(cmd.Flags(), &f, formatTable, formatJSON, formatYAML)
	return cmd
}
