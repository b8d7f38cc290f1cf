package config

import (
	"path/filepath"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// At is what a path below a tier is: a path of a file system, or objects of a bucket.
func (t Tier) At(below string) location.Location {
	if t.S3 == nil {
		return location.OfPath(filepath.Join(t.Path, filepath.FromSlash(below)))
	}
	prefix := strings.Trim(t.S3.Prefix, "/")
	if below != "" {
		prefix = mover.Join(prefix, below)
	}
	return location.Location{Scheme: location.S3, Bucket: t.S3.Bucket, Prefix: prefix}
}

// PathOf is the path of a location on a machine with this configuration. It is "" for objects of a store, for a dataset, and
// below a tier that is not there.
func (c *Config) PathOf(l location.Location) string {
	if l.IsPath() {
		return l.Path
	}
	t := c.Tiers[l.Tier]
	if !l.InTier() || t.Path == "" {
		return ""
	}
	return t.At(l.Path).Path
}
