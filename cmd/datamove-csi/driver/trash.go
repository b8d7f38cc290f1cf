package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/csi"
	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/fsworker"
	"datamove.dev/mover"
)

// trash is for operators: what was removed can be brought back for a while.
func (o *options) trash() *cobra.Command {
	c := &cobra.Command{Use: "trash", Short: "What was removed and is not gone, and how to bring it back"}
	var asJSON bool
	list := &cobra.Command{
		Use: "list", Short: "List what lies in the trash of the file systems that this machine has", Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.offline(func(d *csi.Driver) error {
				all, err := d.Trash(c.Context())
				return errors.Join(printTrash(c.OutOrStdout(), all, asJSON), err)
			})
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "as JSON, with all that is known")
	restore := &cobra.Command{
		Use: "restore ID", Short: "Make a removed volume, or snapshot, one again", Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return mover.Usagef("want the ID of what was removed; datamove-csi trash list has them")
			}
			return nil
		},
		Long: `Restore brings back what was removed last under an ID: it is a volume again, with its content,
capacity and owner. Kubernetes learns of it by a PersistentVolume with this ID as spec.csi.volumeHandle.`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.offline(func(d *csi.Driver) error {
				r, err := d.Restore(c.Context(), args[0])
				if err == nil {
					_, err = fmt.Fprintf(c.OutOrStdout(), "restored %s: %d bytes, for claim %s/%s\na PersistentVolume of driver %s with volumeHandle %s has it\n",
						r.ID, r.Bytes, mover.Printable(r.Parameters.For.Namespace), mover.Printable(r.Parameters.For.Name), csi.Name, r.ID)
				}
				return err
			})
		},
	}
	c.AddCommand(list, restore)
	return c
}

func none(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return mover.Usagef("it takes no %q: see datamove-csi --help", args[0])
	}
	return nil
}

// offline is a driver that answers no calls.
func (o *options) offline(do func(*csi.Driver) error) error {
	config, err := o.read()
	if err != nil {
		return err
	}
	crew := &fsworker.Pool{}
	defer crew.Close()
	return do(csi.New(csi.Options{Config: config, Files: &fsclient.Files{Pool: crew, Limit: o.limit}, Mode: csi.All, Version: version, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}))
}

func printTrash(out io.Writer, all []csi.Removed, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tCLAIM\tREMOVED\tKEPT UNTIL\tARCHIVE")
	for _, r := range all {
		archive := "-"
		switch {
		case r.Stone.Archived != nil:
			archive = "done"
		case r.Stone.ArchiveTo != "":
			archive = "waits"
		}
		claim := r.Record.Parameters.For
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Stone.ID, mover.Printable(claim.Namespace+"/"+claim.Name), r.Stone.Removed.Format(time.RFC3339), r.Stone.Keep.Format(time.RFC3339), archive)
	}
	return w.Flush()
}
