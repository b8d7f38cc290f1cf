package slurm

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"datamove.dev/api"
	"datamove.dev/lustre/claim"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset/datasetclient"
)

// Site is the node that hooks run on. Scratch and State have to be given.
type Site struct {
	Cluster string // that the node is of; "" is the only one
	Tier    string // that jobs have their scratch on, by name
	Scratch string // its path
	State   string // directory of the records of jobs, of this boot: /run/datamove/slurm
	// Mounted says why the file system that the tier has to be on is not there; nil does not look.
	Mounted func() error
	Mover   Mover
	// Patience is how long the mover may take altogether, of a prolog's deadline or an epilog's second. 0 is Patience.
	Patience time.Duration
	IDs      claim.Range // of projects, of jobs with a capacity; none has no limits on ext4 and xfs
}

// Patience is the default for how long hooks wait for the mover.
const Patience = 3 * time.Second

// Mover is what hooks ask of it. *Service is one.
type Mover interface {
	// Held returns what holders with names that begin so have on this node.
	Held(ctx context.Context, prefix string) ([]datasetclient.Holding, error)
	// LetGo lets go of it.
	LetGo(ctx context.Context, h datasetclient.Holding) error
	// Renew renews what the job holds on this node, or where all nodes see it, and would end before a time.
	Renew(ctx context.Context, job Job, before time.Time) error
	// Moves returns the copies to and from the directory of a job on this node.
	Moves(ctx context.Context, job Job) ([]Move, error)
}

// Of is a node as the configuration has it. The mover there calls it node, and dial reaches it; mounted says why the file
// system of a tier is not there.
func Of(c *config.Config, node string, dial func(context.Context) (*api.Client, error), mounted func(config.Tier) error) (*Site, error) {
	tier, err := c.ScratchTier()
	if err != nil {
		return nil, err
	}
	t := c.Tiers[tier]
	var ids claim.Range
	if c.Slurm.ProjectIDs != "" {
		if ids.First, ids.Last, err = units.ParseIDs(c.Slurm.ProjectIDs); err != nil {
			return nil, fmt.Errorf("%w: slurm.project_ids: %w", mover.ErrUsage, err)
		}
	}
	return &Site{
		IDs:     ids,
		Cluster: c.Slurm.Cluster,
		Tier:    tier, Scratch: filepath.Clean(t.Path), State: cmp.Or(c.Slurm.State, config.DefaultSlurmState), Mounted: func() error { return mounted(t) },
		Mover: &Service{Mover: &datasetclient.Mover{Node: node, Dial: dial}, Tier: tier}, Patience: cmp.Or(c.Slurm.Deadline, config.DefaultDeadline) * 3 / 5,
	}, nil
}

// Close ends the connection to the mover.
func (s *Site) Close() error {
	if c, ok := s.Mover.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

func (s *Site) waitMost() time.Duration {
	if s.Patience > 0 {
		return s.Patience
	}
	return Patience
}
