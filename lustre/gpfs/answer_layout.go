package gpfs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// layouts answers with what GPFS has of a layout: the pool and the copies of a file.
type layouts struct{ mounted }

// Layout has a component for each copy, all of them over all disks of the pool.
func (l layouts) Layout(ctx context.Context, fd int) (lustre.Layout, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return lustre.Layout{}, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return lustre.Layout{}, fmt.Errorf("%w: where new files go is decided by the placement policy of the file system", lustre.ErrInherited)
	}
	name, err := pathOf(fd)
	if err != nil {
		return lustre.Layout{}, err
	}
	a, err := l.commands.Attributes(ctx, name)
	if err == nil {
		err = sameAs(fd, name)
	}
	if err != nil {
		return lustre.Layout{}, err
	}
	return a.layout(int64(st.Blksize)), nil //nolint:unconvert // it is an int32 on arm64
}

func (a Attributes) layout(blockBytes int64) lustre.Layout {
	var l lustre.Layout
	for i := range a.Copies {
		c := lustre.Component{
			End: lustre.EOF, Pattern: lustre.RAID0, Flags: lustre.Initialised,
			StripeBytes: blockBytes, StripeCount: lustre.AllTargets, FirstTarget: lustre.AnyTarget, Pool: a.Pool,
		}
		if a.Offline {
			c.Flags |= lustre.Released
		}
		if a.Copies > 1 {
			c.ID = uint32(i+1)<<16 | uint32(i+1)
			l.Mirrored = lustre.ReadOnly
		}
		l.Components = append(l.Components, c)
	}
	if a.Copies > 1 && slices.Contains(a.Flags, "illreplicated") {
		// GPFS does not say which copy is behind: none is vouched for but the first.
		for i := range l.Components[1:] {
			l.Components[i+1].Flags |= lustre.Stale
		}
	}
	return l
}

func (l layouts) SetDefault(context.Context, int, lustre.Layout) error {
	return fmt.Errorf("default layout: %w: where new files go is decided by the placement policy of the whole file system, which its operator installs (mmchpolicy)", errors.ErrUnsupported)
}

// Create makes an empty file and assigns it to a pool, and to a number of copies.
func (l layouts) Create(ctx context.Context, dir int, base string, flags int, mode uint32, wanted lustre.Layout) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return -1, err
	}
	pool, copies, err := placement(wanted, int64(st.Blksize)) //nolint:unconvert // it is an int32 on arm64
	if err != nil {
		return -1, err
	}
	fd, err := unix.Openat(dir, base, flags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil || pool == "" && copies == 0 {
		return fd, err
	}
	if err := l.place(ctx, fd, pool, copies); err != nil {
		return -1, errors.Join(err, unix.Close(fd), unix.Unlinkat(dir, base, 0))
	}
	return fd, nil
}

func (l layouts) place(ctx context.Context, fd int, pool string, copies int) error {
	name, err := pathOf(fd)
	if err != nil {
		return err
	}
	if err := l.commands.place(ctx, name, pool, copies); err != nil {
		if errors.Is(err, ErrRefused) {
			return fmt.Errorf("%w: %w", lustre.ErrNotApplied, err)
		}
		return err
	}
	a, err := l.commands.Attributes(ctx, name)
	if err == nil {
		err = sameAs(fd, name)
	}
	switch {
	case err != nil:
		return err
	case pool != "" && a.Pool != pool, copies != 0 && a.Copies != copies:
		return fmt.Errorf("%w: it is in pool %q with %d copies", lustre.ErrNotApplied, a.Pool, a.Copies)
	}
	return nil
}

// placement is what GPFS can do of a layout: one pool, and one component for each copy.
// A stripe size and count that are not said, or are those that every file has, are no wish.
func placement(l lustre.Layout, blockBytes int64) (pool string, copies int, err error) {
	if l.IsZero() {
		return "", 0, nil
	}
	unable := func(what string) error {
		return fmt.Errorf("layout: %w: GPFS has %s", errors.ErrUnsupported, what)
	}
	if l.Foreign != nil || len(l.Opaque) > 0 || len(l.Components) == 0 {
		return "", 0, unable("pools and copies, and no layout of another kind")
	}
	for i := range l.Components {
		c := &l.Components[i]
		switch {
		case c.Start != 0 || c.End != lustre.EOF:
			return "", 0, unable("one pool for a whole file, and no components")
		case c.Pattern != 0 && c.Pattern != lustre.RAID0:
			return "", 0, unable("no pattern " + c.Pattern.String())
		case c.StripeCount > 0, len(c.Objects) > 0:
			return "", 0, unable("all disks of a pool for every file: a stripe count can not be chosen")
		case c.StripeBytes != 0 && c.StripeBytes != blockBytes:
			return "", 0, unable(fmt.Sprintf("one block size for a file system, here %d: a stripe size can not be chosen", blockBytes))
		case c.Pool != l.Components[0].Pool:
			return "", 0, unable("one pool for all copies")
		}
	}
	if pool = l.Components[0].Pool; pool != "" {
		err = checkName("pool", pool)
	}
	if copies = len(l.Components); copies > 3 {
		return "", 0, unable("3 copies at most")
	}
	if copies == 1 {
		copies = 0 // one component is a file that says nothing of copies
	}
	return pool, copies, err
}

// Cluster has the pools; there are no OSTs to choose from.
func (l layouts) Cluster(ctx context.Context, fd int) (lustre.Cluster, error) {
	targets, err := usage(l).Targets(ctx, fd)
	if err != nil {
		return lustre.Cluster{}, err
	}
	c := lustre.Cluster{Name: l.name, Pools: map[string][]int{}}
	for _, t := range targets {
		c.Pools[t.Name] = nil
	}
	return c, nil
}

// usage answers with the pools.
type usage struct{ mounted }

// Targets returns the storage pools that files can be in or, without a URL or commands to ask, what statfs says of all.
func (u usage) Targets(ctx context.Context, fd int) ([]lustre.Target, error) {
	if u.asked == nil {
		all, err := capacity(fd)
		if err != nil {
			return nil, err
		}
		all.Name = u.name
		return []lustre.Target{all}, nil
	}
	pools, err := u.asked.Pools(ctx, u.name)
	if err != nil {
		return nil, err
	}
	var targets []lustre.Target
	for _, p := range pools {
		if p.TotalBytes > 0 { // others are for metadata only
			targets = append(targets, lustre.Target{Kind: lustre.InPool, Name: p.Name, TotalBytes: p.TotalBytes, FreeBytes: p.FreeBytes})
		}
	}
	return targets, nil
}
