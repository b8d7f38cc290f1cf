package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/mover/config/spelling"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

// places opens targets as the configuration of this host has them.
type places struct {
	targets []string // absolute, where they are paths
	buckets bool     // all of them are

	file string
	once sync.Once
	conf *config.Config // after once
	err  error
}

// newPlaces looks at targets without opening them.
func newPlaces(file string, targets []string) (*places, error) {
	p := &places{file: file}
	for i, t := range targets {
		l, err := p.resolve(t)
		if err != nil {
			return nil, err
		}
		bucket := l.InStore()
		if i > 0 && bucket != p.buckets {
			return nil, usageError{errors.New("directories and buckets are measured one after the other, and not together")}
		}
		p.buckets = bucket
		if named, err := location.Parse(t); err == nil && named.IsPath() {
			t = l.Path // of nodes, too, wherever they run
		}
		p.targets = append(p.targets, t)
	}
	return p, nil
}

// config is read when a tier is named, or a bucket.
func (p *places) config() (*config.Config, error) {
	p.once.Do(func() {
		getenv := os.Getenv
		if p.file != "" {
			getenv = func(name string) string {
				if name == "DATAMOVE_CONFIG" {
					return p.file
				}
				return os.Getenv(name)
			}
		}
		p.conf, p.err = config.Load(getenv)
	})
	return p.conf, p.err
}

// resolve says what a target is.
func (p *places) resolve(target string) (l location.Location, err error) {
	if l, err = location.Parse(target); err != nil {
		return l, err
	}
	switch {
	case l.IsDataset():
		return l, fmt.Errorf("%w: %s: a dataset is no place for a load", mover.ErrUsage, mover.Printable(target))
	case l.IsPath():
		l.Path, err = filepath.Abs(l.Path)
		return l, err
	case l.InTier():
		conf, err := p.config()
		if err != nil {
			return l, err
		}
		resolved, ok := backend.Resolver{Tiers: conf.Tiers}.Resolve(l)
		if !ok {
			question := cmp.Or(spelling.Question(l.Tier, slices.Sorted(maps.Keys(conf.Tiers))), "datamove tier list shows those that there are")
			return l, fmt.Errorf("%w: there is no tier %s in the configuration: %s", mover.ErrUsage, mover.Printable(l.Tier), question)
		}
		return resolved, nil
	}
	return l, nil
}

// open is a load.Opener.
func (p *places) open(ctx context.Context, target, name string) (path string, place mover.Backend, err error) {
	l, err := p.resolve(target)
	if err != nil || !l.InStore() {
		return l.Path, nil, err
	}
	conf, err := p.config()
	if err != nil {
		return "", nil, err
	}
	l.Prefix = mover.Join(l.Prefix, name)
	place, err = backend.Resolver{Tiers: conf.Tiers}.Open(ctx, l, engine.OpenOptions{Write: true})
	return "", place, err
}
