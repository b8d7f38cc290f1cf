package task

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/pflag"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
)

// Labels of a task that was begun in a Slurm job.
const (
	slurmLabel   = "slurm_job"
	clusterLabel = "slurm_cluster" // where several clusters have one coordinator (slurm.cluster)
)

// ServiceFlags say what only a service can make of a task.
type ServiceFlags struct {
	Project string
	Class   pb.TaskClass
	Node    string
	Labels  map[string]string
	Detach  bool
}

// ClassChoices are the classes of a task, the most urgent first.
var ClassChoices = []cli.Choice[pb.TaskClass]{
	{Word: "restore", Value: pb.TaskClass_TASK_CLASS_RESTORE}, {Word: "checkpoint", Value: pb.TaskClass_TASK_CLASS_CHECKPOINT}, {Word: "stage", Value: pb.TaskClass_TASK_CLASS_STAGE},
	{Word: "replicate", Value: pb.TaskClass_TASK_CLASS_REPLICATE}, {Word: "tier", Value: pb.TaskClass_TASK_CLASS_TIER}, {Word: "scrub", Value: pb.TaskClass_TASK_CLASS_SCRUB},
}

// Flags adds the flags of a command that begins a task.
func (o *ServiceFlags) Flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Detach, "detach", false, "give the task to the service, print its id, and return")
	o.ProjectVar(flags)
	flags.Var(&cli.Chosen[pb.TaskClass]{Dst: &o.Class, Choices: ClassChoices}, "class", "how urgent it is to the service, most urgent `CLASS` first: restore, checkpoint, stage, replicate, tier, scrub")
	flags.StringVar(&o.Node, "node", "", "have the service do it on this `NODE`, with its node-local tiers")
	LabelVar(flags, &o.Labels, "label", "label the task of the service `KEY=VALUE`; may be repeated; in a Slurm job slurm_job=ID is one")
}

// ProjectVar adds --project alone.
func (o *ServiceFlags) ProjectVar(flags *pflag.FlagSet) {
	flags.StringVar(&o.Project, "project", "", "`PROJECT` of the service that pays (default your first)")
}

// LabelVar adds a flag of labels that may be repeated.
func LabelVar(flags *pflag.FlagSet, dst *map[string]string, name, help string) {
	flags.Func(name, help, func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return errors.New("want KEY=VALUE")
		}
		if *dst == nil {
			*dst = map[string]string{}
		}
		(*dst)[key] = value
		return nil
	})
}

// forService refuses the flags that only a service can follow.
func (o *ServiceFlags) forService() error {
	for _, f := range []struct {
		name  string
		given bool
	}{{"detach", o.Detach}, {"project", o.Project != ""}, {"class", o.Class != 0}, {"node", o.Node != ""}, {"label", o.Labels != nil}} {
		if f.given {
			return cli.Advise(mover.Misusef("--%s: no service configured", f.name), fmt.Sprintf("the command without --%s, or with --service, or a line service: in the configuration", f.name))
		}
	}
	return nil
}

// fill puts the flags into what is asked for.
func (o *ServiceFlags) fill(a *cli.App, spec *pb.TaskSpec) {
	spec.Project, spec.Class, spec.Node = o.Project, o.Class, o.Node
	spec.Labels = o.Labelled(a)
}

// Labelled are the labels that were given, and that of the Slurm job that we are in.
func (o *ServiceFlags) Labelled(a *cli.App) map[string]string {
	job := a.Env("SLURM_JOB_ID")
	if job == "" || o.Labels[slurmLabel] != "" {
		return maps.Clone(o.Labels)
	}
	return WithSlurmJob(a, maps.Clone(o.Labels), job)
}

// WithSlurmJob adds the labels of a Slurm job.
func WithSlurmJob(a *cli.App, labels map[string]string, job string) map[string]string {
	if c, err := a.Config(); err == nil && c.Slurm.Cluster != "" {
		labels = withLabel(labels, clusterLabel, c.Slurm.Cluster)
	}
	return withLabel(labels, slurmLabel, job)
}

func withLabel(labels map[string]string, name, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[name] = value
	return labels
}
