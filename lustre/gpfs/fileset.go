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
	Name       string
	ID         uint32
	Junction   string // where it is linked; "" while it is not
	InodeSpace int64  // 0 is that of the root fileset: a dependent fileset
	// RootInode is the inode of its root directory, which stat shows at the junction; 0 while
	// it is not linked.
	RootInode uint64
}

// NewFileset is what a fileset is made with.
type NewFileset struct {
	Name     string
	Junction string // where it is linked; "" leaves it unlinked
	// Independent gives it inodes of its own, which snapshots and a limit of files need.
	Independent bool
	MaxFiles    int64 // inodes of an independent one; 0 is what GPFS gives
	UID, GID    int   // of its root directory; both 0 is root
	Mode        uint32
	Comment     string
}

func (n NewFileset) check() error {
	if n.Junction != "" {
		if err := checkPath("junction", n.Junction); err != nil {
			return err
		}
	}
	if n.UID < 0 || n.GID < 0 || n.MaxFiles < 0 || n.Mode > 0o7777 || len(n.Comment) > 256 {
		return fmt.Errorf("fileset %q: %w: its owner, mode, limit of files or comment", n.Name, ErrName)
	}
	return checkName("fileset", n.Name)
}

// Filesets returns all filesets of a file system.
func (c *Client) Filesets(ctx context.Context, fileSystem string) ([]Fileset, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return nil, err
	}
	var found []Fileset
	err := c.list(ctx, "filesets", "", func(o object) { found = append(found, fileset(o)) }, "filesystems", fileSystem, "filesets")
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
	found := fileset(list[0])
	if o.r.err == nil && found.Name != name {
		o.r.fail("filesets[0].filesetName", fmt.Sprintf("is %q, and not what was asked for", cut(found.Name)))
	}
	if err := c.done(q, o); err != nil {
		return Fileset{}, err
	}
	return found, nil
}

func fileset(o object) Fileset {
	config := o.object("config")
	f := Fileset{Name: o.text("filesetName"), Junction: config.text("path"), InodeSpace: config.count("inodeSpace")}
	id := config.count("id")
	if id > 1<<32-1 {
		config.r.fail(config.at("id"), "is larger than 2^32")
	}
	f.ID = uint32(id)
	if config.text("status") != "Linked" {
		f.Junction = ""
		return f
	}
	f.RootInode = uint64(config.count("rootInode"))
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
	body := map[string]any{"filesetName": n.Name, "owner": fmt.Sprintf("%d:%d", n.UID, n.GID)}
	if n.Independent {
		body["inodeSpace"] = "new"
	} else {
		body["inodeSpace"] = "root"
	}
	for name, value := range map[string]string{
		"path": n.Junction, "comment": n.Comment,
		"permissions":  zeroless(strconv.FormatUint(uint64(n.Mode), 8)),
		"maxNumInodes": zeroless(strconv.FormatInt(n.MaxFiles, 10)),
	} {
		if value != "" {
			body[name] = value
		}
	}
	return c.change(ctx, call{method: http.MethodPost, path: []string{"filesystems", fileSystem, "filesets"}, body: body})
}

func zeroless(s string) string {
	if s == "0" {
		return ""
	}
	return s
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

// DeleteFileset deletes an unlinked fileset. What the GUI does with one that has files, it
// decides: its API does not say.
func (c *Client) DeleteFileset(ctx context.Context, fileSystem, name string) error {
	q, err := filesetCall(http.MethodDelete, fileSystem, name)
	if err != nil {
		return err
	}
	return c.change(ctx, q)
}

// exists turns the answer to a question for one thing into whether it is there.
func exists(err error) (bool, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
