package gpfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
)

// Fileset is a part of a file system with a quota of its own: a project.
type Fileset struct {
	Name     string
	ID       uint32
	Junction string // where it is linked; "" while it is not
	// RootInode is the inode of its root directory, which stat shows at the junction; 0 while
	// it is not linked.
	RootInode uint64
	// InodeSpace is where its inodes come from. It is shared by one independent fileset and
	// the dependent ones that were made in it.
	InodeSpace  int64
	Independent bool
}

// NewFileset is what a fileset is made with. It is a dependent one. An independent one has
// room for 100,000 files only, unless an administrator takes the rest from all others, and there can
// be fewer of them.
type NewFileset struct {
	Name     string
	Within   string // the independent fileset that it is inside, and shares the inodes of
	Junction string // where it is linked; without one the GUI would choose a path
	Mode     uint32 // of its root directory
}

func (n NewFileset) check() error {
	if n.Mode > 0o7777 {
		return fmt.Errorf("fileset %q: %w: its mode", n.Name, ErrName)
	}
	return errors.Join(checkName("fileset", n.Name), checkName("fileset", n.Within), checkPath("junction", n.Junction))
}

// Filesets returns all filesets of a file system.
func (c *Client) Filesets(ctx context.Context, fileSystem string) ([]Fileset, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return nil, err
	}
	var found []Fileset
	err := c.list(ctx, "filesets", "", func(o object) {
		found = append(found, readFileset(o.text("filesetName"), o.object("config")))
	}, "filesystems", fileSystem, "filesets")
	return found, err
}

// Fileset returns one; fs.ErrNotExist when there is none of that name.
func (c *Client) Fileset(ctx context.Context, fileSystem, name string) (Fileset, error) {
	q, err := filesetCall(http.MethodGet, fileSystem, name)
	if err != nil {
		return Fileset{}, err
	}
	q.query = url.Values{"fields": {":all:"}}
	o, err := c.do(ctx, q)
	if err != nil {
		return Fileset{}, err
	}
	list := o.objects("filesets")
	if err := c.done(q, o); err != nil {
		return Fileset{}, err
	}
	if len(list) == 0 {
		return Fileset{}, c.failed(q, 0, "", fs.ErrNotExist)
	}
	found := readFileset(list[0].text("filesetName"), list[0].object("config"))
	if found.Name != name {
		list[0].fail("filesetName", fmt.Sprintf("is %q, and not what was asked for", cut(found.Name)))
	}
	if err := c.done(q, o); err != nil {
		return Fileset{}, err
	}
	return found, nil
}

// readFileset reads what REST and mmlsfileset say in the same words. Of a fileset that is not
// linked, the path is "--", empty or missing, and the inode is of no use.
func readFileset(name string, r record) Fileset {
	f := Fileset{Name: name, ID: idOf(r, "id"), InodeSpace: count(r, "inodeSpace"), Independent: r.truth("isInodeSpaceOwner")}
	if r.text("status") == "Linked" {
		f.Junction, f.RootInode = r.text("path"), uint64(count(r, "rootInode"))
	}
	return f
}

func filesetCall(method, fileSystem, name string, more ...string) (call, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return call{}, err
	}
	if err := checkName("fileset", name); err != nil {
		return call{}, err
	}
	return call{method: method, path: append([]string{"filesystems", fileSystem, "filesets", name}, more...)}, nil
}

// CreateFileset makes a fileset; fs.ErrExist when there is one of that name.
func (c *Client) CreateFileset(ctx context.Context, fileSystem string, n NewFileset) error {
	if err := errors.Join(checkName("file system", fileSystem), n.check()); err != nil {
		return err
	}
	return c.change(ctx, call{
		method: http.MethodPost, path: []string{"filesystems", fileSystem, "filesets"},
		body: map[string]any{
			"filesetName": n.Name, "inodeSpace": n.Within, "path": n.Junction,
			"owner": "0:0", "permissions": strconv.FormatUint(uint64(n.Mode), 8),
		},
	})
}

// LinkFileset makes a fileset visible at a junction, a path that is not there yet.
func (c *Client) LinkFileset(ctx context.Context, fileSystem, name, junction string) error {
	q, err := filesetCall(http.MethodPost, fileSystem, name, "link")
	if err := errors.Join(err, checkPath("junction", junction)); err != nil {
		return err
	}
	q.body = map[string]any{"path": junction}
	return c.change(ctx, q)
}

// UnlinkFileset takes a fileset out of the tree. force does it while files of it are open.
func (c *Client) UnlinkFileset(ctx context.Context, fileSystem, name string, force bool) error {
	q, err := filesetCall(http.MethodDelete, fileSystem, name, "link")
	if err != nil {
		return err
	}
	if force {
		q.query = url.Values{"force": {"True"}}
	}
	return c.change(ctx, q)
}

// DeleteFileset deletes an unlinked fileset, with everything in it if its page in the
// documentation is understood rightly: it has a parameter "safe" against that, which is
// false where it is not said. mmdelfileset -f does so.
func (c *Client) DeleteFileset(ctx context.Context, fileSystem, name string) error {
	q, err := filesetCall(http.MethodDelete, fileSystem, name)
	if err != nil {
		return err
	}
	return c.change(ctx, q)
}
