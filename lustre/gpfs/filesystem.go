package gpfs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// FileSystem is one file system of the cluster.
type FileSystem struct {
	Mount         string // where it is mounted by default, on the cluster that owns it
	FilesetQuotas bool   // limits of filesets are enforced
}

// FileSystem returns one file system.
func (c *Client) FileSystem(ctx context.Context, name string) (FileSystem, error) {
	if err := checkName("file system", name); err != nil {
		return FileSystem{}, err
	}
	q := call{method: http.MethodGet, path: []string{"filesystems", name}, query: url.Values{"fields": {":all:"}}}
	o, err := c.do(ctx, q)
	if err != nil {
		return FileSystem{}, err
	}
	list := o.objects("filesystems")
	if o.r.err == nil && len(list) != 1 {
		o.fail("filesystems", "is not one file system")
	}
	if err := c.done(q, o); err != nil {
		return FileSystem{}, err
	}
	if told := list[0].text("name"); told != name {
		list[0].fail("name", fmt.Sprintf("is %q, and not what was asked for", cut(told)))
	}
	found := FileSystem{
		Mount:         list[0].object("mount").text("mountPoint"),
		FilesetQuotas: holdsFilesets(list[0].object("quota").text("quotasEnforced")),
	}
	if err := c.done(q, o); err != nil {
		return FileSystem{}, err
	}
	return found, nil
}

// holdsFilesets reads "user;group;fileset", which both ways say alike.
func holdsFilesets(enforced string) bool {
	return strings.Contains(strings.ToLower(enforced), "fileset")
}

// Pool is a storage pool and how full it is, in bytes.
type Pool struct {
	Name                  string
	TotalBytes, FreeBytes int64 // of data; both 0 in a pool of metadata alone
}

// Pools returns the storage pools of a file system.
func (c *Client) Pools(ctx context.Context, fileSystem string) ([]Pool, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return nil, err
	}
	var found []Pool
	err := c.list(ctx, "storagePool", "", func(o object) {
		p := Pool{Name: o.text("storagePoolName")}
		// A pool of metadata alone may have no word of data; one that says nothing at all is a mistake.
		if o.has("totalDataInKB") || o.has("freeDataInKB") || !o.has("totalMetaInKB") {
			p.TotalBytes, p.FreeBytes = kib(o, "totalDataInKB"), kib(o, "freeDataInKB")
		}
		found = append(found, p)
	}, "filesystems", fileSystem, "pools")
	return found, err
}
