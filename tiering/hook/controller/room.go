package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
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

// nodesTake refuses datasets that are more than a tier takes on any node, as far as the mover knows how large it is there.
func nodesTake(ctx context.Context, client *api.Client, needs map[string]int64) error {
	for _, tier := range slices.Sorted(maps.Keys(needs)) {
		lines, err := client.ListTiers(ctx, &datamovev1.ListTiersRequest{Name: tier})
		if err != nil {
			return err
		}
		most, known := int64(0), false
		for _, line := range lines.GetTiers() {
			total := line.GetTotalBytes()
			most, known = max(most, total-mover.Kept(total, int(line.GetKeepFreePercent()))), known || total > 0
		}
		if known && needs[tier] > most {
			return fmt.Errorf("%w: the datasets of the job have %s, and %s takes %s at most on any node: stage less, or read them where they are", mover.ErrRefused, units.Bytes(needs[tier]), tier, units.Bytes(most))
		}
	}
	return nil
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
