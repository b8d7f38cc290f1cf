package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// maxTargets is how many indices are asked for, and maxHoles how many in a row may be without a
// target. A client's table is longer than its targets are many, and answers EAGAIN for
// those that there are not, as it does for holes between others.
const (
	maxTargets = 1 << 16
	maxHoles   = 128
)

// Targets is lustre.Usage: OSTs, MDTs, then pools.
func (c *Client) Targets(ctx context.Context, _ int) ([]lustre.Target, error) {
	osts, err := c.targets(ctx, lustre.OST)
	if errors.Is(err, errors.ErrUnsupported) {
		if all, ferr := c.program.targets(ctx, c.Mount, c.Name); !errors.Is(ferr, errors.ErrUnsupported) {
			return all, ferr
		}
	}
	if err != nil {
		return nil, err
	}
	mdts, err := c.targets(ctx, lustre.MDT)
	if err != nil {
		return nil, err
	}
	pools, err := c.Pools(ctx)
	if err != nil {
		pools = nil // it is not known: what there is still counts
	}
	sums := inPools(osts, pools) // before osts are copied: it notes their pools
	return slices.Concat(osts, mdts, sums), nil
}

// targets asks one after the other how full it is.
func (c *Client) targets(ctx context.Context, kind lustre.TargetKind) ([]lustre.Target, error) {
	var found []lustre.Target
	var why error
	holes := 0
	for index := 0; index < maxTargets && holes < maxHoles; index++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, err := c.statfs(kind, index)
		switch {
		case err == nil:
			found, holes = append(found, t), 0
		case errors.Is(err, unix.ENODEV): // beyond the table
			return found, nil
		case errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EBADF):
			return nil, fmt.Errorf("ask how full %v %d of %s is: %w", kind, index, c.Mount, unsupported(err))
		case t.Name != "":
			t.Inactive = inactive(err)
			found, holes = append(found, t), 0
		default: // EAGAIN: no target at this index; anything else of a client that is not connected yet
			holes++
			if !errors.Is(err, unix.EAGAIN) {
				why = err
			}
		}
	}
	if len(found) == 0 && why != nil {
		return nil, fmt.Errorf("ask how full the %vs of %s are: %w", kind, c.Mount, why)
	}
	return found, nil
}

func inactive(err error) string {
	if errors.Is(err, unix.ENODATA) {
		return "it is not active"
	}
	return "it does not answer: " + err.Error()
}

// statfs asks one target. Beside an error the name is there when a target has this index:
// a client fills it in before it asks the server.
func (c *Client) statfs(kind lustre.TargetKind, index int) (lustre.Target, error) {
	which := uint32(uapi.StatfsOST)
	if kind == lustre.MDT {
		which = uapi.StatfsMDT
	}
	arg, err := uapi.StatfsRequest(which|uapi.StatfsSoon, uint32(index)).Encode()
	if err != nil {
		return lustre.Target{}, err
	}
	answer, uuid := make([]byte, uapi.SizeStatfs+slack), make([]byte, uapi.SizeUUID+slack)
	_, err = c.k.ioctlAt(c.root, uapi.IocTargetStatfs, arg, pointer{uapi.OffsetBuffer1, answer}, pointer{uapi.OffsetBuffer2, uuid})
	s, bad := uapi.DecodeStatfs(answer)
	t := s.Target(uuid[:uapi.SizeUUID])
	if err != nil {
		t = lustre.Target{Name: t.Name}
	} else {
		err = bad
	}
	t.Kind, t.Index = kind, index
	if errors.Is(err, unix.ENODATA) && t.Name == "" {
		t.Name = fmt.Sprintf("%s-%v%04x_UUID", c.Name, kind, index)
	}
	return t, err
}

// inPools notes at each OST which pools it is in, and sums the pools up.
func inPools(osts []lustre.Target, pools map[string][]int) []lustre.Target {
	var sums []lustre.Target
	for _, name := range sortedKeys(pools) {
		sum := lustre.Target{Kind: lustre.InPool, Name: name}
		for i := range osts {
			if o := &osts[i]; slices.Contains(pools[name], o.Index) {
				o.Pools = append(o.Pools, name)
				sum.TotalBytes += o.TotalBytes
				sum.FreeBytes += o.FreeBytes
				sum.TotalFiles += o.TotalFiles
				sum.FreeFiles += o.FreeFiles
			}
		}
		sums = append(sums, sum)
	}
	return sums
}

// countOSTs is how many OSTs the client knows.
func (c *Client) countOSTs() (int, error) {
	arg := make([]byte, 4) // 0: OSTs. The number of MDTs is wrong: that of its table
	if _, err := c.k.ioctl(c.root, uapi.IocTargetCount, arg); err != nil {
		return 0, unsupported(err)
	}
	return int(min(binary.LittleEndian.Uint32(arg), maxTargets)), nil
}

// Cluster is lustre.Layouts.
func (c *Client) Cluster(ctx context.Context, fd int) (lustre.Cluster, error) {
	all, err := c.Targets(ctx, fd)
	if err != nil {
		return lustre.Cluster{}, err
	}
	cluster := lustre.Cluster{Name: c.Name, Pools: map[string][]int{}}
	for _, t := range all {
		switch t.Kind {
		case lustre.OST:
			cluster.OSTs = append(cluster.OSTs, t)
			for _, pool := range t.Pools {
				cluster.Pools[pool] = append(cluster.Pools[pool], t.Index)
			}
		case lustre.MDT:
			cluster.MDTs = append(cluster.MDTs, t)
		}
	}
	if cluster.Version, err = c.Version(); err == nil {
		if cluster.Can, err = lustre.CapabilitiesOf(cluster.Version); err != nil {
			return cluster, err
		}
	}
	cluster.Default, err = c.fileSystemDefault(ctx)
	return cluster, err
}
