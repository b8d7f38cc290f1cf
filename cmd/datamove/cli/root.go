package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// program is the tree of commands, and the answers to what is not in it.
func program() Program {
	return Program{Commands: func(a *app) *cobra.Command { return a.root() }, Meant: meant}
}

// Main is the whole command in its process: it takes os.Args, and returns the exit code.
// release is the version that the linker set, or "".
func Main(release string) int { return mainOf(release, program()) }

// run does the command with these arguments. What went wrong has been told to a.err when it returns.
func (a *app) run(ctx context.Context, args []string) error { return a.Run(ctx, program(), args) }

// root makes the tree of commands.
func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "datamove",
		Short: "Copy, synchronise and verify trees between file systems and S3",
		Long: `datamove copies, synchronises and verifies trees of files between POSIX file
systems and S3. What it copies is checked; nothing half is ever visible; and the
same command after an interruption goes on where it stopped.

A location is /path, file:///path, s3://bucket/prefix or TIER:path, with a tier
of the configuration. S3 without a configuration uses the AWS environment.

With a service (--service, DATAMOVE_SERVICE, or service: in the configuration) the
work is done there, a location may be dataset:NAME[@DIGEST], too, and there are
tasks, datasets and agents to look at.`,
		Example: `  datamove copy /data/run-7 /scratch/run-7
  datamove sync --delete --dry-run /data/run-7 s3://archive/run-7
  datamove copy --detach /data/run-7 archive:run-7
  datamove task watch 06c8fk2rjq7m1x0v4d5e`,
		SilenceUsage: true, SilenceErrors: true, DisableFlagsInUseLine: true, DisableSuggestions: true, // meant has better ones
	}
	// A template of cobra would link text/template, and with it each method of each type: a third of the program.
	version := cmd.Flags().Bool("version", false, "print the version")
	cmd.RunE = a.do(func(context.Context, []string) error {
		if *version {
			_, err := fmt.Fprintf(a.out, "datamove %s\n", buildFacts().Version)
			return err
		}
		return cmd.Help()
	})
	a.GlobalFlags(cmd.PersistentFlags())
	cmd.SetHelpCommand(a.helpCommand())
	helpWith(cmd)
	cmd.AddCommand(a.copyCommand(), a.syncCommand(), a.verifyCommand(), a.checkpointCommand(), a.burstCommand(),
		a.lsCommand(), a.findCommand(), a.duCommand(), a.rmCommand(), a.tierCommand(), a.layoutCommand(), a.quotaCommand(),
		a.taskCommand(), a.datasetCommand(), a.stageCommand(), a.releaseCommand(), a.purgeCommand(), a.pinCommand(), a.unpinCommand(),
		a.leaseCommand(), a.policyCommand(), a.agentCommand(), a.usageCommand(), a.serviceCommand(), a.hookCommand(),
		a.configCommand(), a.doctorCommand(), a.auditCommand(), a.demoCommand(), a.manCommand(), a.versionCommand())
	cmd.InitDefaultCompletionCmd()
	if shells, _, err := cmd.Find([]string{"completion"}); err == nil { // cobra's prints its help for a shell that it has not, and ends with 0
		shells.RunE = a.do(func(context.Context, []string) error { return shells.Help() })
		for _, shell := range shells.Commands() {
			shell.Example = "  datamove completion " + shell.Name() + " >FILE"
		}
	}
	a.complete(cmd)
	return cmd
}
