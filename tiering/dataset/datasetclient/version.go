package datasetclient

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Elsewhere is where a holder that begins with a prefix has something, and renews its lease, on another node than that of the Mover; "" is nowhere. What is on a tier
// of all nodes any of them may have: that of the holder itself does not count.
func (m *Mover) Elsewhere(ctx context.Context, prefix, holder string) (where string, err error) {
	c, err := m.Client(ctx)
	if err != nil {
		return "", err
	}
	for l, err := range own(ctx, c, &datamovev1.ListLeasesRequest{}) {
		if err != nil {
			return "", err
		}
		renewed := time.Until(l.GetExpireTime().AsTime()) > m.ttl()-2*m.renewal()
		if renewed && strings.HasPrefix(l.GetHolder(), prefix) && l.GetHolder() != holder && l.GetNode() != m.Node {
			return cmp.Or(l.GetNode(), "tier "+l.GetTier()), nil
		}
	}
	return "", nil
}

// Newest is the digest of the newest version of a dataset.
func (m *Mover) Newest(ctx context.Context, dataset string) (digest string, err error) {
	c, err := m.Client(ctx)
	if err != nil {
		return "", err
	}
	d, err := c.GetDataset(ctx, &datamovev1.GetDatasetRequest{Name: dataset})
	if err != nil {
		return "", err
	}
	for _, v := range d.GetVersions() { // the newest is the first
		return v.GetDigest(), nil
	}
	return "", fmt.Errorf("%w: dataset %s has no version yet; datamove dataset add makes one", mover.ErrNotExist, mover.Printable(dataset))
}

// Version is the digest of a dataset that holders which begin with a prefix have on any node, of the account that asks; "" is none.
func (m *Mover) Version(ctx context.Context, dataset, prefix string) (digest string, err error) {
	c, err := m.Client(ctx)
	if err != nil {
		return "", err
	}
	for l, err := range own(ctx, c, &datamovev1.ListLeasesRequest{Dataset: dataset}) {
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(l.GetHolder(), prefix) {
			return l.GetDigest(), nil
		}
	}
	return "", nil
}
