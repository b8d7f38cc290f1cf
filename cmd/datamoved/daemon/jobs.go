package daemon

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"datamove.dev/api"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/mover/trash"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/checkpointer"
)

const (
	jobsSoon  = 5 * time.Second // where a job that has ended waits for its results to leave; at first, too
	jobsEvery = time.Minute     // else
	// What epilogs took away is removed beside jobs that want the disk: so much of it a second.
	trashEntries = 10_000
	trashBytes   = 4 << 30
)

// jobsParts do on this node what epilogs of Slurm jobs leave to others: they empty the trash of the tier that has the directories of
// jobs, at a limited rate, and end jobs that no epilog has ended. Where there never was a job they do nothing.
func (h *host) jobsParts() []*part {
	dial := h.dialSelf()
	if dial == nil {
		return nil
	}
	return []*part{until("jobs", func(ctx context.Context) error {
		for last := (time.Time{}); ; {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(jobsSoon):
			}
			s, err := slurm.Of(h.live.config.Load(), h.at.node, dial, backend.Mounted)
			if err != nil || !s.Waits() && time.Since(last) < jobsEvery { // no tier is for jobs, which hooks say
				continue
			}
			last = time.Now()
			h.tendJobs(ctx, s)
		}
	}), until("checkpoints", func(ctx context.Context) error { return h.carry(ctx, dial) })}
}

// dialSelf reaches the service of this node as root; nil is where that can not be.
func (h *host) dialSelf() func(context.Context) (*api.Client, error) {
	for _, l := range h.at.listen {
		if strings.HasPrefix(l, "unix://") && os.Geteuid() == 0 {
			return func(ctx context.Context) (*api.Client, error) { return api.Dial(ctx, l, api.Options{}) }
		}
	}
	return nil
}

// home makes the directory of a Slurm job that asks for space.
func (h *host) home(ctx context.Context, tier, dir string, labels map[string]string, gid uint32) error {
	dial := h.dialSelf()
	if dial == nil || labels[slurm.PartLabel] != slurm.Space {
		return nil
	}
	s, err := slurm.Of(h.live.config.Load(), h.at.node, dial, backend.Mounted)
	if err != nil || s.Tier != tier {
		return err
	}
	return errors.Join(s.Make(ctx, dir, gid, labels), s.Close())
}

// carry brings checkpoints of Slurm jobs away from this node while they run.
func (h *host) carry(ctx context.Context, dial func(context.Context) (*api.Client, error)) (err error) {
	c := &checkpointer.Carrier{Node: h.at.node, Dial: dial, Log: h.log}
	defer func() { err = errors.Join(err, c.Close()) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Rest()):
		}
		conf := h.live.config.Load()
		s, err := slurm.Of(conf, h.at.node, dial, backend.Mounted)
		if err != nil {
			continue // no tier is for jobs
		}
		c.Site, c.Quiet = s, cmp.Or(conf.Slurm.Quiet, config.DefaultQuiet)
		live, err := slurm.Live("/proc")
		var present []slurm.Present
		if err == nil {
			present, err = s.Present(live, time.Now())
		}
		if err == nil {
			err = c.Look(ctx, present, live, time.Now())
		}
		if err = errors.Join(err, s.Close()); err != nil && ctx.Err() == nil && !errors.Is(err, mover.ErrUnreachable) {
			h.log.Warn("checkpoints of Slurm jobs are on this node still, will try again", "tier", s.Tier, "err", err)
		}
	}
}

// tendJobs does it once. What does not go well is told, and done the next time.
func (h *host) tendJobs(ctx context.Context, s *slurm.Site) {
	if _, err := os.Stat(s.Scratch + "/" + slurm.Jobs); err != nil {
		return
	}
	live, err := slurm.Live("/proc")
	if err == nil {
		err = s.Reconcile(ctx, live, time.Now())
	}
	err = errors.Join(err, s.Close())
	if err != nil && ctx.Err() == nil && !errors.Is(err, mover.ErrUnreachable) {
		h.log.Warn("what a Slurm job has left is still there, will try again", "tier", s.Tier, "err", err)
	}
	root, err := os.Open(s.Scratch)
	if err != nil {
		return
	}
	defer root.Close()
	done, err := trash.Empty(ctx, int(root.Fd()), trash.Rate{Entries: trashEntries, Bytes: trashBytes})
	if err != nil && ctx.Err() == nil {
		h.log.Warn("some of the trash stays", "tier", s.Tier, "err", err)
	}
	if err := s.Tend(ctx); err != nil && ctx.Err() == nil {
		h.log.Warn("the limits of Slurm jobs that are gone stay for now, will try again", "tier", s.Tier, "err", err)
	}
	if done.Entries > 0 {
		h.log.Info("trash removed", "tier", s.Tier, "items", done.Items, "entries", done.Entries)
	}
}
