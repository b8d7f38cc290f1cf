package burst

import (
	"time"

	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/tiering/burst/pricing"
)

// Burst is one declaration.
type Burst struct {
	At       yamldoc.Position
	Kind     string   `yaml:"kind" declare:"required"` // Burst
	Metadata Metadata `yaml:"metadata" declare:"required"`
	Spec     Spec     `yaml:"spec" declare:"required"`

	File string // that it was read from
	Text string // of the document: it reads as the same burst
}

// Metadata says what a burst is called.
type Metadata struct {
	Name   Name              `yaml:"name" declare:"required"`
	Labels map[string]string `yaml:"labels"`
}

// Spec is what a burst needs.
type Spec struct {
	Team        Name          `yaml:"team" declare:"required"` // its account pays
	Job         Job           `yaml:"job" declare:"required"`
	Cloud       Cloud         `yaml:"cloud" declare:"required"`
	Link        Link          `yaml:"link" declare:"required"`
	Data        []Data        `yaml:"data"`
	Checkpoints []Checkpoint  `yaml:"checkpoints"`
	Results     []Result      `yaml:"results"`
	Lasts       Span          `yaml:"lasts" declare:"required"` // how long it is to be there, from when it is ready
	Cap         pricing.Money `yaml:"cap"`                      // that it may cost in all; 0 is what the account has
	Idle        Span          `yaml:"idle"`                     // without I/O of a client, after which it may be taken away; 0 is DefaultIdle
}

// Job is what is to be trained, and why not here.
type Job struct {
	Kind      string    `yaml:"kind" declare:"required"` // training, or another word, which no rule admits by itself
	Priority  string    `yaml:"priority"`                // low, normal, high or urgent; "" is normal
	GPUs      int64     `yaml:"gpus" declare:"required"` // in all
	StartsIn  Span      `yaml:"startsIn"`                // until it would begin here, as its scheduler expects; 0 is at once
	NoneHere  bool      `yaml:"noneHere"`                // no such GPUs exist here
	Instances Instances `yaml:"instances"`               // that it runs on in AWS
}

// Instances are machines of EC2.
type Instances struct {
	Type  string `yaml:"type"` // p5.48xlarge
	Count int64  `yaml:"count"`
}

// Cloud is where in AWS.
type Cloud struct {
	Tier       string      `yaml:"tier" declare:"required"`   // a bucket of the configuration
	Region     string      `yaml:"region" declare:"required"` // of the bucket, the file system and the instances
	Prefix     Path        `yaml:"prefix"`                    // below the tier; "" is bursts/NAME
	KMSKey     string      `yaml:"kmsKey"`                    // ARN of the key of the file system; "" is that of AWS for FSx
	Role       string      `yaml:"role"`                      // ARN of the role to work under; "" is the identity of the caller
	FileSystem *FileSystem `yaml:"fileSystem"`                // nil has the job read from the bucket
}

// FileSystem is an FSx for Lustre.
type FileSystem struct {
	Type           string   `yaml:"type" declare:"required"`   // SCRATCH_2 or PERSISTENT_2
	Throughput     int64    `yaml:"throughput"`                // MB/s per TiB of PERSISTENT_2: 125, 250, 500 or 1000
	Capacity       Size     `yaml:"capacity"`                  // 0 is what data and checkpoints need
	EFA            bool     `yaml:"efa"`                       // Elastic Fabric Adapter and GPUDirect Storage, of PERSISTENT_2
	Compress       bool     `yaml:"compress"`                  // by LZ4
	Subnet         string   `yaml:"subnet" declare:"required"` // subnet-…
	SecurityGroups []string `yaml:"securityGroups"`            // sg-…
}

// Link is how bytes come to AWS and back.
type Link struct {
	Kind string `yaml:"kind" declare:"required"` // directConnect, vpn or internet: what coming home costs
	Rate Rate   `yaml:"rate" declare:"required"` // that we may use of it
}

// Data is what the job reads.
type Data struct {
	From      string   `yaml:"from" declare:"required"` // a location: project:datasets/imagenet, dataset:NAME@DIGEST
	To        Path     `yaml:"to" declare:"required"`   // below the prefix, and below the root of the file system
	Residency []string `yaml:"residency"`               // regions, or their beginnings (eu), in which it may be; none is any
	Size      Size     `yaml:"size"`                    // about, where it can not be looked at; 0 is looked at
	Files     int64    `yaml:"files"`                   // about, with Size
}

// Checkpoint is a directory of checkpoints that the job saves, and that come home.
type Checkpoint struct {
	Path    Path   `yaml:"path" declare:"required"`  // below the prefix, and below the root of the file system
	Home    string `yaml:"home" declare:"required"`  // a location here
	Profile string `yaml:"profile"`                  // of the framework that saves; "" is found out
	Size    Size   `yaml:"size" declare:"required"`  // of one, about
	Every   Span   `yaml:"every" declare:"required"` // they are saved, and come home
	RPO     Span   `yaml:"rpo"`                      // how much work may be lost with AWS; 0 is twice Every
}

// Result is a directory that comes home at the end.
type Result struct {
	Path Path   `yaml:"path" declare:"required"`
	Home string `yaml:"home" declare:"required"`
	Size Size   `yaml:"size"` // about
}

// DefaultIdle is how long nothing reads or writes before a burst is idle, where it does not say.
const DefaultIdle = 4 * time.Hour

// Idles is how long nothing reads or writes before the burst is idle.
func (s *Spec) Idles() time.Duration {
	if s.Idle == 0 {
		return DefaultIdle
	}
	return time.Duration(s.Idle)
}

// Objective is how much work of a checkpoint directory may be lost.
func (c *Checkpoint) Objective() time.Duration {
	if c.RPO == 0 {
		return 2 * time.Duration(c.Every)
	}
	return time.Duration(c.RPO)
}

// Prefix is where below its tier a burst is.
func (b *Burst) Prefix() string {
	if b.Spec.Cloud.Prefix == "" {
		return "bursts/" + string(b.Metadata.Name)
	}
	return string(b.Spec.Cloud.Prefix)
}

// Location is where a path of a burst is, as a location of the configuration.
func (b *Burst) Location(path Path) string {
	return b.Spec.Cloud.Tier + ":" + b.Prefix() + "/" + string(path)
}

// Homeward are the directories that come home, checkpoints first.
func (b *Burst) Homeward() (all []Result) {
	for _, c := range b.Spec.Checkpoints {
		all = append(all, Result{Path: c.Path, Home: c.Home, Size: c.Size})
	}
	return append(all, b.Spec.Results...)
}

// Rhythm is how often checkpoints come home; half an hour where there are none.
func (b *Burst) Rhythm() time.Duration {
	every := 30 * time.Minute
	for _, c := range b.Spec.Checkpoints {
		every = min(every, time.Duration(c.Every))
	}
	return every
}
