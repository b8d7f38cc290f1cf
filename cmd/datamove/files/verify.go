package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
)

func verifyCommand(a *cli.App) *cobra.Command {
	t := &task.Request{App: a, Command: "verify", Engine: engine.Request{Work: engine.Verify}}
	var manifest, writeTo string
	cmd := &cobra.Command{
		Use:   "verify [flags] SRC DST | verify [flags] --manifest FILE DST",
		Short: "Compare contents by checksum and name what differs",
		Long: `Verify reads both sides, or one side and a manifest, compares every content by its
checksum, and names each difference. It writes nothing. The exit code is 9 when
something differs.

A manifest is a list of every name with its facts and checksum; --write-manifest
makes one of what is there now. Both work on a file of yours, and so in this
process also where there is a service.

` + serviceHelp,
		Example: `  datamove verify /data/run-7 s3://archive/run-7
  datamove verify --write-manifest run-7.manifest /data/run-7
  datamove verify --manifest run-7.manifest /scratch/run-7`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case manifest != "" && writeTo != "":
				return mover.Misusef("--manifest and --write-manifest exclude each other")
			case manifest != "" || writeTo != "":
				return cli.Exactly(1, "one location")(nil, args)
			}
			return cli.Exactly(2, "SRC and DST")(nil, args)
		},
	}
	cmd.ValidArgsFunction = a.CompleteLocations()
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if writeTo != "" {
			if err := alone(cmd, "write-manifest"); err != nil {
				return err
			}
			return writeManifest(ctx, t, args[0], writeTo)
		}
		t.Engine.Manifest = manifest
		only, place := "", func() error { return t.SetEnds(args[0], args[len(args)-1]) }
		if manifest != "" {
			only, place = "--manifest", func() error { return t.SetTarget(args[0]) }
		}
		if err := t.ChooseProcess(only); err != nil {
			return err
		}
		if err := place(); err != nil {
			return err
		}
		err := run(ctx, t)
		if some := (*cli.PartialError)(nil); manifest != "" && errors.Is(err, mover.ErrCorrupt) && !errors.As(err, &some) {
			return cli.Advise(err, "another copy of the manifest, or one made anew with --write-manifest")
		} else if manifest != "" && errors.Is(err, mover.ErrCorrupt) { // there is no SRC
			return cli.Advise(err, "datamove copy to "+mover.Printable(args[0])+" from a place that is still as the manifest says; where the change is meant, a new manifest by --write-manifest")
		}
		return err
	})
	commonFlags(t, cmd.Flags())
	cmd.Flags().StringVar(&manifest, "manifest", "", "compare DST with the manifest `FILE`")
	cmd.Flags().StringVar(&writeTo, "write-manifest", "", "write a manifest of the location to `FILE`, which must not exist")
	return cmd
}

// alone refuses flags of cmd that have no meaning beside the one that is named.
func alone(cmd *cobra.Command, name string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != name && cmd.InheritedFlags().Lookup(f.Name) == nil && err == nil {
			err = mover.Misusef("--%s has no meaning with --%s", f.Name, name)
		}
	})
	return err
}

// writeManifest makes FILE visible when it is whole.
func writeManifest(ctx context.Context, t *task.Request, arg, file string) error {
	l, err := t.App.Locate(arg)
	if err != nil {
		return err
	}
	_, err = cli.WriteWhole(file, 0o644, func(w io.Writer) (int64, error) {
		return 0, engine.WriteManifest(ctx, l, w, t.App.Open)
	})
	if err != nil {
		return err
	}
	if !t.App.Quiet {
		fmt.Fprintf(t.App.Out, "wrote %s\n", mover.Printable(file))
	}
	return nil
}
