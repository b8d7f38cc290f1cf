package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/slurm/hostlist"
)

// Job is a Slurm job on a node, as the environment of a prolog or an epilog has it.
type Job struct {
	ID       uint32
	UID, GID uint32
	User     string // for people; "" is not known
	Node     string // as Slurm calls it; "" is not known
	Comment  string // that it was submitted with
	Cluster  string // that has it, of several that have one coordinator; "" is the only one
}

// JobOf reads the environment of a hook (slurm.conf, "PROLOG AND EPILOG SCRIPTS"). Only the number and the user are needed: without
// them there is nothing to do for anybody.
func JobOf(env func(string) string) (Job, error) {
	id, err := number(env, "SLURM_JOB_ID", "SLURM_JOBID")
	if err != nil {
		return Job{}, err
	}
	uid, err := number(env, "SLURM_JOB_UID", "SLURM_UID")
	if err != nil {
		return Job{}, err
	}
	j := Job{ID: id, UID: uid, GID: uid, User: env("SLURM_JOB_USER"), Node: env("SLURMD_NODENAME"), Comment: env("SLURM_JOB_COMMENT")}
	if gid, err := number(env, "SLURM_JOB_GID"); err == nil {
		j.GID = gid
	}
	switch {
	case id == 0:
		return Job{}, fmt.Errorf("%w: there is no job 0", mover.ErrUsage)
	case uid == 0:
		return Job{}, fmt.Errorf("%w: a job of root has no directory of its own", mover.ErrRefused)
	}
	return j, nil
}

// TaskOf reads the environment of a hook that runs as the user of a job. The kernel alone tells the user: uid is that of the process.
func TaskOf(env func(string) string, uid uint32) (Job, error) {
	id, err := number(env, "SLURM_JOB_ID", "SLURM_JOBID")
	if err != nil {
		return Job{}, err
	}
	return Job{ID: component(env, id), UID: uid, GID: uid, Node: env("SLURMD_NODENAME")}, nil
}

// component is the job of a heterogeneous one that has this node: a step has the number of the first one on all nodes, and Prolog that of each.
func component(env func(string) string, leader uint32) uint32 {
	size, _ := number(env, "SLURM_HET_SIZE") // not set is none
	for i := range min(size, componentsMost) {
		group := fmt.Sprintf("_HET_GROUP_%d", i)
		nodes, err := hostlist.Nodes(env("SLURM_JOB_NODELIST" + group))
		id, wrong := number(env, "SLURM_JOB_ID"+group)
		if err == nil && wrong == nil && slices.Contains(nodes, env("SLURMD_NODENAME")) {
			return id
		}
	}
	return leader
}

// componentsMost bounds what is looked through.
const componentsMost = 1024

// number reads the first of some variables that is set.
func number(env func(string) string, names ...string) (uint32, error) {
	for _, name := range names {
		text := env(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 1<<32-1 || strings.HasPrefix(text, "+") {
			return 0, fmt.Errorf("%w: %s is %s, and no number of Slurm's", mover.ErrUsage, name, mover.Printable(text))
		}
		return uint32(n), nil
	}
	return 0, fmt.Errorf("%w: %s is not set: hooks are run by Slurm", mover.ErrUsage, names[0])
}

// Dir is the name of the job's directory. It ends with the UID of its user: no user can make a directory that is to belong to another one.
func (j Job) Dir() string { return fmt.Sprintf("%d.%d", j.ID, j.UID) }

// parseDir is the inverse of Dir.
func parseDir(name string) (id, uid uint32, ok bool) {
	first, second, _ := strings.Cut(name, ".")
	a, err1 := strconv.ParseUint(first, 10, 32)
	b, err2 := strconv.ParseUint(second, 10, 32)
	j := Job{ID: uint32(a), UID: uint32(b)}
	return j.ID, j.UID, err1 == nil && err2 == nil && j.Dir() == name
}

// Holder is the name of the holder of something for the job, by the name that it has in the job's directory.
func (j Job) Holder(name string) string { return j.holders() + name }

// holders begins the names of all holders of the job.
func (j Job) holders() string {
	return holdersOf(j.Cluster) + strconv.FormatUint(uint64(j.ID), 10) + ":"
}

// holdersOf begins the names of all holders of the jobs of a cluster.
func holdersOf(cluster string) string {
	if cluster == "" {
		return holderPrefix
	}
	return holderPrefix + cluster + "/"
}

// Labels are those of all that is asked for the job.
func (j Job) Labels() map[string]string {
	labels := map[string]string{Label: strconv.FormatUint(uint64(j.ID), 10)}
	if j.Cluster != "" {
		labels[ClusterLabel] = j.Cluster
	}
	return labels
}

// Others says whether labels are those of another cluster's job, which may have the same number. Where neither cluster has a name here, they are its all the same.
func (j Job) Others(labels map[string]string) bool { return labels[ClusterLabel] != j.Cluster }

// LeaseTTL is that of what is held for a job. While the job is on the node it is renewed there, also of what is held where all nodes see it.
const LeaseTTL = 7 * 24 * time.Hour

// holderPrefix begins the names of all holders of jobs.
const holderPrefix = "slurm:"

// JobOfHolder finds the job of a cluster that a holder is of. Those without a name behind the job are of people, with an end of their own.
func JobOfHolder(cluster, holder string) (id uint32, ok bool) {
	rest, ours := strings.CutPrefix(holder, holdersOf(cluster))
	text, _, named := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), ours && named && err == nil
}
