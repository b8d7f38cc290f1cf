package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/tiering/catalog"
)

// openCatalog opens what is known of the tiers. It can be made again, so that without it the service does all else.
func (h *host) openCatalog() (*catalog.Catalog, error) {
	c, err := catalog.Open(filepath.Join(h.at.data, "catalog"), catalog.Options{Logger: h.log})
	if errors.Is(err, mover.ErrFull) {
		h.log.Error("there is no room for the catalog: find, usage and policies are refused until the service begins anew", "err", err)
		return nil, nil
	}
	return c, err
}

// people are the names of accounts on this node.
type people struct{ of *osaccount.Directory }

// nameTime is how long a name may take to find.
const nameTime = 5 * time.Second

// User implements policy.People.
func (p people) User(uid uint32) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nameTime)
	defer cancel()
	return p.of.UserName(ctx, uid)
}

// Group implements policy.People.
func (p people) Group(gid uint32) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nameTime)
	defer cancel()
	return p.of.GroupName(ctx, gid)
}
