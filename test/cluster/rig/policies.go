package rig

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/catalogserver"
	"datamove.dev/tiering/dataset/datasetserver"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/policyserver"
)

// Policies are those of the service from now on, in the text of their files. Options.Catalog is needed for them.
func (c *Cluster) Policies(text string) {
	c.t.Helper()
	programs := must.Get(policy.Read("policies.yaml", []byte(text)))(c.t)
	c.policies.Store(&programs)
}

// programs are the policies of this moment.
func (c *Cluster) programs() []*policy.Program {
	if p := c.policies.Load(); p != nil {
		return *p
	}
	return nil
}

// servePolicies adds the catalog and the policies to a coordinator that begins.
func (c *Cluster) servePolicies(s *coordinator.Service, datasets *datasetserver.Server, base agentv1.LinkServiceServer, log *slog.Logger) agentv1.LinkServiceServer {
	c.t.Helper()
	var err error
	if c.known, err = catalog.Open(filepath.Join(c.data(), "catalog"), catalog.Options{}); err != nil {
		c.t.Fatal(err)
	}
	files := catalogserver.New(catalogserver.Options{
		Coordinator: s, Datasets: datasets, Node: "n1", Ledger: c.ledger, Config: c.Conf.Load, Rules: c.rules, Logger: log, Now: c.wall, Catalog: c.known,
	})
	policies := policyserver.New(policyserver.Options{
		Coordinator: s, Datasets: datasets, Server: files, Ledger: c.ledger, Config: c.Conf.Load, Rules: c.rules, Logger: log, Now: c.wall, Data: c.data(), Catalog: c.known,
		Policies: c.programs,
	})
	files.Register(c.server)
	policies.Register(c.server)
	return policies.Link(files.Link(base))
}

// Checkpoints are those that the coordinator knows of, while it is up.
func (c *Cluster) Checkpoints() (all []*pb.Checkpoint) {
	c.t.Helper()
	must.Do(c.t, c.ledger.View(func(tx *state.Tx) (err error) {
		all, err = state.Collect(state.Checkpoints.All(tx, state.Range{}))
		return err
	}))
	return all
}

// closeCatalog closes the catalog, where there is one.
func (c *Cluster) closeCatalog() error {
	if c.known == nil {
		return nil
	}
	known := c.known
	c.known = nil
	return known.Close()
}

// Exists reports whether there is something at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
