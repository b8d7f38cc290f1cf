package gpfs

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Cluster is who answers.
type Cluster struct {
	ID      int64
	Name    string
	Version string // of the GUI: "5.2.3-0"
}

// Cluster returns which cluster the GUI speaks for, and its version.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	q := call{method: http.MethodGet, path: []string{"cluster"}}
	o, err := c.do(ctx, q)
	if err != nil {
		return Cluster{}, err
	}
	summary := o.object("cluster").object("clusterSummary")
	found := Cluster{ID: summary.count("clusterId"), Name: summary.text("clusterName")}
	if err := c.done(q, o); err != nil {
		return Cluster{}, err
	}
	q.path = []string{"info"}
	if o, err = c.do(ctx, q); err != nil {
		return Cluster{}, err
	}
	found.Version = o.object("info").text("serverVersion")
	if err := c.done(q, o); err != nil {
		return Cluster{}, err
	}
	return found, nil
}

// Health is the state of one component on a node.
type Health struct {
	Node, Component, Entity, State string // HEALTHY, DEGRADED, FAILED, TIPS, UNKNOWN ...
}

// Health returns the states of a node; ":all:" means every one.
func (c *Client) Health(ctx context.Context, node string) ([]Health, error) {
	if node != ":all:" {
		if err := checkName("node", node); err != nil {
			return nil, err
		}
	}
	var found []Health
	err := c.list(ctx, "states", "", func(o object) {
		found = append(found, Health{
			Node: o.text("reportingNode"), Component: o.text("component"),
			Entity: o.text("entityName"), State: o.text("state"),
		})
	}, "nodes", node, "health", "states")
	return found, err
}

// Owner is whom a file belongs to.
type Owner struct {
	User, Group string
	UID, GID    int64
}

// Owner returns whom a file belongs to; its path is relative to the file system.
func (c *Client) Owner(ctx context.Context, fileSystem, path string) (Owner, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return Owner{}, err
	}
	if err := checkPath("path", "/"+path); err != nil {
		return Owner{}, err
	}
	q := call{method: http.MethodGet, path: []string{"filesystems", fileSystem, "owner", path}}
	o, err := c.do(ctx, q)
	if err != nil {
		return Owner{}, err
	}
	owner := o.object("owner")
	found := Owner{User: owner.text("user"), Group: owner.text("group"), UID: owner.count("uid"), GID: owner.count("gid")}
	if err := c.done(q, o); err != nil {
		return Owner{}, err
	}
	return found, nil
}

// InstallPolicy installs a part of the placement policy of a file system: rules that are
// run when files are created. Those of mmapplypolicy are not installed.
func (c *Client) InstallPolicy(ctx context.Context, fileSystem, partition, rules string, priority int) error {
	if err := checkName("file system", fileSystem); err != nil {
		return err
	}
	if err := checkName("partition", partition); err != nil {
		return err
	}
	return c.change(ctx, call{
		method: http.MethodPut, path: []string{"filesystems", fileSystem, "policies"},
		body: map[string]any{"policy": rules, "partition": partition, "priority": priority},
	})
}

// HasPolicy reports whether a part of the placement policy is installed.
func (c *Client) HasPolicy(ctx context.Context, fileSystem, partition string) (bool, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return false, err
	}
	if err := checkName("partition", partition); err != nil {
		return false, err
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: []string{"filesystems", fileSystem, "partition", partition}})
	return exists(err)
}

// FileSystem is one file system of the cluster.
type FileSystem struct {
	Name       string
	Mount      string // where it is mounted by default, on the cluster that owns it
	BlockBytes int64
	// Copies is how many copies of data a new file has, MaxCopies how many it may have.
	Copies, MaxCopies int
	// FilesetQuotas says that limits of filesets are enforced.
	FilesetQuotas bool
	// FilesetStatfs says that statfs answers with the quota of the fileset (filesetdf).
	FilesetStatfs bool
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
		o.r.fail("filesystems", "is not one file system")
	}
	if err := c.done(q, o); err != nil {
		return FileSystem{}, err
	}
	found := fileSystem(list[0])
	if err := c.done(q, o); err != nil {
		return FileSystem{}, err
	}
	return found, nil
}

// FileSystems returns all of them.
func (c *Client) FileSystems(ctx context.Context) ([]FileSystem, error) {
	var found []FileSystem
	err := c.list(ctx, "filesystems", "", func(o object) { found = append(found, fileSystem(o)) }, "filesystems")
	return found, err
}

func fileSystem(o object) FileSystem {
	replication, quota := o.object("replication"), o.object("quota")
	return FileSystem{
		Name:          o.text("name"),
		Mount:         o.object("mount").text("mountPoint"),
		BlockBytes:    o.object("block").count("blockSize"),
		Copies:        int(min(replication.count("defaultDataReplicas"), 99)),
		MaxCopies:     int(min(replication.count("maxDataReplicas"), 99)),
		FilesetQuotas: strings.Contains(strings.ToLower(quota.text("quotasEnforced")), "fileset"),
		FilesetStatfs: quota.truth("filesetdfEnabled"),
	}
}

// Pool is a storage pool and how full it is, in bytes.
type Pool struct {
	Name                  string
	TotalBytes, FreeBytes int64 // of data
}

// Pools returns the storage pools of a file system.
func (c *Client) Pools(ctx context.Context, fileSystem string) ([]Pool, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return nil, err
	}
	var found []Pool
	err := c.list(ctx, "storagePool", "", func(o object) {
		found = append(found, Pool{Name: o.text("storagePoolName"), TotalBytes: o.kib("totalDataInKB"), FreeBytes: o.kib("freeDataInKB")})
	}, "filesystems", fileSystem, "pools")
	return found, err
}
