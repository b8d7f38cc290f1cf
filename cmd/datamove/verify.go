package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"datamove.dev/mover/local"
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
		return t.run(ctx)
	})
	t.flags(cmd.Flags())
	cmd.Flags().StringVar(&manifest, "manifest", "", "compare DST with the manifest `FILE`")
	cmd.Flags().StringVar(&writeTo, "write-manifest", "", "write a manifest of the location to `FILE`, which must not exist")
	return cmd
}

// writeManifest makes FILE visible when it is whole.
func (t *task) writeManifest(ctx context.Context, arg, file string) error {
	l, err := t.app.locate(arg)
	if err != nil {
		return err
	}
	draft, err := os.OpenFile(file+".part", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	err = local.WriteManifest(ctx, l, draft, t.app.open)
	if err == nil {
		err = draft.Sync()
	}
	if cerr := draft.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := os.Link(draft.Name(), file); err != nil {
		return err
	}
	if !t.app.quiet {
		fmt.Fprintf(t.app.out, "wrote %s\n", file)
	}
	return nil
}
