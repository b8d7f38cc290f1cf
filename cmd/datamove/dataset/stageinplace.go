package dataset

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/rate"
	"datamove.dev/mover/engine/recall"
	"datamove.dev/mover/units"
)

const schemaRecall = "datamove.recall/v1"

// inPlace is a staging that goes nowhere: contents come back from the archive of their own file system.
type inPlace struct {
	*cli.App
	is      bool
	format  *cli.Format
	options recall.Options
}

// Flags that only a staging to a tier has.
var ofTier = []string{"to", "node", "ttl", "pin", "holder", "wait", "detach", "project", "label", "class"}

func (p *inPlace) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&p.is, "in-place", false, "bring the contents of files back from the archive of their file system (HSM), where they are, in this process")
	flags.IntVar(&p.options.Most, "most", 0, "with --in-place, have no more than `N` files asked for and not back (default 1024)")
	cli.ParsedVar(flags, &p.options.Bytes, "max-bytes", units.ParseBytes, "with --in-place, ask for no more than `SIZE`")
	flags.StringVar(&p.options.After, "after", "", "with --in-place, begin behind the file `NAME`, as the run before has said")
}

// asked reports whether it is one, and finds flags that do not go together.
func (p *inPlace) asked(flags *pflag.FlagSet) (bool, error) {
	if !p.is {
		for _, name := range []string{"most", "max-bytes", "after"} {
			if flags.Changed(name) {
				return false, mover.Misusef("--%s is of a staging --in-place", name)
			}
		}
		return false, nil
	}
	for _, name := range ofTier {
		if flags.Changed(name) {
			return false, mover.Misusef("--in-place goes nowhere, and --%s is of a staging to a tier", name)
		}
	}
	if p.options.Most < 0 {
		return false, mover.Misusef("--most is %d: want a number of files", p.options.Most)
	}
	return true, nil
}

// run brings back what is below a location.
func (p *inPlace) run(ctx context.Context, arg string) error {
	l, err := p.Locate(arg)
	if err != nil {
		return err
	}
	if !l.IsPath() {
		return mover.Misusef("%s is no directory of a file system: --in-place is for one with an archive", mover.Printable(arg))
	}
	log, err := p.Logger(p.Err)
	if err != nil {
		return err
	}
	l.TrailingSlash = true
	place, err := p.Open(ctx, l, engine.OpenOptions{Logger: log})
	if err != nil {
		return err
	}
	defer place.Close()
	source, is := place.(recall.Source)
	if !is {
		return fmt.Errorf("%s: %w: nothing of it can be in an archive", mover.Printable(arg), mover.ErrUnsupported)
	}
	return p.bring(ctx, arg, source)
}

// bring brings contents back, and tells how far that is and what it has come to.
func (p *inPlace) bring(ctx context.Context, arg string, source recall.Source) error {
	bar := p.shows()
	p.options.Progress = bar.set
	report, err := recall.Run(ctx, source, p.options)
	bar.stop()
	if terr := p.tell(p.Out, arg, report, err); terr != nil {
		return terr
	}
	switch {
	case ctx.Err() != nil:
		return cli.ErrInterrupted
	case report.Failed > 0 && report.Back > 0:
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(p.Err, "failed: %s\n", cli.Shown(strings.TrimSpace(line)))
		}
		return &cli.PartialError{Failed: report.Failed, Err: err}
	}
	return err
}

// recallView is what a staging in place has come to as JSON.
type recallView struct {
	Schema     string `json:"schema"`
	Location   string `json:"location"`
	Exit       int    `json:"exit"`
	Error      string `json:"error,omitempty"`
	Files      int64  `json:"files"`
	Bytes      int64  `json:"bytes"`
	Asked      int64  `json:"released_files"`
	AskedBytes int64  `json:"released_bytes"`
	Back       int64  `json:"restored_files"`
	BackBytes  int64  `json:"restored_bytes"`
	Gone       int64  `json:"gone_files,omitempty"`
	Failed     int64  `json:"failed_files,omitempty"`
	More       bool   `json:"more,omitempty"`
	Next       string `json:"next,omitempty"` // for --after
}

func (p *inPlace) tell(w io.Writer, arg string, r recall.Report, err error) error {
	if *p.format != cli.FormatTable {
		v := recallView{Schema: schemaRecall, Location: arg, Exit: cli.ExitCode(err), Files: r.Files, Bytes: r.Bytes, Asked: r.Asked, AskedBytes: r.AskedBytes,
			Back: r.Back, BackBytes: r.BackBytes, Gone: r.Gone, Failed: r.Failed, More: r.More, Next: mover.Printable(r.Next)}
		if err != nil {
			v.Error = err.Error()
		}
		return cli.WriteOne(w, *p.format, v)
	}
	if p.Quiet {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s", mover.Printable(arg), units.Plural(r.Files, "file", "files"), units.Bytes(r.Bytes))
	switch {
	case r.Asked == 0 && !r.More:
		b.WriteString(", nothing of it in an archive only")
	default:
		fmt.Fprintf(&b, ", %s of %s brought back (%s of %s)", units.Count(r.Back), units.Count(r.Asked), units.Bytes(r.BackBytes), units.Bytes(r.AskedBytes))
	}
	if r.Gone > 0 {
		fmt.Fprintf(&b, ", %s gone meanwhile", units.Count(r.Gone))
	}
	if r.More {
		fmt.Fprintf(&b, "; the rest with --after %s", cli.ShellWord(mover.Printable(r.Next)))
	}
	_, werr := fmt.Fprintln(w, cli.Shown(b.String()))
	return werr
}

// bringing shows how far a run is.
type bringing struct {
	mu   sync.Mutex
	now  recall.Report // guarded by mu
	stop func()
}

func (b *bringing) set(r recall.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = r
}

// shows shows what is brought back, until stop is called.
func (p *inPlace) shows() *bringing {
	b := &bringing{stop: func() {}}
	if p.Quiet || *p.format != cli.FormatTable {
		return b
	}
	o := progress.Options{}
	if f, ok := p.Terminal(p.Err); ok {
		o.Terminal, o.Width = true, cli.TerminalWidth(f)
	}
	b.stop = progress.Start(p.Err, o, func() progress.Sample {
		b.mu.Lock()
		defer b.mu.Unlock()
		return progress.Sample{Work: rate.Work{Files: b.now.Back, Bytes: b.now.BackBytes, PlannedFiles: b.now.Asked, PlannedBytes: b.now.AskedBytes}}
	}).Stop
	return b
}
