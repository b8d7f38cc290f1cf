package cli

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/pflag"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Labels of a task that was begun in a Slurm job.
const (
	slurmLabel   = "slurm_job"
	clusterLabel = "slurm_cluster" // where several clusters have one coordinator (slurm.cluster)
)

// orderFlags say what only a service can make of a task.
type orderFlags struct {
	project string
	class   pb.TaskClass
	node    string
	labels  map[string]string
	detach  bool
}

var classChoices = []choice[pb.TaskClass]{
	{"restore", pb.TaskClass_TASK_CLASS_RESTORE}, {"checkpoint", pb.TaskClass_TASK_CLASS_CHECKPOINT}, {"stage", pb.TaskClass_TASK_CLASS_STAGE},
	{"replicate", pb.TaskClass_TASK_CLASS_REPLICATE}, {"tier", pb.TaskClass_TASK_CLASS_TIER}, {"scrub", pb.TaskClass_TASK_CLASS_SCRUB},
}

func (o *orderFlags) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.detach, "detach", false, "give the task to the service, print its id, and return")
	o.projectVar(flags)
	flags.Var(&chosen[pb.TaskClass]{dst: &o.class, choices: classChoices}, "class", "how urgent it is to the service, most urgent `CLASS` first: restore, checkpoint, stage, replicate, tier, scrub")
	flags.StringVar(&o.node, "node", "", "have the service do it on this `NODE`, whose node-local tiers are meant")
	labelVar(flags, &o.labels, "label", "label the task of the service `KEY=VALUE`; may be repeated; in a Slurm job slurm_job=ID is one")
}

func (o *orderFlags) projectVar(flags *pflag.FlagSet) {
	flags.StringVar(&o.project, "project", "", "`PROJECT` of the service that pays (default your first)")
}

// labelVar adds a flag of labels that may be repeated.
func labelVar(flags *pflag.FlagSet, dst *map[string]string, name, help string) {
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
func (o *orderFlags) forService() error {
	for _, f := range []struct {
		name  string
		given bool
	}{{"detach", o.detach}, {"project", o.project != ""}, {"class", o.class != 0}, {"node", o.node != ""}, {"label", o.labels != nil}} {
		if f.given {
			return advise(mover.Misusef("--%s: no service configured", f.name), fmt.Sprintf("the command without --%s, or with --service, or a line service: in the configuration", f.name))
		}
	}
	return nil
}

// fill puts the flags into what is asked for.
func (o *orderFlags) fill(a *app, spec *pb.TaskSpec) {
	spec.Project, spec.Class, spec.Node = o.project, o.class, o.node
	spec.Labels = o.labelled(a)
}

// labelled are the labels that were given, and that of the Slurm job that we are in.
func (o *orderFlags) labelled(a *app) map[string]string {
	job := a.env("SLURM_JOB_ID")
	if job == "" || o.labels[slurmLabel] != "" {
		return maps.Clone(o.labels)
	}
	return a.ofSlurmJob(maps.Clone(o.labels), job)
}

// ofSlurmJob adds the labels of a Slurm job.
func (a *app) ofSlurmJob(labels map[string]string, job string) map[string]string {
	if c, err := a.config(); err == nil && c.Slurm.Cluster != "" {
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
