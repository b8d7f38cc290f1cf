package datasetclient

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Space is what there is for a source where it would be staged.
type Space struct {
	Tier, Path string // where it is, or is to come: the root of that
	There      bool   // it is there already, or on its way
	Bytes      int64  // that it has; 0 is not known
	Room       int64  // for what comes, with what may go for it; below 0 is not known
	MayGo      int64  // what may go for it
}

// Space says whether there is room for a source on a node; without one, on the node that has the most.
func (m *Mover) Space(ctx context.Context, s Source) (x Space, err error) {
	c, err := m.Client(ctx)
	if err != nil {
		return x, err
	}
	tiers, err := c.ListTiers(ctx, &datamovev1.ListTiersRequest{Name: s.Tier})
	if err != nil {
		return x, err
	}
	x = roomOf(tiers.GetTiers(), s.Node)
	name, digest, _ := strings.Cut(strings.TrimPrefix(s.Location, "dataset:"), "@")
	if "dataset:"+name == s.Location || digest != "" {
		err = m.known(ctx, c, name, strings.TrimPrefix(digest, "sha256:"), s.Node, &x)
	}
	return x, err
}

// known adds what is known of a dataset: its size, and whether it is there.
func (m *Mover) known(ctx context.Context, c *api.Client, name, digest, node string, x *Space) error {
	d, err := c.GetDataset(ctx, &datamovev1.GetDatasetRequest{Name: name})
	if errors.Is(err, mover.ErrNotExist) {
		return nil // it may be added
	}
	if err != nil {
		return err
	}
	for _, v := range d.GetVersions() { // the newest is the first
		if digest == "" || v.GetDigest() == digest {
			x.Bytes, digest = v.GetBytes(), v.GetDigest()
			break
		}
	}
	for r, err := range c.Replicas(ctx, &datamovev1.ListReplicasRequest{Dataset: name, Digest: digest}) {
		if err != nil {
			return err
		}
		going := r.GetState() == datamovev1.ReplicaState_REPLICA_STATE_REMOVING
		if r.GetTier() == x.Tier && (node == "" || r.GetNode() == "" || r.GetNode() == node) && !going {
			x.There = true
		}
	}
	return nil
}

// warmth orders the levels of tiers: what is staged goes to the hottest one.
var warmth = map[string]int{"hot": 1, "warm": 2, "cold": 3}

// roomOf is the hottest tier of a node, and how much may come to it; without a node, on the node that has the most.
func roomOf(lines []*datamovev1.Tier, node string) Space {
	room := int64(-1)
	var best *datamovev1.Tier
	for _, line := range lines {
		if line.GetNode() != "" && node != "" && line.GetNode() != node || !strings.HasPrefix(line.GetLocation(), "/") || len(line.GetAgents()) == 0 {
			continue
		}
		switch hotter := cmp.Or(warmth[line.GetLevel()]-warmth[best.GetLevel()], strings.Compare(line.GetName(), best.GetName())); {
		case best == nil || hotter < 0:
			best, room = line, left(line)
		case hotter == 0:
			room = max(room, left(line))
		}
	}
	return Space{Tier: best.GetName(), Path: best.GetLocation(), Room: room, MayGo: mayGo(best)}
}

// mayGo is what may go from a tier for something else: where replicas are evicted, those without a lease.
func mayGo(line *datamovev1.Tier) int64 {
	if line.GetHighPercent() == 0 {
		return 0
	}
	return max(line.GetReplicaBytes()-line.GetLeasedBytes(), 0)
}

// left is how much may come to a tier, with what may go for it; below 0 is not known.
func left(line *datamovev1.Tier) int64 {
	if line.GetTotalBytes() <= 0 {
		return -1
	}
	return max(line.GetFreeBytes()-mover.Kept(line.GetTotalBytes(), int(line.GetKeepFreePercent()))+mayGo(line), 0)
}
