package engine

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// elsewhere is a place that is at a path of a volume, whatever its name is.
type elsewhere struct {
	mover.Backend
	volume, path string
}

func (e elsewhere) Unwrap() any                      { return e.Backend }
func (e elsewhere) Located() (string, string, error) { return e.volume, e.path, nil }

// TestApart: source, target and backup that are one in the other are refused by whatever names they go, before anything is made.
func TestApart(t *testing.T) {
	path := func(name string) location.Location {
		return location.Location{Scheme: location.POSIX, Path: "/" + name}
	}
	bucket := func(tier, prefix string) location.Location {
		return location.Location{Scheme: location.S3, Bucket: "b", Tier: tier, Prefix: prefix}
	}
	volumes := map[string]elsewhere{ // by location
		"/a": {volume: "disk 1", path: "data"}, "/bound": {volume: "disk 1", path: "data/sub"}, "/other": {volume: "disk 2", path: "data"},
		"/old": {volume: "disk 1", path: "data/sub/old"}, "/up": {volume: "disk 1", path: ""},
		"one b/x": {volume: "h1/b", path: "x"}, "one b/x/sub": {volume: "h1/b", path: "x/sub"}, "two b/x": {volume: "h1/b", path: "x"},
		"two b/x/sub": {volume: "h1/b", path: "x/sub"}, "two b/x/sub/old": {volume: "h1/b", path: "x/sub/old"},
		"two b/y": {volume: "h1/b", path: "y"}, "far b/x": {volume: "h2/b", path: "x"}, "far b/x/sub": {volume: "h2/b", path: "x/sub"},
	}
	key := func(l location.Location) string {
		if l.Scheme == location.S3 {
			return l.Tier + " " + l.Bucket + "/" + l.Prefix
		}
		return l.Path
	}
	for what, row := range map[string]struct {
		r       Request
		refused bool
	}{
		"apart":                      {Request{Source: path("other"), Target: path("a"), Delete: true}, false},
		"a bind mount in the target": {Request{Source: path("bound"), Target: path("a"), Delete: true}, true},
		"a bind mount in the target, not deleted":   {Request{Source: path("bound"), Target: path("a")}, false},
		"a bind mount in the source":                {Request{Source: path("a"), Target: path("bound")}, true},
		"one that is not there yet":                 {Request{Source: path("a"), Target: path("bound/new/er")}, true},
		"the root of the file system":               {Request{Source: path("bound"), Target: path("up"), Delete: true}, true},
		"a backup in the source":                    {Request{Source: path("bound"), Target: path("other"), Backup: "/old"}, true},
		"a backup that is to be made in the source": {Request{Source: path("bound"), Target: path("other"), Backup: "/bound/new"}, true},
		"the source as a backup":                    {Request{Source: path("bound"), Target: path("other"), Backup: "/bound"}, true},
		"a backup above the source":                 {Request{Source: path("bound"), Target: path("other"), Backup: "/a"}, true},
		"a backup beside the source":                {Request{Source: path("old"), Target: path("other"), Backup: "/other/old"}, false},
		"two tiers of one bucket":                   {Request{Source: bucket("one", "x/sub"), Target: bucket("two", "x"), Delete: true}, true},
		"two tiers of one bucket, the same":         {Request{Source: bucket("one", "x"), Target: bucket("two", "x")}, true},
		"two tiers of one bucket, into it":          {Request{Source: bucket("one", "x"), Target: bucket("two", "x/sub")}, true},
		"two hosts of one store":                    {Request{Source: bucket("one", "x/sub"), Target: bucket("far", "x"), Delete: true}, true},
		"a backup in the bucket's source":           {Request{Source: bucket("one", "x/sub"), Target: bucket("two", "y"), Backup: "x/sub/old"}, true},
	} {
		t.Run(what, func(t *testing.T) {
			made := map[string]bool{}
			dirs := map[bool]string{true: t.TempDir(), false: t.TempDir()}
			must.Do(t, os.WriteFile(filepath.Join(dirs[true], "f"), nil, 0o644))
			open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
				at, ok := volumes[key(l)]
				if !ok && !o.Write {
					return nil, mover.ErrNotExist
				}
				if !ok {
					made[key(l)] = true
				}
				at.Backend = must.Get(posix.Open(dirs[at.path == "x/sub"], posix.Options{}))(t) // that is what every host of the store shows
				return at, nil
			}
			row.r.StateDir, row.r.Work, row.r.DryRun = t.TempDir(), Copy, !row.refused
			if row.r.Delete {
				row.r.Work = Sync
			}
			err := first(Plan(t.Context(), row.r, open))
			if row.refused != errors.Is(err, mover.ErrUsage) || !row.refused && err != nil {
				t.Errorf("%v", err)
			}
			if row.refused && len(made) > 0 && row.r.Source.Scheme == location.POSIX {
				t.Errorf("made %v", made)
			}
		})
	}
}

func first[A any](seq iter.Seq2[A, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestMetOnTheWay: a walk that comes by the other side's root, where a file system is mounted below, ends before anything is removed.
func TestMetOnTheWay(t *testing.T) {
	dir := t.TempDir()
	s, d := filepath.Join(dir, "s"), filepath.Join(dir, "d")
	must.Do(t, os.MkdirAll(filepath.Join(s, "x"), 0o755))
	must.Do(t, os.MkdirAll(filepath.Join(d, "gone"), 0o755))
	place := must.Get(posix.Open(d, posix.Options{}))(t)
	defer place.Close()
	root := must.Get(place.Stat(t.Context(), "gone"))(t)
	var names []string
	err := error(nil)
	for e, walkErr := range unmet(place.Walk(t.Context(), mover.WalkOptions{}), &root, "the source lies inside the target") {
		if err = walkErr; err == nil {
			names = append(names, e.Name)
		}
	}
	if !errors.Is(err, mover.ErrUsage) || len(names) > 0 {
		t.Errorf("%v, after %v", err, names)
	}
}
