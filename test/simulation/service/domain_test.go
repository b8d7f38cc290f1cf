package service

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
)

// domain is a part of what the service does: the steps that use it, and what holds of it.
type domain interface {
	configure(*config.Config)      // before the service begins
	begin()                        // before the first step
	do(step)                       // one of its deeds
	check()                        // after each step while the coordinator is up
	mayFail(*pb.Task) bool         // something was done that the task may fail of
	end(tasks map[string]*pb.Task) // when all faults are mended and all tasks have ended
}

// calmer is a domain of which something goes on by itself: when all faults are mended, it comes to its end before the tasks of the others do.
type calmer interface{ calm() }

// deed is what a step may do, with how often it does beside the others.
type deed struct {
	do     string
	weight int
}

// kind is a domain as a world draws it.
type kind struct {
	name  string
	in    int // of twelve worlds
	deeds []deed
	young bool // it has findings that are not yet looked at: only worlds that are drawn young have it
	make  func(*running) domain
}

// kinds are all domains. The order is that of their checks; a new one goes to the end.
var kinds = []kind{
	{"tasks", 12, taskDeeds, false, func(r *running) domain { return &tasks{running: r} }},
	{"datasets", 8, datasetDeeds, false, func(r *running) domain { return &datasets{running: r, leases: map[string]lease{}} }},
	{"callers", 5, callerDeeds, false, func(r *running) domain {
		return &callers{running: r, leases: map[string]string{}, unpinned: map[string]bool{}}
	}},
	{"faults", 12, faultDeeds, false, func(r *running) domain { return &faults{running: r, full: map[int]bool{}} }},
	{"buckets", 3, bucketDeeds, true, func(r *running) domain { return &buckets{running: r} }},
	{"bursts", 2, burstDeeds, true, func(r *running) domain { return &bursts{running: r} }},
	{"checkpoints", 3, checkpointDeeds, true, func(r *running) domain { return &checkpoints{running: r} }},
	{"watches", 3, watchDeeds, false, func(r *running) domain { return &watches{running: r} }},
	{"users", 3, userDeeds, false, func(r *running) domain { return &users{running: r} }},
	{"slurm", 3, slurmDeeds, true, func(r *running) domain { return &slurmJobs{running: r} }},
	{"pods", 3, podDeeds, false, func(r *running) domain { return &pods{running: r} }},
}

// apart are domains that are in no world with an earlier one: users have projects, and what Slurm and Kubernetes ask for names none.
var apart = map[string]string{"slurm": "users", "pods": "users"}

// plain is a domain that does nothing.
type plain struct{}

func (plain) configure(*config.Config) {}
func (plain) begin()                   {}
func (plain) do(step)                  {}
func (plain) check()                   {}
func (plain) mayFail(*pb.Task) bool    { return false }
func (plain) end(map[string]*pb.Task)  {}
