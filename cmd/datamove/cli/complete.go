package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	pb "datamove.dev/api/datamove/v1"
)

// complete lets the shell complete the values of flags, in cmd and all below it.
func (a *app) complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		var words cobra.CompletionFunc
		switch f.Name {
		case "to", "from", "tier":
			words = a.completeTiers()
		case "node":
			words = a.completeAgents()
		case "pool":
			words = a.completePools()
		case "dataset":
			words = a.completeDatasets("")
		case "state":
			words = cobra.FixedCompletions((&chosen[pb.TaskState]{choices: stateChoices}).Words(), cobra.ShellCompDirectiveNoFileComp)
		}
		if c, ok := f.Value.(interface{ Words() []string }); ok {
			words = cobra.FixedCompletions(c.Words(), cobra.ShellCompDirectiveNoFileComp)
		}
		if words != nil {
			// It fails only for a flag that is not there, or has a function already.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, words)
		}
	})
	for _, below := range cmd.Commands() {
		a.complete(below)
	}
}
