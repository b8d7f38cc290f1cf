package osaccount

import (
	"context"
	"fmt"
)

// UserName returns the name of a uid; "" when it has none.
func (d *Directory) UserName(ctx context.Context, uid uint32) (string, error) {
	u, err := d.user(ctx, fmt.Sprint(uid))
	if err != nil || !u.found || u.uid != uid {
		return "", err
	}
	return u.name, nil
}

// GroupName returns the name of a gid; "" when it has none.
func (d *Directory) GroupName(ctx context.Context, gid uint32) (string, error) {
	if name, ok := d.groups.get(gid); ok {
		return name, nil
	}
	found, err := d.askGroups(ctx, []uint32{gid})
	if err != nil {
		return "", err
	}
	d.groups.put(gid, found[gid], fresh)
	return found[gid], nil
}
