package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// Quota is lustre.Quotas. Lustre does not hold root to the quota of a project, and a project
// that it has never heard of has no limits and holds nothing.
func (c *Client) Quota(ctx context.Context, _ int, p lustre.Project) (lustre.Quota, error) {
	if err := ctx.Err(); err != nil {
		return lustre.Quota{}, err
	}
	q, err := c.quotactl(&uapi.Quotactl{Command: uapi.GetQuota, Type: uapi.QuotaProject, ID: p.ID})
	if errors.Is(err, errors.ErrUnsupported) {
		if held, ferr := c.program.quota(ctx, c.Mount, p); !errors.Is(ferr, errors.ErrUnsupported) {
			return held, ferr
		}
	}
	if err != nil {
		return lustre.Quota{}, fmt.Errorf("ask %s for the quota of project %d: %w", c.Mount, p.ID, err)
	}
	held := lustre.Quota{Project: p, Limits: q.Limits(), CountsFiles: true, HasSoft: true}
	held.UsedBytes, held.UsedFiles = q.Used()
	if p.ID != 0 { // of number 0, which all are in that are in no project, these are how long others may be over
		held.BytesUntil, held.FilesUntil = q.Until()
	}
	switch {
	case held.HardBytes > 0 || held.SoftBytes > 0:
		if held.Targets, err = c.shares(ctx, p.ID); err != nil {
			return lustre.Quota{}, err
		}
		held.Enforced = enforced(&held)
	case held.HardFiles > 0 || held.SoftFiles > 0:
		if held.Enforced, err = c.enforcesFiles(ctx, p.ID); err != nil {
			return lustre.Quota{}, err
		}
	}
	held.Targets = append(held.Targets, c.inLimitedPools(ctx, p.ID)...)
	return held, nil
}

// inLimitedPools is what a project holds in those pools of OSTs in which it has limits. What
// does not answer is left out, as an OST that does not.
func (c *Client) inLimitedPools(ctx context.Context, id uint32) (limited []lustre.TargetQuota) {
	if c.noPoolQuotas.Load() {
		return nil
	}
	pools, err := c.Pools(ctx)
	if err != nil {
		return nil
	}
	for _, name := range sortedKeys(pools) {
		q, err := c.quotactl(&uapi.Quotactl{Command: uapi.GetPoolQuota, Type: uapi.QuotaProject, ID: id, Pool: name})
		switch {
		case ctx.Err() != nil:
			return limited
		case unknownCommand(err):
			c.noPoolQuotas.Store(true)
			return nil
		case err != nil: // ENOENT: the quota servers know of no such pool
			continue
		}
		l := q.Limits()
		if most := cmp.Or(l.HardBytes, l.SoftBytes); most > 0 {
			used, _ := q.Used()
			limited = append(limited, lustre.TargetQuota{Target: name, Pool: true, UsedBytes: used, GrantedBytes: most})
		}
	}
	return limited
}

// unknownCommand reports whether a client, or a server, does not know what it is asked. Both
// write each time of it into their logs.
func unknownCommand(err error) bool {
	for _, one := range []error{errors.ErrUnsupported, unix.EFAULT, unix.EINVAL} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// enforced is what a client can know of that: an OST that enforces writes only into what it
// was granted, and so a project that holds something there has a grant. Of one that holds
// nothing, nothing says that it would not be held to its limits.
func enforced(q *lustre.Quota) bool {
	used := false
	for _, t := range q.Targets {
		if t.GrantedBytes > 0 {
			return true
		}
		used = used || t.UsedBytes > 0
	}
	return !used
}

// enforcesFiles is enforced for a project that has limits of files only: those are held by
// MDTs, of what each was granted.
func (c *Client) enforcesFiles(ctx context.Context, id uint32) (bool, error) {
	mdts, err := c.targets(ctx, lustre.MDT)
	if err != nil {
		return false, err
	}
	used := false
	for _, mdt := range mdts {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		q, err := c.quotactl(&uapi.Quotactl{Command: uapi.GetQuota, Type: uapi.QuotaProject, ID: id, Target: uapi.QuotaMDT, Index: uint32(mdt.Index)})
		if err != nil {
			continue // one that does not answer
		}
		if q.HardInodes > 0 {
			return true, nil
		}
		used = used || q.UsedInodes > 0
	}
	return !used, nil
}

// shares asks each OST. One that does not answer is left out: what it holds is not known.
func (c *Client) shares(ctx context.Context, id uint32) ([]lustre.TargetQuota, error) {
	count, err := c.countOSTs()
	if err != nil {
		return nil, err
	}
	var shares []lustre.TargetQuota
	for index := range count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q, err := c.quotactl(&uapi.Quotactl{Command: uapi.GetQuota, Type: uapi.QuotaProject, ID: id, Target: uapi.QuotaOST, Index: uint32(index)})
		if err != nil {
			continue
		}
		share := lustre.TargetQuota{Target: q.UUID, GrantedBytes: q.Limits().HardBytes}
		share.UsedBytes, _ = q.Used()
		if share.Target == "" {
			share.Target = fmt.Sprintf("%s-OST%04x_UUID", c.Name, index)
		}
		shares = append(shares, share)
	}
	return shares, nil
}

// SetQuota is lustre.Quotas.
func (c *Client) SetQuota(ctx context.Context, _ int, p lustre.Project, l lustre.Limits) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.setQuota(p.ID, l); err != nil {
		return fmt.Errorf("set the quota of project %d on %s: %w", p.ID, c.Mount, err)
	}
	return nil
}

func (c *Client) setQuota(id uint32, l lustre.Limits) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if id == 0 {
		return errors.New("project 0 is what is in no project, and has no limits")
	}
	get := uapi.Quotactl{Command: uapi.GetQuota, Type: uapi.QuotaProject, ID: id}
	before, err := c.quotactl(&get)
	if err != nil {
		return err
	}
	set := before
	set.Command, set.Type, set.ID = uapi.SetQuota, uapi.QuotaProject, id
	set.Target, set.Index, set.UUID, set.OBDType = uapi.QuotaGeneral, 0, "", ""
	set.SetLimits(l)
	set.Valid = 0 // what is not said to be valid stays as it is
	if set.HardKiB != before.HardKiB || set.SoftKiB != before.SoftKiB {
		set.Valid |= uapi.ValidBlockLimits
	}
	if set.HardInodes != before.HardInodes || set.SoftInodes != before.SoftInodes {
		set.Valid |= uapi.ValidInodeLimits
	}
	if set.Valid == 0 {
		return nil
	}
	if _, err := c.quotactl(&set); err != nil {
		return fmt.Errorf("%w%s", err, quotaAdvice(err))
	}
	after, err := c.quotactl(&get)
	if err != nil {
		return fmt.Errorf("%w: it can not be read again: %w", lustre.ErrNotApplied, err)
	}
	if after.HardKiB != set.HardKiB || after.SoftKiB != set.SoftKiB || after.HardInodes != set.HardInodes || after.SoftInodes != set.SoftInodes {
		return fmt.Errorf("%w: the limits are %+v", lustre.ErrNotApplied, after.Limits())
	}
	return nil
}

func quotaAdvice(err error) string {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return " (only root may set quotas, and on Lustre only where its nodemap says so)"
	}
	return ""
}

// quotactl asks one question at the root: any open directory will do.
func (c *Client) quotactl(q *uapi.Quotactl) (uapi.Quotactl, error) {
	arg, err := q.Encode()
	if err != nil {
		return uapi.Quotactl{}, err
	}
	if _, err := c.k.ioctl(c.root, uapi.IocQuotactl, arg); err != nil {
		return uapi.Quotactl{}, unsupported(err)
	}
	return uapi.DecodeQuotactl(arg)
}
