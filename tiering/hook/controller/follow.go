package controller

import (
	"context"
	"path"
	"strings"
	"time"

	"datamove.dev/mover/location"
	"datamove.dev/tiering/hook/directive"
)

// followPatience is how long a job waits until what earlier ones leave is asked for: longer than they wait to hear how they have ended.
const followPatience = 2 * exitPatience

// follow waits until all is asked for that jobs which have ended leave where this one reads. From then on the mover has this one wait for it: Slurm lets a job
// begin that depends on another one while that one's data_out goes on.
func (w *work) follow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, followPatience)
	defer cancel()
	for {
		before := w.departing()
		if before == 0 {
			return
		}
		select {
		case <-ctx.Done():
			w.tell("job %d has ended, and what it leaves is not asked for yet: what this job stages in may be older", before)
			return
		case <-time.After(placePause):
		}
	}
}

// departing is another job that has ended and leaves something where this one reads, and has not asked for that yet; 0 is none.
func (w *work) departing() uint32 {
	all, err := w.records().all(fileLeaves)
	if err != nil {
		return 0
	}
	for _, f := range all {
		if x, err := w.Controller.Run(f.job); err == nil && f.job != w.Job && w.leadsTo(x.Asked, w.Asked) {
			return f.job
		}
	}
	return 0
}

// leadsTo says whether something of a job may go where another one reads.
func (c *Controller) leadsTo(a, b directive.Job) bool {
	for _, verb := range []directive.Verb{directive.StageOut, directive.Checkpoint} {
		for out := range a.Of(verb) {
			for in := range b.Of(directive.StageIn) {
				for _, to := range out.To {
					if in.From.Scheme != location.Dataset && overlap(c.spelled(to), c.spelled(in.From)) {
						return true
					}
				}
			}
		}
	}
	return false
}

// spelled is a location as far as it is the same for every job, in one spelling.
func (c *Controller) spelled(l location.Location) string {
	text := l.Path
	if t := c.Config.Tiers[l.Tier]; l.Scheme == location.S3 {
		text = "//" + l.Bucket + "/" + l.Prefix
	} else if l.Scheme == location.InTier && t.S3 != nil {
		text = "//" + t.S3.Bucket + "/" + path.Join(t.S3.Prefix, l.Path)
	} else if l.Scheme == location.InTier {
		text = path.Join(t.Path, l.Path)
	}
	return strings.TrimSuffix(known(text), "/")
}

// overlap says whether one of two places lies in the other.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
