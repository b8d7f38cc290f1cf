package burstbuffer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/slurm"
)

// fileKept is when what jobs hold was last renewed. It is of no job.
const fileKept = "kept"

// keepEvery is between two looks; a lease is renewed when half of it is over.
const keepEvery = time.Hour

// Keep renews what jobs hold where all nodes see it, as long as Slurm knows them and they are not torn down: a job may be pending for longer than a lease
// lasts, and no node looks after it. It may be called at any time, and does something once an hour. A mover that is away is asked the next time.
func (c *Controller) Keep(ctx context.Context) error {
	var last time.Time
	now := time.Now()
	if c.records().read(0, fileKept, &last) == nil && !now.Before(last) && now.Sub(last) < keepEvery {
		return nil
	}
	jobs, err := c.lasting()
	if err == nil && len(jobs) > 0 {
		err = c.renew(ctx, jobs, now.Add(slurm.LeaseTTL/2))
	}
	if err != nil {
		return err
	}
	return c.records().write(0, fileKept, now.UTC())
}

// lasting are the jobs that go on, and their owners.
func (c *Controller) lasting() (map[uint32]uint32, error) {
	all, err := c.records().all(fileJob)
	jobs := map[uint32]uint32{}
	for _, f := range all {
		x, err := c.Run(f.job)
		if err == nil && !c.unknown(f.job) {
			jobs[f.job] = x.UID
		}
	}
	return jobs, err
}

// unknown says whether Slurm has forgotten a job: it has its script no more. Of one that a crash of slurmctld has forgotten there is no teardown.
func (c *Controller) unknown(job uint32) bool {
	name, err := c.script(job)
	if err != nil {
		return false
	}
	_, err = os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

func (c *Controller) renew(ctx context.Context, jobs map[uint32]uint32, before time.Time) error {
	client, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	var errs []error
	for l, err := range client.Leases(ctx, &datamovev1.ListLeasesRequest{PageSize: 1000}) {
		if err != nil {
			return err
		}
		if name := c.namesake(l.GetLabels()); name != "" {
			c.tell("Slurm cluster %s has jobs on this coordinator, too: set slurm.cluster on all machines of both, else jobs of one number are taken for one", mover.Printable(name))
			continue
		}
		id, ours := slurm.JobOfHolder(c.Config.Slurm.Cluster, l.GetHolder())
		uid, lasts := jobs[id]
		if !ours || !lasts || l.GetOwner().GetUid() != uid || l.GetNode() != "" || l.GetExpireTime() == nil || l.GetExpireTime().AsTime().After(before) {
			continue
		}
		errs = append(errs, slurm.Renew(api.For(ctx, uid), client, l.GetId()))
	}
	return errors.Join(errs...)
}
