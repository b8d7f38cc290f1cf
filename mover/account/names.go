package account

import (
	"context"
	"fmt"
)

// UserName returns the name of a uid; "" when it has none, or nobody answers.
func (d *Directory) UserName(ctx context.Context, uid uint32) string {
	u, err := d.user(ctx, fmt.Sprint(uid))
	if err != nil || !u.found || u.uid != uid {
		return ""
	}
	return u.name
}

// GroupName returns the name of a gid; "" when it has none, or nobody answers.
func (d *Directory) GroupName(ctx context.Context, gid uint32) string {
	if name, ok := d.groups.get(gid); ok {
		return name
	}
	found, err := d.askGroups(ctx, []uint32{gid})
	if err != nil {
		return ""
	}
	d.groups.put(gid, found[gid], fresh)
	return found[gid]
}
