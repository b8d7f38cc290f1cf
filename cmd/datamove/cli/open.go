package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"datamove.dev/lustre/fshints"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/config"
	"datamove.dev/mover/config/spelling"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

// Locate reads one location of the command line. Paths become absolute, and a tier
// its path or bucket, so that two names of one place are seen to be one; a bucket
// remembers in Tier where its endpoint and credentials are described.
func (a *App) Locate(arg string) (location.Location, error) {
	l, err := ParseLocation(arg)
	switch {
	case l.InTier():
		return a.resolve(l)
	case l.IsDataset():
		return l, fmt.Errorf("%s: datasets are named by a service, and this command works in its own process: %w", l, mover.ErrUnsupported)
	}
	return l, err
}

func (a *App) resolve(l location.Location) (location.Location, error) {
	conf, err := a.Config()
	if err != nil {
		return l, err
	}
	resolved, ok := backend.Resolver{Tiers: conf.Tiers}.Resolve(l)
	if !ok {
		try := "./" + l.String() + " if it is a path with a colon"
		if near := spelling.Nearest(l.Tier, slices.Sorted(maps.Keys(conf.Tiers))); near != "" {
			meant := l
			meant.Tier = near
			try = meant.String() + ", or " + try
		}
		return l, Advise(conf.NoTier(l.Tier), try)
	}
	return resolved, nil
}

// Open is the engine.Opener of this program. Paths need no configuration: one that can not be
// read has no tiers that they could be in.
func (a *App) Open(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
	s := backend.Resolver{FileSystem: fshints.Of}
	conf, err := a.Config()
	switch {
	case err == nil:
		s.Tiers = conf.Tiers
		a.warn(conf, l.Tier)
	case l.Tier != "":
		return nil, err
	}
	return s.Open(ctx, l, o)
}

// warn says once that others may read the credentials of a tier that is opened.
func (a *App) warn(conf *config.Config, tier string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if tier == "" || a.Quiet || a.warned[tier] {
		return
	}
	if a.warned == nil {
		a.warned = map[string]bool{}
	}
	a.warned[tier] = true
	for _, p := range conf.TierWarnings(tier) {
		fmt.Fprintf(a.Err, "datamove: warning: %s\n", p)
	}
}

// Bucket says how to reach the bucket of l.
func (a *App) Bucket(l location.Location) (s3.Options, error) {
	if l.Tier == "" {
		return backend.Resolver{}.Bucket(l)
	}
	conf, err := a.Config()
	if err != nil {
		return s3.Options{}, err
	}
	return backend.Resolver{Tiers: conf.Tiers}.Bucket(l)
}

// ParseLocation reads a location and leaves to a service what is in it.
func ParseLocation(arg string) (location.Location, error) {
	l, err := location.Parse(arg)
	if err == nil && l.IsPath() {
		l.Path, err = filepath.Abs(l.Path)
	}
	return l, err
}
