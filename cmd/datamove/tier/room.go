package tier

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/quota"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// room is what a file system says of how full it is, beyond what everybody sees.
type room struct {
	Kind     lustre.Kind  `json:"kind,omitempty"`
	Mount    string       `json:"mount,omitempty"`
	Quota    *quota.View  `json:"quota,omitempty"`
	Fullest  *targetRoom  `json:"fullest,omitempty"`  // of the OSTs and MDTs
	Full     []targetRoom `json:"full,omitempty"`     // over 85 %
	Inactive []targetRoom `json:"inactive,omitempty"` // that do not answer
	Doubts   []string     `json:"doubts,omitempty"`   // why there is no more of it
}

// targetRoom is how full one server's part is.
type targetRoom struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"` // OST, MDT, pool
	TotalBytes int64  `json:"total_bytes"`
	FreeBytes  int64  `json:"free_bytes"`
	TotalFiles int64  `json:"total_files,omitempty"`
	FreeFiles  int64  `json:"free_files,omitempty"`
	Why        string `json:"why,omitempty"` // it does not answer

	used float64 // of bytes or files, whichever is more
}

// measure asks the file system of a folder. What it can not say is left out; what keeps it
// from saying is a doubt, and only no answer at all an error.
func measure(ctx context.Context, a *cli.App, dir string) (*room, error) {
	r, err := cli.ProbePath(ctx, a, dir, func(ctx context.Context, m *cli.Mounted) (*room, error) {
		r := &room{Kind: m.Kind, Mount: m.Mount}
		r.measureQuota(ctx, m)
		if m.Usage == nil {
			return r, nil
		}
		targets, err := m.Usage.Targets(ctx, m.FD)
		r.doubt(err)
		for i := range targets {
			r.add(&targets[i])
		}
		return r, nil
	})
	if err != nil && !errors.Is(err, mover.ErrTimeout) {
		r, err = &room{Doubts: []string{err.Error()}}, nil
	}
	return r, err
}

// measureQuota asks for the quota of the project of a folder, if it is in one.
func (r *room) measureQuota(ctx context.Context, m *cli.Mounted) {
	if m.Quota == nil {
		return
	}
	p, err := m.Quota.Project(ctx, m.FD)
	if err == nil && p.ID == 0 && p.Name == "" {
		return
	}
	var q lustre.Quota
	if err == nil {
		q, err = m.Quota.Quota(ctx, m.FD, p)
	}
	if err != nil {
		r.doubt(err)
		return
	}
	r.Quota = quota.ViewOf(m, &q)
}

// doubt keeps what was answered instead of numbers, if anything.
func (r *room) doubt(err error) {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		r.Doubts = append(r.Doubts, err.Error())
	}
}

// tellRooms tells a person what is in doubt, and returns why tiers could not be looked
// at. A folder that is not there, or not mounted, is no failure: not every machine has every tier.
func tellRooms(a *cli.App, rows []row) error {
	var errs []error
	for _, t := range rows {
		if t.room != nil {
			for _, doubt := range t.room.Doubts {
				a.Note("%s: %s", t.GetName(), doubt)
			}
		}
		if t.err != nil && !errors.Is(t.err, mover.ErrNotExist) && !errors.Is(t.err, mover.ErrUnreachable) {
			errs = append(errs, cli.AdviseSilence(cli.WithKernelKind(t.err)))
		}
	}
	return errors.Join(errs...)
}

// add counts a target.
func (r *room) add(t *lustre.Target) {
	files := lustre.Target{TotalBytes: t.TotalFiles, FreeBytes: t.FreeFiles}
	one := targetRoom{t.Name, t.Kind.String(), t.TotalBytes, t.FreeBytes, t.TotalFiles, t.FreeFiles, t.Inactive, max(t.Used(), files.Used())}
	switch {
	case t.Inactive != "":
		r.Inactive = append(r.Inactive, one)
		return
	case t.Kind == lustre.InPool:
		return // no server by itself
	case one.used > quota.HighShare:
		r.Full = append(r.Full, one)
	}
	if r.Fullest == nil || one.used > r.Fullest.used {
		r.Fullest = &one
	}
}

// left is what a project may still write.
func (r *room) left() string {
	if r == nil || r.Quota == nil {
		return "-"
	}
	return quota.LeftText(r.Quota.LeftBytes, units.Bytes)
}

// fullest is how full the fullest target is.
func (r *room) fullest() string {
	if r == nil || r.Fullest == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*r.Fullest.used)
}

// worst is how full the fullest of all is, from 0 to 1.
func (r *room) worst() (used float64) {
	if r == nil {
		return 0
	}
	if r.Fullest != nil {
		used = r.Fullest.used
	}
	if q := r.Quota; q != nil && q.LeftBytes != nil && q.HardBytes > 0 {
		used = max(used, 1-float64(*q.LeftBytes)/float64(q.HardBytes))
	}
	return used
}
