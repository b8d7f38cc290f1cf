package files

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/units"
)

const schemaEntry = "datamove.entry/v1"

// entryView is one entry as JSON. What the place does not know is left out.
type entryView struct {
	Schema string `json:"schema"`
	cli.NameView
	Kind    string  `json:"kind"`
	Bytes   int64   `json:"bytes"`
	Mode    string  `json:"mode,omitempty"` // octal
	UID     *uint32 `json:"uid,omitempty"`
	GID     *uint32 `json:"gid,omitempty"`
	Mtime   string  `json:"mtime,omitempty"` // RFC 3339, UTC, nanoseconds
	Target  string  `json:"target,omitempty"`
	ETag    string  `json:"etag,omitempty"`
	Version string  `json:"version,omitempty"`
}

func viewEntry(e mover.Entry) entryView {
	v := entryView{Schema: schemaEntry, NameView: cli.ViewName(e.Name), Kind: e.Kind.String(), Bytes: e.Size,
		Target: cli.ViewName(e.Target).Name, ETag: e.ETag, Version: e.Version}
	if e.Known.Has(mover.FactMode) {
		v.Mode = fmt.Sprintf("%04o", e.Mode)
	}
	if e.Known.Has(mover.FactOwner) {
		v.UID = &e.UID
	}
	if e.Known.Has(mover.FactGroup) {
		v.GID = &e.GID
	}
	if t, ok := written(e); ok {
		v.Mtime = t.Format(time.RFC3339Nano)
	}
	return v
}

// written is when an entry was written. A store tells when an object came to be,
// which is not the mtime of a file but what people want to see.
func written(e mover.Entry) (time.Time, bool) {
	return e.Mtime.Std(), e.Known.Has(mover.FactMtime) || e.Mtime != (mover.Time{})
}

func lsCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var recursive, null bool
	cmd := &cobra.Command{
		Use:               "ls [flags] LOCATION",
		Short:             "List what is in a folder or below a prefix",
		ValidArgsFunction: a.CompleteLocations(),
		Long: `Ls lists one level, or with -r everything below. Entries come in byte order of
their names and are printed as they are found. A name that a terminal would not
show as it is, is printed in quotes; --null prints names as they are.`,
		Example: `  datamove ls s3://archive/
  datamove ls -r -o jsonl /data/run-7
  datamove ls -r --null /data | datamove copy --files-from - --null /data /scratch`,
		Args: cli.Exactly(1, "one location"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if null {
			f = cli.FormatName
		}
		return ls(ctx, a, args[0], f, recursive, null)
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list everything below")
	cmd.Flags().BoolVarP(&null, "null", "0", false, "print names only, each ended by a NUL byte")
	return cmd
}

func ls(ctx context.Context, a *cli.App, arg string, f cli.Format, recursive, null bool) error {
	l, err := a.Locate(arg)
	if err != nil {
		return err
	}
	out := cli.NewLines(a.Out)
	p := entryPrinter{out: out, format: f, null: null}
	var failed cli.PartialError
	for e, err := range engine.List(ctx, l, recursive, a.Open) {
		switch {
		case err == nil:
			p.entry(e)
		case e.Kind == 0: // the listing ended
			_ = out.Flush() // what was found before is shown; err is what counts
			return err
		default:
			failed.Failed++
			failed.Err = engine.Gravest(failed.Err, err)
			fmt.Fprintf(a.Err, "datamove: ls: %v\n", err)
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	if failed.Failed > 0 {
		return &failed
	}
	return ctx.Err()
}

// entryPrinter prints entries as they come. JSON and YAML are an array of all of them.
type entryPrinter struct {
	out    *cli.Lines
	format cli.Format
	null   bool
	count  int
	yaml   []entryView
}

func (p *entryPrinter) entry(e mover.Entry) {
	p.count++
	switch {
	case p.null:
		p.out.Raw(e.Name + "\x00")
	case p.format == cli.FormatName:
		p.out.Printf("%s", mover.Printable(e.Name))
	case p.format == cli.FormatJSONL:
		p.out.JSON(viewEntry(e))
	case p.format == cli.FormatJSON:
		p.out.Raw(map[bool]string{true: "[", false: ","}[p.count == 1])
		p.out.JSON(viewEntry(e))
	case p.format == cli.FormatYAML:
		p.yaml = append(p.yaml, viewEntry(e))
	default:
		p.out.Printf("%s", tableLine(e))
	}
}

// end finishes the list.
func (p *entryPrinter) end() error {
	switch {
	case p.format == cli.FormatJSON && p.count == 0:
		p.out.Raw("[]\n")
	case p.format == cli.FormatJSON:
		p.out.Raw("]\n")
	case p.format == cli.FormatYAML:
		if err := cli.WriteObject(p.out, cli.FormatYAML, append([]entryView{}, p.yaml...)); err != nil {
			return err
		}
	}
	return p.out.Flush()
}

func tableLine(e mover.Entry) string {
	mode, when, name := "-", "-", mover.Printable(e.Name)
	if e.Known.Has(mover.FactMode) {
		mode = fmt.Sprintf("%04o", e.Mode)
	}
	if t, ok := written(e); ok {
		when = t.Format("2006-01-02 15:04:05")
	}
	bytes := "-"
	switch e.Kind {
	case mover.File:
		bytes = units.Bytes(e.Size)
	case mover.Dir:
		name += "/"
	case mover.Symlink:
		name += " -> " + mover.Printable(e.Target)
	}
	return fmt.Sprintf("%-8s %-4s %10s  %-19s  %s", e.Kind, mode, bytes, when, name)
}
