package volumestore

import (
	"context"
	"fmt"
	"strings"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// limit gives a project its quota, and checks whether it is enforced, and for which users.
func (b *Base) limit(ctx context.Context, data dir, r *Record) error {
	quotas, hard := b.handle.System.Quota, r.hardBytes()
	if quotas == nil && hard == 0 {
		return nil
	}
	if quotas == nil {
		if r.Unenforced = b.handle.System.Lacks[lustre.AskQuota]; b.spec.Unenforced {
			return nil
		}
		return fmt.Errorf("%w: nothing would hold a volume to its capacity: %w; set unenforced: true for it to make volumes all the same", mover.ErrUnsupported, b.handle.System.Lack(lustre.AskQuota))
	}
	p := r.project()
	q, err := quotas.Quota(ctx, int(data), p)
	if err != nil {
		return err
	}
	l, err := r.limits(&q)
	if err != nil {
		return err
	}
	if err := quotas.SetQuota(ctx, int(data), p, l); err != nil {
		return err
	}
	if q, err = quotas.Quota(ctx, int(data), p); err != nil {
		return err
	}
	r.Enforced, r.Unenforced, r.Escape = q.Enforced || hard == 0, "", ""
	switch {
	case hard == 0:
		return nil
	case r.Enforced:
		r.Escape = escape(&q)
		return nil
	case b.spec.Unenforced:
		r.Unenforced = "the file system counts, and refuses nothing"
		return nil
	}
	return fmt.Errorf("%w: the quotas of %s are counted and not enforced; switch enforcement on, or set unenforced: true", mover.ErrUnsupported, mover.Printable(b.spec.Root))
}

// escape says how a pod that means harm gets around an enforced limit; "" where no way is known.
func escape(q *lustre.Quota) string {
	var ways []string
	if !q.RootToo {
		ways = append(ways, "root is not held, so no pod may be root")
	}
	if q.Escape != "" {
		ways = append(ways, q.Escape)
	}
	return strings.Join(ways, "; ")
}

// project is what quotas are asked about: where a directory is its own project, the zero one, so
// that it may be renamed.
func (r *Record) project() lustre.Project {
	if r.Project == nil {
		return lustre.Project{}
	}
	return *r.Project
}

// limits are those of r on a file system that can do what q says.
func (r *Record) limits(q *lustre.Quota) (lustre.Limits, error) {
	hard := r.hardBytes()
	l := lustre.Limits{HardBytes: hard, SoftBytes: hard / 100 * int64(r.Parameters.Quota.SoftPercent), HardFiles: r.Parameters.Quota.Files}
	switch {
	case l.SoftBytes > 0 && !q.HasSoft:
		return l, fmt.Errorf("%w: parameter softPercent: this file system has no soft limits", mover.ErrUnsupported)
	case l.HardFiles > 0 && !q.CountsFiles:
		return l, fmt.Errorf("%w: parameter files: this file system does not count the files of a project", mover.ErrUnsupported)
	}
	return l, nil
}

// lay sets how new files in data lie on a Lustre.
func (b *Base) lay(ctx context.Context, data dir, p volume.Layout) error {
	layouts := b.handle.System.Layout
	if p.IsZero() {
		return nil
	}
	if layouts == nil {
		return b.handle.System.Lack(lustre.AskLayout)
	}
	cluster, err := layouts.Cluster(ctx, int(data))
	if err != nil {
		return err
	}
	l := lustre.Advise(lustre.Request{Use: p.Use, Pool: p.OSTPool}, cluster).Layout
	if p.StripeCount != 0 || p.StripeBytes != 0 {
		l = plainLayout(p)
	}
	return layouts.SetDefault(ctx, int(data), l)
}

func plainLayout(p volume.Layout) lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, FirstTarget: lustre.AnyTarget, StripeCount: p.StripeCount, StripeBytes: p.StripeBytes, Pool: p.OSTPool}}}
}
