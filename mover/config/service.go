package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
)

// What the service uses where the file says nothing.
const (
	DefaultListen = "unix:///run/datamove/datamoved.sock"
	DefaultData   = "/var/lib/datamove"
	DefaultLead   = 30 * time.Second
	DefaultWeight = 1
	DefaultSpares = 4
	DefaultPeers  = "0.0.0.0:7645"
	PeersOff      = "off"

	DefaultSlurmState   = "/run/datamove/slurm"
	DefaultSlurmRecords = "/var/lib/datamove/slurm"
	DefaultQuiet        = 30 * time.Second
	DefaultReady        = 4 * time.Minute // of OtherTimeout of burst_buffer.conf, which is 5 minutes: after it Slurm starts the job with nothing
	DefaultDeadline     = 5 * time.Second // below BatchStartTimeout, which is 10 s
)

// Cache says when replicas without a lease leave a tier, least recently used first.
type Cache struct {
	High Percent `koanf:"high"` // fullness from which on replicas leave
	Low  Percent `koanf:"low"`  // fullness at which no more leave; less than high
}

// Project is a group of users that share roots, and a part of what the cluster can move.
type Project struct {
	Roots   []string   `koanf:"roots"`   // where members read and write
	Reads   []string   `koanf:"reads"`   // more roots, to read only; none is no more
	Members []string   `koanf:"members"` // users, and @GROUP
	Weight  int        `koanf:"weight"`  // share of the project beside others; 0 is DefaultWeight
	S3      *ProjectS3 `koanf:"s3"`      // how the project comes to its buckets; nil is as the tiers say
}

// ProjectS3 is how a project comes to its buckets.
type ProjectS3 struct {
	Credentials string `koanf:"credentials"` // where the keys of the project are, as in a tier
}

// Role is what its members may do beside what all users may.
type Role struct {
	Members []string `koanf:"members"` // users, and @GROUP
	May     []string `koanf:"may"`     // actions, families of actions, or *; person.act (to call for other users) has to be named
}

// Audit is where decisions are written down.
type Audit struct {
	Dir  string `koanf:"dir"`  // directory of the log; "" is audit below data
	Sync bool   `koanf:"sync"` // whether each decision is on stable storage before it takes effect
}

// Leases says how long an agent may be silent.
type Leases struct {
	Lead time.Duration `koanf:"lead"` // silence after which the tasks of an agent go to others; 0 is DefaultLead
}

// Agent is how the agent of a node works.
type Agent struct {
	Journals string `koanf:"journals"` // directory of the journals of users, best on another disk than data, since users can fill it; "" is users below the directory of the agent
	Spares   *int   `koanf:"spares"`   // processes that wait for the next task, one for an account; nil is DefaultSpares
}

// Peers is how nodes give each other what several of them stage.
type Peers struct {
	Listen string `koanf:"listen"` // where this node serves others; "" is DefaultPeers
	Host   string `koanf:"host"`   // name by which other nodes reach that; "" is the address that the coordinator sees
}

// Slurm is what its hooks need to know.
type Slurm struct {
	Scratch  string        `koanf:"scratch"`  // tier of the directories of jobs; "" is the only tier that is node_local and ephemeral
	State    string        `koanf:"state"`    // directory of the records of jobs on a node, in memory; "" is DefaultSlurmState
	Deadline time.Duration `koanf:"deadline"` // most that a hook on a node may take; less than BatchStartTimeout of Slurm; 0 is DefaultDeadline
	Warm     string        `koanf:"warm"`     // tier that all nodes see, for datasets that are on no such tier; "" is none
	Records  string        `koanf:"records"`  // directory of the records of jobs on the controller's host; "" is DefaultSlurmRecords
	Ready    time.Duration `koanf:"ready"`    // most that data may take to come onto the nodes of a job; less than OtherTimeout of burst_buffer.conf; 0 is DefaultReady
	Most     Size          `koanf:"most"`     // most bytes that one job may have staged; 0 is any
	Quiet    time.Duration `koanf:"quiet"`    // time without a change after which a checkpoint leaves its node; 0 is DefaultQuiet
	Cluster  string        `koanf:"cluster"`  // name of this Slurm cluster, where several have one coordinator; "" is the only cluster

	ProjectIDs string `koanf:"project_ids"` // project IDs for jobs with capacity= on ext4 and xfs, which no other program gives to directories of the scratch tier; "" is none
}

// ScratchTier is the tier of the directories of jobs, by name.
func (c *Config) ScratchTier() (string, error) {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(c.Tiers)) {
		t := c.Tiers[name]
		if t.NodeLocal && t.Ephemeral && t.Path != "" && (c.Slurm.Scratch == "" || c.Slurm.Scratch == name) {
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case c.Slurm.Scratch != "":
		return "", fmt.Errorf("%w: slurm.scratch is %s, which is no tier with a path that is node_local and ephemeral", mover.ErrUsage, c.Slurm.Scratch)
	case len(found) == 0:
		return "", fmt.Errorf("%w: no tier has a path and is node_local and ephemeral, so jobs have no scratch of their own", mover.ErrUsage)
	}
	return "", fmt.Errorf("%w: the tiers %s could have the scratch of jobs: name one of them as slurm.scratch", mover.ErrUsage, strings.Join(found, ", "))
}

// Trace is where traces go.
type Trace struct {
	Endpoint string `koanf:"endpoint"` // URL of an OTLP receiver
}

// User is a user that may call from another machine.
type User struct {
	Certificate string `koanf:"certificate"` // common name of the client certificate of the user
}
