package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
)

const schemaStage = "datamove.stage/v1"

// stage brings a replica to a tier, and tells where it is.
type stage struct {
	task.Request
	to     string
	ttl    time.Duration
	pin    time.Time
	holder string
	wait   bool

	client  *api.Client
	replica *pb.Replica // when it is there
	lease   *pb.Lease
}

func stageCommand(a *cli.App) *cobra.Command {
	s := &stage{Request: task.Request{App: a, Command: "stage"}}
	here := &inPlace{App: a, format: &s.Format}
	cmd := &cobra.Command{
		Use:   "stage [flags] SRC",
		Short: "Bring a dataset to a faster tier, and hold it there",
		Long: `Stage brings a replica of SRC, a dataset or any location, to a tier, waits until it
is whole, and prints where it is. If it is there already that is all there is to do.

With --ttl a lease holds it for that time, with --pin a date: until then it is neither
released nor evicted. A lease is dropped early with datamove lease drop. In a Slurm
job the holder is slurm:ID.

^C ends that, and what was copied of a dataset goes; when others wait for it, too, it
goes on for them. With --detach it goes on without you.

With --in-place it goes nowhere: files below SRC with contents in the archive of
their file system alone come back, as after an import of a bucket's names into FSx for
Lustre. In the order of names, no more than --most at a time, each waited for until it is
there. This needs no service, and the same command again goes on where it stopped; on a
Lustre it is for root, until the MDS lets owners restore.`,
		Example: `  datamove stage dataset:imagenet --to scratch --node n17 --ttl 24h
  datamove stage --detach --to project --pin 2027-01-31 dataset:run-7
  datamove stage --in-place /fsx/imagenet`,
		Args:              cli.Exactly(1, "SRC, as dataset:NAME"),
		ValidArgsFunction: a.CompleteDatasets("dataset:"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if is, err := here.asked(cmd.Flags()); is || err != nil {
			if err != nil {
				return err
			}
			return here.run(ctx, args[0])
		}
		switch {
		case s.wait && s.Service.Detach:
			return mover.Misusef("--wait and --detach exclude each other")
		case s.holder != "" && s.ttl == 0:
			return mover.Misusef("--holder is of the lease that --ttl takes, which is not given")
		}
		return a.AskService(ctx, cli.DatasetList, func(c *api.Client) error {
			s.client = c
			return s.run(ctx, args[0])
		})
	})
	s.flags(cmd)
	here.flags(cmd.Flags())
	return cmd
}

func (s *stage) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	cli.FormatVar(flags, &s.Format, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	flags.StringVar(&s.to, "to", "", "the `TIER` to bring it to (default the hottest that the node has)")
	flags.StringVar(&s.Service.Node, "node", "", "the `NODE` of a node-local tier (default this one)")
	cli.ParsedVar(flags, &s.ttl, "ttl", units.ParseSpan, "hold it by a lease for this `TIME`, like 24h or 7d")
	cli.ParsedVar(flags, &s.pin, "pin", cli.ParseUntil, "keep it at least until this `DATE`, or for that long")
	flags.StringVar(&s.holder, "holder", "", "`HOLDER` of the lease, like slurm:1234 (default you)")
	flags.BoolVar(&s.wait, "wait", false, "wait until it is there, which is the default")
	flags.BoolVar(&s.Service.Detach, "detach", false, "print the id of the task, and return")
	s.Service.ProjectVar(flags)
	task.LabelVar(flags, &s.Service.Labels, "label", "give the task and the lease a label, `KEY=VALUE`; may be repeated")
	flags.Var(&cli.Chosen[pb.TaskClass]{Dst: &s.Service.Class, Choices: task.ClassChoices}, "class", "how urgent it is, most urgent `CLASS` first: restore, checkpoint, stage, replicate, tier, scrub")
}

// run asks for the replica.
func (s *stage) run(ctx context.Context, arg string) error {
	l, err := cli.ParseLocation(arg)
	if err != nil {
		return err
	}
	s.Source, s.Target, s.Tell = arg, s.to, s.tellReplica
	req := &pb.StageRequest{Source: l.String(), Tier: s.to, Node: s.Service.Node, Project: s.Service.Project, Class: s.Service.Class, Labels: s.Service.Labelled(s.App)}
	if s.ttl > 0 {
		s.holder = cmp.Or(s.holder, holder(s.App))
		req.LeaseTtl, req.Holder = durationpb.New(s.ttl), s.holder
	}
	if !s.pin.IsZero() {
		req.PinUntil = timestamppb.New(s.pin)
	}
	err = s.Begin(ctx, s.client, func(ctx context.Context, key string) (*pb.Task, error) {
		req.IdempotencyKey = key
		answer, err := api.Once(ctx, s.client, s.client.Stage, req)
		if err == nil && answer.GetTask() == nil {
			s.replica, s.lease, err = answer.GetReplica(), answer.GetLease(), errThere
		}
		return answer.GetTask(), err
	})
	if errors.Is(err, errThere) {
		return s.tellReplica(ctx, engine.Report{}, nil)
	}
	return orDataset(ctx, s.client, arg, err)
}

// errThere is the answer that needs no task.
var errThere = errors.New("a whole replica is there")

// holder is the holder of a lease that names none.
func holder(a *cli.App) string {
	if job := a.Env("SLURM_JOB_ID"); job != "" {
		if c, err := a.Config(); err == nil && c.Slurm.Cluster != "" {
			job = c.Slurm.Cluster + "/" + job
		}
		return "slurm:" + job
	}
	return cmp.Or(a.Env("USER"), "uid:"+strconv.Itoa(os.Getuid()))
}

// stageView is a staged replica as JSON.
type stageView struct {
	Schema  string           `json:"schema"`
	Replica any              `json:"replica,omitempty"`
	Lease   any              `json:"lease,omitempty"`
	Report  *task.ReportView `json:"report,omitempty"` // of the task that brought it; absent when it was there
}

// tellReplica tells where the replica is, and its holder.
func (s *stage) tellReplica(ctx context.Context, r engine.Report, err error) error {
	if err == nil && s.ID != "" {
		if ferr := s.find(ctx); ferr != nil {
			return ferr
		}
	}
	switch s.Format {
	case cli.FormatTable:
		return s.table(s.App.Out, r)
	case cli.FormatName:
		if s.replica == nil {
			return nil
		}
		_, werr := fmt.Fprintln(s.App.Out, cli.Shown(s.replica.GetLocation()))
		return werr
	}
	v := stageView{Schema: schemaStage}
	if s.ID != "" {
		report := s.ViewReport(r, err)
		v.Report = &report
	}
	if s.replica != nil {
		v.Replica = viewReplica(s.replica)
	}
	if s.lease != nil {
		v.Lease = viewLease(s.lease)
	}
	return cli.WriteOne(s.App.Out, s.Format, v)
}

// find asks for the replica and the lease that the task has made.
func (s *stage) find(ctx context.Context) error {
	spec := s.Last.GetSpec()
	req := &pb.ListReplicasRequest{Tier: cmp.Or(s.to, spec.GetStaging().GetTier())}
	if l, err := location.Parse("dataset:" + s.Last.GetDataset()); err == nil {
		req.Dataset, req.Digest = l.Name, l.Digest
	}
	err := cli.ForEach(s.client.Replicas(ctx, req), func(r *pb.Replica) error {
		here := r.GetNode() == "" || r.GetNode() == cmp.Or(s.Service.Node, spec.GetNode()) // of a shared tier the node is that of the source
		if here && r.GetState() == pb.ReplicaState_REPLICA_STATE_WHOLE && (req.Dataset != "" || r.GetLocation() == spec.GetTarget()) {
			s.replica = r
		}
		return nil
	})
	if err != nil || s.ttl == 0 || s.replica == nil {
		return err
	}
	leases := s.client.Leases(ctx, &pb.ListLeasesRequest{Dataset: req.GetDataset(), Tier: s.replica.GetTier(), Node: s.replica.GetNode(), Holder: s.holder})
	return cli.ForEach(leases, func(l *pb.Lease) error {
		mine := l.GetDigest() == s.replica.GetDigest() && l.GetLocation() == s.replica.GetLocation()
		if mine && (s.lease == nil || l.GetCreateTime().AsTime().After(s.lease.GetCreateTime().AsTime())) {
			s.lease = l
		}
		return nil
	})
}

func (s *stage) table(w io.Writer, r engine.Report) error {
	if s.App.Quiet {
		return nil
	}
	if r.Elapsed > 0 {
		task.PrintSummary(w, s.Command, r)
	}
	if s.replica == nil {
		return nil
	}
	what := s.Source
	if s.replica.GetDataset() != "" {
		what = s.replica.GetDataset() + "@" + short(s.replica.GetDigest())
	}
	fmt.Fprintf(w, "%s is on %s%s: %s\n", cli.Shown(mover.Printable(what)), cli.Shown(cli.OrDash(s.replica.GetTier())), onNode(s.replica.GetNode()), cli.Shown(mover.Printable(s.replica.GetLocation())))
	if s.lease != nil {
		_, err := fmt.Fprintf(w, "  held by %s until %s: datamove lease drop %s\n", cli.Shown(s.lease.GetHolder()), cli.Moment(s.lease.GetExpireTime()), cli.Shown(s.lease.GetId()))
		return err
	}
	return nil
}

func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " of " + cli.Shown(node)
}
