package files

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/units"
)

const schemaUsage = "datamove.usage/v1"

// usageView is what is below a location, as JSON.
type usageView struct {
	Schema   string `json:"schema"`
	Location string `json:"location"`
	Files    int64  `json:"files"`
	Bytes    int64  `json:"bytes"`
	Dirs     int64  `json:"dirs"`
	Others   int64  `json:"others"` // links and special files
}

func duCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:               "du [flags] LOCATION...",
		Short:             "Count files and bytes",
		ValidArgsFunction: a.CompleteLocations(),
		Long: `Du counts what is below each location: contents as they read, so that a folder and
its copy have the same count, whatever the disks make of them.`,
		Example: `  datamove du /data/run-7 s3://archive/run-7`,
		Args:    cli.AtLeastOne("one location or more"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		out := cli.NewLines(a.Out)
		var views []usageView
		for _, arg := range args {
			v, err := du(ctx, a, arg)
			if err != nil {
				_ = out.Flush() // what was counted before is shown; err is what counts
				return err
			}
			views = append(views, v)
			printUsage(out, f, v)
		}
		if f == cli.FormatJSON || f == cli.FormatYAML {
			if err := cli.WriteObject(out, f, views); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	return cmd
}

func du(ctx context.Context, a *cli.App, arg string) (usageView, error) {
	l, err := a.Locate(arg)
	if err != nil {
		return usageView{}, err
	}
	t, err := engine.Usage(ctx, l, a.Open)
	if err != nil {
		return usageView{}, err
	}
	return usageView{schemaUsage, arg, t.Files, t.Bytes, t.Dirs, t.Others + t.Links}, nil
}

func printUsage(out *cli.Lines, f cli.Format, v usageView) {
	switch f {
	case cli.FormatJSONL:
		out.JSON(v)
	case cli.FormatTable:
		out.Printf("%10s  %s  %s", units.Bytes(v.Bytes), v.text(), mover.Printable(v.Location))
	}
}

func (v usageView) entries() int64 { return v.Files + v.Dirs + v.Others }

// text says how many entries of each kind there are.
func (v usageView) text() string {
	text := units.Plural(v.Files, "file", "files")
	if v.Dirs > 0 {
		text += ", " + units.Plural(v.Dirs, "folder", "folders")
	}
	if v.Others > 0 {
		text += fmt.Sprintf(", %s other", units.Count(v.Others))
	}
	return text
}
