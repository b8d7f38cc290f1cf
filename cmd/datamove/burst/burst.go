// Package burst has the commands of bursts into a cloud: estimate, up, stage, sync-back, down, list, cost and adopt.
//
// estimate works in this process; all else is asked of the service, which has the accounts. What this program began without a service is told of until the
// service has it (adopt.go). test/script/burst.txt is a session.
package burst

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
)

// listBursts is the command that lists what bursts there are.
const listBursts = "datamove burst list --all"

// Command is datamove burst.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "burst",
		Short: "Training that overflows into AWS: its data there, its checkpoints home",
		Long: `A burst is training that has no room here: its data goes to a bucket of AWS and, where it
says so, to an FSx for Lustre before it; what it saves comes home, verified; and then all of it
goes away again. It is declared in a file of kind Burst, which can be applied again.

A rule has to admit a burst, within what the account of its team still has (burst: in the
configuration). Money is reserved before the first byte, and charged as it is used; at the
cap nothing more begins.

Each step is a task of a service, done as you, and the command waits for it. The service keeps
the records of bursts and the money; a member of the project with the name of the team may use
its account. AWS is asked with the credentials of the tier that the burst names, or of the
project. Only estimate does without a service.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(estimateCommand(a), upCommand(a), stageCommand(a), syncBackCommand(a), downCommand(a), listCommand(a), costCommand(a), adoptCommand(a))
	return cmd
}

// bursts is what the commands of bursts have in common.
type bursts struct {
	*cli.App
	jobs  int
	limit int64 // bytes per second
	order task.ServiceFlags
}

// moving adds the flags of what moves bytes.
func (u *bursts) moving(flags *pflag.FlagSet) {
	cli.ParsedVar(flags, &u.jobs, "jobs", cli.ParseJobs, "keep `N` calls in flight; default 0 finds a good number")
	u.ordering(flags)
	cli.ParsedVar(flags, &u.limit, "bwlimit", units.ParseRate, "move at most `RATE`, like 100MiB/s, 1GB or 10Gbit, without a unit bytes per second; 0 is no limit")
}

// ordering adds the flags of what a service does as a task.
func (u *bursts) ordering(flags *pflag.FlagSet) {
	flags.BoolVar(&u.order.Detach, "detach", false, "give the task to the service, print its id, and return")
	flags.Var(&cli.Chosen[pb.TaskClass]{Dst: &u.order.Class, Choices: task.ClassChoices}, "class", "how urgent it is to the service, most urgent `CLASS` first: restore, checkpoint, stage, replicate, tier, scrub")
	flags.StringVar(&u.order.Node, "node", "", "have the service do it on this `NODE`, with its node-local tiers")
	task.LabelVar(flags, &u.order.Labels, "label", "label the task of the service `KEY=VALUE`; may be repeated")
}

// asking asks the service. What this program began without one is told of first: it costs money until the service has it.
func (u *bursts) asking(ctx context.Context, body func(*api.Client) error) error {
	u.noteUnadopted()
	return u.AskService(ctx, listBursts, body)
}

// apply has a service do a step of a burst, and waits for it. What the step has told is told here, and then tell is called.
func (u *bursts) apply(ctx context.Context, c *api.Client, command string, f cli.Format, req *pb.ApplyBurstRequest, tell func(*pb.Task) error) error {
	req.Jobs, req.BytesPerSecond, req.Class, req.Node, req.Labels = int32(u.jobs), u.limit, u.order.Class, u.order.Node, u.order.Labelled(u.App)
	t := &task.Request{App: u.App, Command: command, Format: f, Service: u.order}
	t.Tell = func(_ context.Context, r engine.Report, err error) error {
		for _, note := range r.Notes {
			u.Note("%s", note)
		}
		if err != nil || tell == nil {
			return nil
		}
		return tell(t.Last)
	}
	return t.Begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
		req.IdempotencyKey = key
		return api.Once(ctx, c, c.ApplyBurst, req)
	})
}

// applied is apply for a step that tells nothing but what it does.
func (u *bursts) applied(ctx context.Context, command string, req *pb.ApplyBurstRequest) error {
	return u.asking(ctx, func(c *api.Client) error { return u.apply(ctx, c, command, cli.FormatTable, req, nil) })
}

// read reads the one burst in a file; - is standard input.
func (u *bursts) read(name string) (*burst.Burst, error) {
	text, err := u.text(name)
	if err != nil {
		return nil, err
	}
	all, err := burst.Read(name, text)
	if err == nil && len(all) != 1 {
		err = mover.Misusef("%s has %d bursts; want one in the file", mover.Printable(name), len(all))
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (u *bursts) text(name string) ([]byte, error) {
	in := u.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, &mover.Error{Op: "read", Location: name, Err: errors.Unwrap(err)}
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, yamldoc.TextMost+1))
}

// recordOf is the record of a burst that a service tells of.
func recordOf(known *pb.Burst) (*burst.Record, error) {
	r := &burst.Record{}
	if err := json.Unmarshal([]byte(known.GetRecord()), r); err != nil {
		return nil, fmt.Errorf("the service tells of burst %s what is no record: %w: %w", mover.Printable(known.GetName()), mover.ErrCorrupt, err)
	}
	return r, nil
}

// findings is what a step has found, as its worker tells it.
type findings struct {
	Estimate *burst.Estimate `json:"estimate"`
	Admitted burst.Admitted  `json:"admitted"`
	Verdicts []burst.Verdict `json:"verdicts"`
	Costs    []burst.Cost    `json:"costs"`
}

func foundBy(t *pb.Task) (f findings, err error) {
	if err = json.Unmarshal([]byte(t.GetReport().GetFound()), &f); err != nil {
		err = fmt.Errorf("task %s tells what is no finding: %w: %w", t.GetId(), mover.ErrCorrupt, err)
	}
	return f, err
}
