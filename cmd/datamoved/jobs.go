package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"datamove.dev/api"
	"datamove.dev/mover"
	"datamove.dev/mover/site"
	"datamove.dev/mover/trash"
	"datamove.dev/tiering/hook"
)

const (
	jobsFirst = 5 * time.Second // the service has to be there
	jobsEvery = time.Minute
	// What epilogs took away is removed beside jobs that want the disk: so much of it a second.
	trashEntries = 10_000
	trashBytes   = 4 << 30
)

// jobsParts do on this node what epilogs of Slurm jobs leave to others: they empty the trash of the tier that has the directories of
// jobs, at a limited rate, and end jobs that nobody has ended. Where there never was a job they do nothing.
func (h *host) jobsParts() []*part {
	address := ""
	for _, l := range h.at.listen {
		if strings.HasPrefix(l, "unix://") {
			address = l
			break
		}
	}
	if address == "" || os.Geteuid() != 0 {
		return nil
	}
	dial := func(ctx context.Context) (*api.Client, error) { return api.Dial(ctx, address, api.Options{}) }
	return []*part{until("jobs", func(ctx context.Context) error {
		for pause := jobsFirst; ; pause = jobsEvery {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
			h.tendJobs(ctx, dial)
		}
	})}
}

// tendJobs does it once. What does not go well is told, and done the next time.
func (h *host) tendJobs(ctx context.Context, dial func(context.Context) (*api.Client, error)) {
	c := h.live.config.Load()
	s, err := hook.Of(c, h.at.node, dial, site.Mounted)
	if err != nil {
		return // no tier is for jobs, which hooks say
	}
	if _, err := os.Stat(s.Scratch + "/" + hook.Jobs); err != nil {
		return
	}
	live, err := hook.Live("/proc")
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
	if done.Entries > 0 {
		h.log.Info("trash removed", "tier", s.Tier, "items", done.Items, "entries", done.Entries)
	}
}
