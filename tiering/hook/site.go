package hook

import (
	"context"
	"time"

	"datamove.dev/tiering/stage"
)

// Site is the node that hooks run on. Scratch and State have to be given.
type Site struct {
	Tier    string // that jobs have their scratch on, by name
	Scratch string // its path
	State   string // directory of the records of jobs, of this boot: /run/datamove/slurm
	// Mounted says why the file system that the tier has to be on is not there; nil does not look.
	Mounted func() error
	Mover   Mover
	// Patience is how long the mover may take altogether, of a prolog's deadline or an epilog's second. 0 is Patience.
	Patience time.Duration
}

// Patience is how long hooks wait for the mover when nobody says otherwise.
const Patience = 3 * time.Second

// Mover is what hooks ask of it. *Service is one.
type Mover interface {
	// Held returns what holders whose names begin so have on this node.
	Held(ctx context.Context, prefix string) ([]stage.Holding, error)
	// LetGo lets go of it.
	LetGo(ctx context.Context, h stage.Holding) error
	// Leaving says whether something is to be brought from the directory of a job on this node still.
	Leaving(ctx context.Context, job Job) (bool, error)
}

func (s *Site) patience() time.Duration {
	if s.Patience > 0 {
		return s.Patience
	}
	return Patience
}
