package root

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/layout"
	"datamove.dev/cmd/datamove/service"
	"datamove.dev/cmd/datamove/task"
)

// complete lets the shell complete the values of flags, in cmd and all below it.
func complete(a *cli.App, cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		var words cobra.CompletionFunc
		switch f.Name {
		case "to", "from", "tier":
			words = a.CompleteTiers()
		case "node":
			words = service.CompleteAgents(a)
		case "pool":
			words = layout.CompletePools(a)
		case "dataset":
			words = a.CompleteDatasets("")
		case "state":
			words = cobra.FixedCompletions((&cli.Chosen[pb.TaskState]{Choices: task.StateChoices}).Words(), cobra.ShellCompDirectiveNoFileComp)
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
		complete(a, below)
	}
}
