package config

import (
	"testing"

	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestPathOf: a location is a path on a machine as the tiers say, or none.
func TestPathOf(t *testing.T) {
	c := &Config{Tiers: map[string]Tier{
		"project": {Path: "/lustre/project"},
		"archive": {S3: &S3{Bucket: "archive", Prefix: "team/"}},
		"whole":   {S3: &S3{Bucket: "whole"}},
	}}
	for _, row := range []struct{ in, path, at string }{
		{"/data/x/", "/data/x", ""},
		{"data", "data", ""},
		{"project:a/b", "/lustre/project/a/b", "/lustre/project/a/b"},
		{"project:", "/lustre/project", "/lustre/project"},
		{"archive:a", "", "s3://archive/team/a"},
		{"archive:", "", "s3://archive/team"},
		{"whole:a", "", "s3://whole/a"},
		{"whole:", "", "s3://whole/"},
		{"lost:a", "", ""},
		{"s3://bucket/a", "", ""},
		{"dataset:imagenet", "", ""},
	} {
		l := must.Get(location.Parse(row.in))(t)
		if got := c.PathOf(l); got != row.path {
			t.Errorf("the path of %s is %q, want %q", row.in, got, row.path)
		}
		if tier, known := c.Tiers[l.Tier]; known && tier.At(l.Path).String() != row.at {
			t.Errorf("%s is %s, want %s", row.in, tier.At(l.Path), row.at)
		}
	}
	if got := c.PathOf(location.Location{Scheme: location.S3, Tier: "project", Bucket: "bucket"}); got != "" {
		t.Errorf("objects have the path %q", got)
	}
}
