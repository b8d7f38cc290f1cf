// Package root is the command datamove as a whole: the tree of commands of all packages beside it, its help and manual pages, and what to try instead of a
// command line that has an error (meant.go).
//
// It decides nothing else: what all commands share is package cli, and a command belongs to the package of its noun. Nothing below cmd/datamove imports it.
// TestDocumentsCommands holds documents to the commands that there are, TestReference the reference, TestScripts all sessions of test/script.
package root

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/burst"
	"datamove.dev/cmd/datamove/checkpoint"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/dataset"
	"datamove.dev/cmd/datamove/demo"
	"datamove.dev/cmd/datamove/doctor"
	"datamove.dev/cmd/datamove/files"
	"datamove.dev/cmd/datamove/layout"
	"datamove.dev/cmd/datamove/policy"
	"datamove.dev/cmd/datamove/quota"
	"datamove.dev/cmd/datamove/service"
	"datamove.dev/cmd/datamove/slurm"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/cmd/datamove/tier"
)

// program is the tree of commands, and the answers to what is not in it.
func program() cli.Program {
	return cli.Program{Commands: New, Meant: meant}
}

// Main is the whole command in its process: it takes os.Args, and returns the exit code.
// release is the version that the linker set, or "".
func Main(release string) int { return cli.Main(release, program()) }

// execute does the command with these arguments. What went wrong has been told to a.Err when it returns.
func execute(ctx context.Context, a *cli.App, args []string) error {
	return a.Run(ctx, program(), args)
}

// New makes the tree of commands.
func New(a *cli.App) *cobra.Command {
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
	cmd.RunE = a.Do(func(context.Context, []string) error {
		if *version {
			_, err := fmt.Fprintf(a.Out, "datamove %s\n", cli.BuildFacts().Version)
			return err
		}
		return cmd.Help()
	})
	a.GlobalFlags(cmd.PersistentFlags())
	cmd.SetHelpCommand(helpCommand(a))
	helpWith(cmd)
	cmd.AddCommand(files.Commands(a)...)
	cmd.AddCommand(dataset.Commands(a)...)
	cmd.AddCommand(service.Commands(a)...)
	cmd.AddCommand(checkpoint.Command(a), burst.Command(a), tier.Command(a), layout.Command(a), quota.Command(a), task.Command(a), policy.Command(a), slurm.Command(a),
		doctor.Command(a), demo.Command(a), manCommand(a), versionCommand(a))
	cmd.InitDefaultCompletionCmd()
	if shells, _, err := cmd.Find([]string{"completion"}); err == nil { // cobra's prints its help for a shell that it has not, and ends with 0
		shells.RunE = a.Do(func(context.Context, []string) error { return shells.Help() })
		for _, shell := range shells.Commands() {
			shell.Example = "  datamove completion " + shell.Name() + " >FILE"
		}
	}
	complete(a, cmd)
	return cmd
}
