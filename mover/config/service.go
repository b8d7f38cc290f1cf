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

// Cache says when replicas without a lease leave a tier: from the fullness
// High on, least recently used first, until it is Low.
type Cache struct {
	High Percent `koanf:"high"`
	Low  Percent `koanf:"low"`
}

// Project is a group of users that share roots, and a part of what the cluster can move.
type Project struct {
	Roots   []string   `koanf:"roots"`   // TIER:path, /path or s3://bucket/prefix: members read and write below them
	Reads   []string   `koanf:"reads"`   // more of them, to read only
	Members []string   `koanf:"members"` // NAME or @GROUP
	Weight  int        `koanf:"weight"`  // its share beside other projects; 0 is DefaultWeight
	S3      *ProjectS3 `koanf:"s3"`      // nil uses what the tiers say
}

// ProjectS3 is how a project comes to its buckets.
type ProjectS3 struct {
	Credentials string `koanf:"credentials"` // as in S3
}

// Role is what its members may do beside what everybody may.
type Role struct {
	Members []string `koanf:"members"` // NAME or @GROUP
	May     []string `koanf:"may"`     // actions: task.submit, task.*, *; and person.act, which * does not give
}

// Audit is where decisions are written down.
type Audit struct {
	Dir  string `koanf:"dir"`  // "" is audit below the directory of the service
	Sync bool   `koanf:"sync"` // each decision is on stable storage before it takes effect
}

// Leases says how long an agent may be silent.
type Leases struct {
	Lead time.Duration `koanf:"lead"` // 0 is DefaultLead
}

// Agent is how the agent of a node works.
type Agent struct {
	Journals string `koanf:"journals"` // directory of the journals of users, best on another disk than data: they can fill it; "" is users below the directory of the agent
	Spares   *int   `koanf:"spares"`   // processes that wait for the next task, one of an account; nil is DefaultSpares
}

// Peers is how nodes give each other what several of them stage.
type Peers struct {
	Listen string `koanf:"listen"` // host:port where this node gives; "" is DefaultPeers, PeersOff is nowhere
	Host   string `koanf:"host"`   // by which others reach that; "" is where the coordinator sees this node
}

// Slurm is what its hooks need to know.
type Slurm struct {
	Scratch  string        `koanf:"scratch"`  // tier of the directories of jobs; "" is the only one that is node-local and ephemeral
	State    string        `koanf:"state"`    // directory of the records of jobs, in memory; "" is DefaultSlurmState
	Deadline time.Duration `koanf:"deadline"` // of a hook on a node; 0 is DefaultDeadline
	Warm     string        `koanf:"warm"`     // tier that all nodes see, for datasets that lie on none; "" is none
	Records  string        `koanf:"records"`  // directory of the records of jobs on the controller's host; "" is DefaultSlurmRecords
	Ready    time.Duration `koanf:"ready"`    // how long data may take to come onto the nodes of a job; 0 is DefaultReady
	Most     Size          `koanf:"most"`     // that one job may have staged; 0 is any
	Quiet    time.Duration `koanf:"quiet"`    // for how long nothing in a checkpoint has to change before it leaves its node; 0 is DefaultQuiet
	Cluster  string        `koanf:"cluster"`  // name of this Slurm cluster, where several have one coordinator; "" is the only one

	ProjectIDs string `koanf:"project_ids"` // FIRST-LAST, which no other program gives to directories of the scratch tier: of jobs with capacity=, on ext4 and xfs; "" is none
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
	Endpoint string `koanf:"endpoint"` // URL of an OTLP receiver; "" is nowhere
}

// User is a user that may call from another machine.
type User struct {
	Certificate string `koanf:"certificate"` // common name of the person's client certificate
}
