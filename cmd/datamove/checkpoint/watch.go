package checkpoint

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

const schemaCheckpointEvent = "datamove.checkpoint-event/v1"

func watchCommand(a *cli.App) *cobra.Command {
	c := &checkpoints{App: a}
	var f cli.Format
	var to []string
	var keep keepFlags
	var settle time.Duration
	w := &replicate.Watch{Site: &c.Site}
	ends := &endings{App: a}
	cmd := &cobra.Command{
		Use:   "watch [flags] DIR --to LOCATION...",
		Short: "Bring checkpoints away while a job saves them",
		Long: `Watch looks at DIR, and brings each checkpoint that is complete and has been still for
--settle to every target, the newest first: to the first from DIR, and to each further one
from the nearest target that has it by then. A target that is slow, or away, holds none of the
others. At a target a checkpoint is there whole and verified, or not at all; "latest" and its
like name it when it is. Files that are the same as those of the checkpoint before are not
sent again.

A job that saves over a checkpoint, or removes it to make room, is not disturbed and not held.
With --keep-last, the targets keep what "datamove checkpoint prune" would, and older ones are
removed from there at once, never from DIR: none is kept aside, since a target would fill up,
and --undo does not bring them back. What stays for them to go is read again once a day (--trust): to read
all of it at each save would be several times what is saved.

It ends when it is told to, and goes on where it stopped when it is started again; with
--once it ends when all that is in DIR has left. With --grace it first brings the newest
checkpoint home: give it less time than the job has to end (Kubernetes:
terminationGracePeriodSeconds; Slurm: --signal=TERM@120). A second signal ends it at once.

On EC2 it asks every 5 seconds whether the machine is about to be taken away: a spot
interruption, a rebalance recommendation, an end by Auto Scaling, scheduled maintenance.
Then the newest checkpoint goes first, with no --bwlimit, and without --settle where its
framework writes its mark last; all others wait for it, and what is not complete stays. It
says how long there is, and in the end what is not home: then it ends with 10. In a
container the metadata service answers when its hop limit is 2 or more.`,
		Example: `  datamove checkpoint watch /local_nvme/run1 --to peer:run1 --to project:run1 --to s3://archive/run1 --keep-last 3
  datamove checkpoint watch --once /local_nvme/run1 --to project:run1`,
		Args: cli.Exactly(1, "one directory"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) (err error) {
		if len(to) == 0 {
			return mover.Misusef("--to is missing: where are they to go?")
		}
		if err := c.ready(); err != nil {
			return err
		}
		if w.Dir, err = a.Locate(args[0]); err != nil {
			return err
		}
		seen := map[string]bool{w.Dir.String(): true}
		for _, arg := range to {
			l, err := a.Locate(arg)
			if err != nil {
				return err
			}
			if seen[l.String()] {
				return mover.Misusef("%s stands twice", mover.Printable(l.String()))
			}
			seen[l.String()] = true
			w.To = append(w.To, l)
		}
		out := cli.NewLines(a.Out)
		w.Settle = settleOf(settle)
		w.Profile, w.Keep, w.Tell = c.profile, keep.Keep, func(e replicate.Event) { tellEvent(a, out, f, e) }
		ends.out, ends.format = out, f
		err = ends.watch(ctx, w)
		if werr := out.Flush(); err == nil {
			err = werr
		}
		return err
	})
	flags := cmd.Flags()
	c.profiled(flags)
	c.moving(flags)
	flags.StringArrayVar(&to, "to", nil, "bring them to `LOCATION`; may be repeated, the nearest first")
	flags.DurationVar(&settle, "settle", checkpoint.Quiet, "nothing in a checkpoint may change for `TIME` before it leaves; 0 is until the next look")
	flags.BoolVar(&w.Once, "once", false, "end when all that is there has left")
	keep.flags(flags)
	trustVar(flags, &c.Trust, replicate.Trust)
	ends.flags(flags)
	flags.StringVar(&w.Metrics, "metrics", "", "write `FILE` for Prometheus, as node_exporter reads it from its textfile directory")
	cli.FormatVar(flags, &f, cli.FormatTable, cli.FormatJSONL)
	return cmd
}

// settleOf is what a Watch takes for the time of --settle: to it, 0 is the usual one.
func settleOf(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// eventView is a checkpoint on its way as JSON.
type eventView struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	cli.NameView
	To      string           `json:"to,omitempty"` // absent: in the directory itself
	State   checkpoint.State `json:"state"`
	Why     string           `json:"why,omitempty"`
	Bytes   int64            `json:"bytes,omitempty"`
	Sent    int64            `json:"sent_bytes,omitempty"`
	Linked  int64            `json:"linked_bytes,omitempty"`
	Seconds float64          `json:"seconds,omitempty"`
}

// tellEvent prints a step of a checkpoint: all of them as JSON, and for people what they wait for.
func tellEvent(a *cli.App, out *cli.Lines, f cli.Format, e replicate.Event) {
	if f == cli.FormatJSONL {
		out.JSON(eventView{schemaCheckpointEvent, e.Time.UTC(), cli.ViewName(e.Name), e.To, e.State, e.Why, e.Bytes, e.Sent, e.Linked, e.Took.Seconds()})
		_ = out.Flush() // it stays and is found at the end
		return
	}
	text := ""
	switch {
	case a.Quiet && e.Why == "":
		return
	case e.State == checkpoint.Verified && e.To != "":
		text = ": " + carried(e.Result)
	case e.State == checkpoint.Retained, e.State == checkpoint.Copied, e.State == checkpoint.Settling:
		return
	case e.Why != "":
		text = ": " + e.Why
	}
	where := ""
	if e.To != "" {
		where = " " + mover.Printable(e.To)
	}
	out.Printf("%s %s %s%s%s", e.Time.Format(time.TimeOnly), mover.Printable(e.Name), e.State, where, cli.Shown(text))
	_ = out.Flush()
}
