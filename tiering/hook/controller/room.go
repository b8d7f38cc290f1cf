package controller

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"datamove.dev/mover/location"
	"datamove.dev/tiering/hook/directive"
)

// leavesRoom refuses what is to go where nothing more can be written: now a person is there who can do something, and when the job has ended nobody is.
func (c *Controller) leavesRoom(ctx context.Context, job directive.Job) error {
	if c.Room == nil {
		return nil
	}
	var errs []error
	asked := map[string]bool{}
	for _, verb := range []directive.Verb{directive.StageOut, directive.Checkpoint} {
		for r := range job.Of(verb) {
			for _, to := range r.To {
				dir := known(c.seen(to))
				if dir == "" || asked[dir] {
					continue
				}
				asked[dir] = true
				if err := c.Room(ctx, dir); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", r.Summary(), err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// known is the part of a path that is the same for every job.
func known(name string) string {
	i := strings.IndexAny(name, "%{")
	if i < 0 {
		return name
	}
	return name[:strings.LastIndexByte(name[:i], '/')+1]
}

// seen is where all nodes see a location; "" is nowhere.
func (c *Controller) seen(l location.Location) string {
	switch l.Scheme {
	case location.POSIX:
		return l.Path
	case location.InTier:
		if t := c.Config.Tiers[l.Tier]; t.Path != "" && !t.NodeLocal {
			return path.Join(t.Path, l.Path)
		}
	}
	return ""
}
