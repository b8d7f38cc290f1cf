package service

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/units"
)

func configCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write, print and check the configuration",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(configInitCommand(a), configViewCommand(a), configCheckCommand(a))
	return cmd
}

func configInitCommand(a *cli.App) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "Write a configuration with every key explained",
		Example: `  datamove config init`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error {
		file, err := config.Init(a.Lookup, force)
		if err != nil || a.Quiet {
			return err
		}
		_, err = fmt.Fprintf(a.Out, "wrote %s\n", mover.Printable(file))
		return err
	})
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	return cmd
}

// configView is the configuration as JSON.
type configView struct {
	Schema   string           `json:"schema"`
	File     string           `json:"file,omitempty"`
	Settings []config.Setting `json:"settings"`
}

func configViewCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Print what is configured, and where each value comes from",
		Long: `View prints every value and where it comes from. Secrets are never in it: the
configuration names a file, a profile or the environment that has them.`,
		Example: `  datamove config view`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error {
		conf, err := a.Config()
		if err != nil {
			return err
		}
		if f != cli.FormatTable {
			return cli.WriteObject(a.Out, f, configView{"datamove.config/v1", conf.File, append([]config.Setting{}, conf.Settings()...)})
		}
		switch {
		case conf.File == "" && len(conf.Settings()) == 0:
			fmt.Fprintln(a.Out, "nothing is configured; datamove config init writes a file to begin with")
		case len(conf.Settings()) == 0:
			fmt.Fprintf(a.Out, "%s sets nothing\n", mover.Printable(conf.File))
		}
		for _, s := range conf.Settings() {
			fmt.Fprintf(a.Out, "%-32s %-40s %s\n", s.Key, mover.Printable(s.Value), s.From)
		}
		return nil
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatYAML)
	return cmd
}

func configCheckCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Name every mistake in the configuration, with its line",
		Long: `Check reads the configuration, or FILE, and names every mistake with its line and
key. It does not look at the places; datamove doctor does.`,
		Example: `  datamove config check /etc/datamove/config.yaml`,
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.Do(func(_ context.Context, args []string) error {
		if len(args) == 1 {
			a.ConfigFile = args[0]
		}
		conf, err := a.Config()
		if err != nil {
			return err
		}
		for _, p := range conf.Warnings() {
			fmt.Fprintf(a.Err, "warning: %s\n", p)
		}
		where := conf.File
		if where == "" {
			where = "there is no configuration, which"
		}
		if a.Quiet {
			return nil
		}
		_, err = fmt.Fprintf(a.Out, "%s is fine: %s\n", mover.Printable(where), units.Plural(int64(len(conf.Tiers)), "tier", "tiers"))
		return err
	})
	return cmd
}
