package cluster

import (
	"maps"
	"os"
	"path/filepath"

	"datamove.dev/mover/config"
)

// confOf is the configuration of an agent: each node has a scratch of its own.
func (c *cluster) confOf(name string) func() *config.Config {
	own := filepath.Join(c.dir, "nodes", name, "scratch")
	if err := os.MkdirAll(own, 0o755); err != nil {
		c.t.Fatal(err)
	}
	return func() *config.Config {
		conf := *c.conf.Load()
		conf.Tiers = maps.Clone(conf.Tiers)
		scratch := conf.Tiers["scratch"]
		scratch.Path = own
		conf.Tiers["scratch"] = scratch
		return &conf
	}
}
