package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/mover"
	"datamove.dev/mover/local"
	"datamove.dev/mover/location"
)

func (a *app) verifyCommand() *cobra.Command {
	t := &task{app: a, command: "verify", request: local.Request{Work: local.Verify}}
	var manifest, writeTo string
	cmd := &cobra.Command{
		Use:     "verify [flags] SRC DST | verify [flags] --manifest FILE DST",
		Short:   "Compare contents by checksum and name what differs",
		GroupID: groupMove,
		Long: `Verify reads both sides, or one side and a manifest, compares every content by its
checksum, and names each difference. It writes nothing. The exit code is 9 when
something differs.

A manifest is a list of every name with its facts and checksum; --write-manifest
makes one of what is there now.`,
		Example: `  datamove verify /data/run-7 s3://archive/run-7
  datamove verify --write-manifest run-7.manifest /data/run-7
  datamove verify --manifest run-7.manifest /scratch/run-7`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case manifest != "" && writeTo != "":
				return usage("--manifest and --write-manifest exclude each other")
			case manifest != "" || writeTo != "":
				return exactly(1, "one location")(nil, args)
			}
			return exactly(2, "SRC and DST")(nil, args)
		},
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if writeTo != "" {
			if err := alone(cmd, "write-manifest"); err != nil {
				return err
			}
			return t.writeManifest(ctx, args[0], writeTo)
		}
		t.request.Manifest = manifest
		source := args[0]
		if manifest != "" {
			source = ""
		}
		if err := t.ends(source, args[len(args)-1]); err != nil {
			return err
		}
		err := t.run(ctx)
		if some := (*partial)(nil); manifest != "" && errors.Is(err, mover.ErrCorrupt) && !errors.As(err, &some) {
			return advise(err, "another copy of the manifest, or one made anew with --write-manifest")
		}
		return err
	})
	t.flags(cmd.Flags())
	cmd.Flags().StringVar(&manifest, "manifest", "", "compare DST with the manifest `FILE`")
	cmd.Flags().StringVar(&writeTo, "write-manifest", "", "write a manifest of the location to `FILE`, which must not exist")
	return cmd
}

// alone refuses flags of cmd that have no meaning beside the one that is named.
func alone(cmd *cobra.Command, name string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != name && cmd.InheritedFlags().Lookup(f.Name) == nil && err == nil {
			err = usage("--%s has no meaning with --%s", f.Name, name)
		}
	})
	return err
}

// writeManifest makes FILE visible when it is whole.
func (t *task) writeManifest(ctx context.Context, arg, file string) error {
	l, err := t.app.locate(arg)
	if err != nil {
		return err
	}
	there := fmt.Errorf("%w: %s is there already: remove it, or give another name", mover.ErrConflict, mover.Printable(file))
	if _, err := os.Lstat(file); err == nil {
		return there // before the work
	}
	draft, err := os.OpenFile(fmt.Sprintf("%s.%d.part", file, os.Getpid()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	if err := errors.Join(t.fillManifest(ctx, l, draft), draft.Close()); err != nil {
		return err
	}
	if err := os.Link(draft.Name(), file); errors.Is(err, fs.ErrExist) {
		return there
	} else if err != nil {
		return err
	}
	if !t.app.quiet {
		fmt.Fprintf(t.app.out, "wrote %s\n", mover.Printable(file))
	}
	return nil
}

func (t *task) fillManifest(ctx context.Context, l location.Location, draft *os.File) error {
	if err := local.WriteManifest(ctx, l, draft, t.app.open); err != nil {
		return err
	}
	return draft.Sync()
}
