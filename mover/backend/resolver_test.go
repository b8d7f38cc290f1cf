package backend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// Where the file system of a tier is not mounted, what is at its path is another one: nothing is written there, and nothing made.
//
//safety:4 a tier that has to be on one kind of file system and is on the disk below its mount point: it is neither read nor written nor announced. A tier without `kind` is taken as it is
func TestWhereATierIsNotMounted(t *testing.T) {
	dir := t.TempDir()
	here := must.Get(fstype.KindAt(dir))(t)
	other := "lustre"
	for _, row := range []struct {
		what string
		tier config.Tier
		path string
		want error
	}{
		{"any kind", config.Tier{Path: dir}, "a/b", nil},
		{"the kind that it has to be", config.Tier{Path: dir, Kind: here}, "c/d", nil},
		{"another kind", config.Tier{Path: dir, Kind: other}, "e/f", mover.ErrUnreachable},
		{"the tier itself", config.Tier{Path: dir, Kind: other}, "", mover.ErrUnreachable},
		{"nothing is there", config.Tier{Path: filepath.Join(dir, "g"), Kind: here}, "h", mover.ErrUnreachable},
	} {
		s := Resolver{Tiers: map[string]config.Tier{"project": row.tier, "outer": {Path: "/"}}}
		l, ok := s.Resolve(location.Location{Scheme: location.InTier, Tier: "project", Path: row.path})
		if !ok {
			t.Fatal(row.what)
		}
		for _, write := range []bool{true, false} {
			p, err := s.Open(t.Context(), l, engine.OpenOptions{Write: write, StateDir: t.TempDir()})
			if !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
				t.Errorf("%s: %v", row.what, err)
			}
			if err == nil {
				p.Close()
			}
		}
	}
	for _, s := range []Resolver{
		{Mounts: map[string]string{dir: other}},
		{Tiers: map[string]config.Tier{"outer": {Path: dir, Kind: other}, "inner": {Path: dir + "/e"}}},
	} {
		_, err := s.Open(t.Context(), location.Location{Scheme: location.POSIX, Path: dir + "/e/f"}, engine.OpenOptions{Write: true})
		if !errors.Is(err, mover.ErrUnreachable) {
			t.Errorf("a path in %+v: %v", s, err)
		}
	}
	for _, made := range []string{"e", "g"} {
		if _, err := os.Lstat(filepath.Join(dir, made)); err == nil {
			t.Errorf("%s was made", made)
		}
	}
}

// The keys that a site was given come first; when a store does not take them any more, it asks for others.
func TestKeysAreAskedForAgain(t *testing.T) {
	lines := func(n string) string { return "AWS_ACCESS_KEY_ID=a" + n + "\nAWS_SECRET_ACCESS_KEY=s\n" }
	asked := ""
	s := Resolver{
		Tiers: map[string]config.Tier{"cold": {S3: &config.S3{Bucket: "abc"}}, "own": {S3: &config.S3{Bucket: "abc", Credentials: "env"}}},
		Keys:  map[string]string{"cold": lines("1")},
		Renew: func(_ context.Context, tier string) (string, error) {
			asked += tier
			return lines("2"), nil
		},
	}
	o, err := s.Bucket(location.Location{Scheme: location.S3, Tier: "cold", Bucket: "abc"})
	if err != nil || o.Renew == nil || o.Tier != "cold" {
		t.Fatalf("tier %q, %v", o.Tier, err)
	}
	for i, want := range []string{"a1", "a2", "a2"} {
		if k, err := o.Renew(t.Context()); err != nil || k.AccessKey != want || string(k.SecretKey) != "s" {
			t.Errorf("%d: %v, %v", i, k, err)
		}
	}
	if asked != "coldcold" {
		t.Errorf("asked for %q", asked)
	}
	if o, err = s.Bucket(location.Location{Scheme: location.S3, Tier: "own", Bucket: "abc"}); err != nil || o.Renew != nil {
		t.Errorf("a tier whose keys it was not given: %v", err)
	}
}
