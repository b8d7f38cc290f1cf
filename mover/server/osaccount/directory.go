package osaccount

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"datamove.dev/mover"
)

// Directory finds accounts. New makes one.
type Directory struct {
	nss      nss
	users    cache[string, user]     // by name or uid
	members  cache[string, []uint32] // groups by name of the account
	groups   cache[uint32, string]   // names by gid; "" has none
	nameless cache[uint32, Account]  // of uids that called on this node
}

const (
	fresh    = time.Minute    // an answer of NSS
	visit    = 24 * time.Hour // the groups of a uid without a name
	capacity = 4096           // of each cache
)

// New returns a directory of this node's accounts.
func New() *Directory {
	return &Directory{nss: findTools()}
}

// In returns a directory of the accounts that the files passwd and group of dir have; nothing else is asked.
func In(dir string) *Directory {
	return &Directory{nss: nss{files: files(dir), slots: make(chan struct{}, tools)}}
}

// Peer returns the account at the other end of conn, as the kernel saw it when that
// process connected.
func (d *Directory) Peer(ctx context.Context, conn *net.UnixConn) (Account, error) {
	a, err := peer(conn)
	if err != nil {
		return Account{}, &mover.Error{Op: "identify", Location: "caller", Err: err}
	}
	u, err := d.user(ctx, fmt.Sprint(a.UID))
	if err != nil {
		return Account{}, err
	}
	if u.found && u.uid == a.UID {
		a.Name = u.name
	}
	if a.GroupNames, err = d.groupNames(ctx, a); err != nil {
		return Account{}, err
	}
	if a.Name == "" {
		d.nameless.put(a.UID, a, visit)
	}
	return a, nil
}

// Lookup returns the account of that name on this node, for work that a user of that
// name and uid asked for elsewhere. It is of kind [mover.ErrPermission]
// when there is no such account, or it is another uid here. Without a name it is
// the account with which that uid last called on this node.
func (d *Directory) Lookup(ctx context.Context, name string, uid uint32) (Account, error) {
	if name == "" {
		return d.numbered(uid)
	}
	if !valid(name) {
		return Account{}, denied("%q can not be the name of an account", name)
	}
	u, err := d.user(ctx, name)
	switch {
	case err != nil:
		return Account{}, err
	case !u.found || u.name != name:
		return Account{}, denied("%s has no account on this node; add it, or use a node that has it", mover.Printable(name))
	case u.uid != uid:
		return Account{}, denied("%s is uid %d on this node and uid %d where it was asked: files would go to another account; give the nodes the same accounts",
			mover.Printable(name), u.uid, uid)
	}
	a := Account{UID: uid, GID: u.gid, Name: name}
	if a.Groups, err = d.groupsOf(ctx, name); err != nil {
		return Account{}, err
	}
	a.GroupNames, err = d.groupNames(ctx, a)
	return a, err
}

// Named returns the account of a name alone, as a certificate has it.
func (d *Directory) Named(ctx context.Context, name string) (Account, error) {
	if !valid(name) {
		return Account{}, denied("%q can not be the name of an account", name)
	}
	u, err := d.user(ctx, name)
	if err != nil {
		return Account{}, err
	}
	return d.Lookup(ctx, name, u.uid)
}

// Numbered returns the account of a uid alone, which has to have a name here.
func (d *Directory) Numbered(ctx context.Context, uid uint32) (Account, error) {
	u, err := d.user(ctx, fmt.Sprint(uid))
	switch {
	case err != nil:
		return Account{}, err
	case !u.found || u.uid != uid:
		return Account{}, denied("uid %d has no account on this node", uid)
	}
	return d.Lookup(ctx, u.name, uid)
}

// Unseen is a uid without a name that has not called on this node lately. Once it calls, its account is known.
type Unseen uint32

func (u Unseen) Error() string {
	return denied("uid %d has no name, so its groups are known only where it called, and for %d hours: ask again, on this node", uint32(u), visit/time.Hour).Error()
}

func (u Unseen) Unwrap() error { return mover.ErrPermission }

// visitor returns the account of a uid without a name that called on this node.
func (d *Directory) numbered(uid uint32) (Account, error) {
	a, ok := d.nameless.get(uid)
	if !ok {
		return Account{}, Unseen(uid)
	}
	a.Groups, a.GroupNames = slices.Clone(a.Groups), slices.Clone(a.GroupNames)
	return a, nil
}

// user asks for a name or a uid.
func (d *Directory) user(ctx context.Context, key string) (user, error) {
	return through(ctx, d.nss, &d.users, key, func() (user, error) { return d.nss.user(ctx, key) })
}

func (d *Directory) groupsOf(ctx context.Context, name string) ([]uint32, error) {
	gids, err := through(ctx, d.nss, &d.members, name, func() ([]uint32, error) { return d.nss.groupsOf(ctx, name) })
	return slices.Clone(gids), err
}

// through answers from the cache, or else asks, few at a time.
func through[K comparable, V any](ctx context.Context, n nss, c *cache[K, V], key K, ask func() (V, error)) (V, error) {
	if v, ok := c.get(key); ok {
		return v, nil
	}
	var none V
	leave, err := n.enter(ctx)
	if err != nil {
		return none, err
	}
	defer leave()
	if v, ok := c.get(key); ok { // another call has asked meanwhile
		return v, nil
	}
	v, err := ask()
	if err != nil {
		return none, err
	}
	c.put(key, v, fresh)
	return v, nil
}

// groupNames returns the names of the account's groups. One without a name is left out.
func (d *Directory) groupNames(ctx context.Context, a Account) ([]string, error) {
	names, unknown := map[string]bool{}, []uint32(nil)
	for _, gid := range slices.Compact(slices.Sorted(slices.Values(append([]uint32{a.GID}, a.Groups...)))) {
		if name, ok := d.groups.get(gid); !ok {
			unknown = append(unknown, gid)
		} else if name != "" {
			names[name] = true
		}
	}
	for some := range slices.Chunk(unknown, 200) {
		found, err := d.askGroups(ctx, some)
		if err != nil {
			return nil, err
		}
		for _, gid := range some {
			d.groups.put(gid, found[gid], fresh)
			if found[gid] != "" {
				names[found[gid]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

func (d *Directory) askGroups(ctx context.Context, gids []uint32) (map[uint32]string, error) {
	leave, err := d.nss.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return d.nss.groupNames(ctx, gids)
}
