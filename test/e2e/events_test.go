package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
	"datamove.dev/tiering/catalog/changefeed/feedtest"
	"datamove.dev/tiering/catalog/changefeed/s3events"
)

// TestEvents: what a server tells of a bucket keeps a catalog equal to it, whatever is put there, replaced and removed; one that tells nobody says so.
//
//safety:5 with tiering/catalog/changefeed/s3events TestQueued
func TestEvents(t *testing.T) {
	protocols(t, func(t *testing.T, server *s3test.Server) {
		o := server.Options(t)
		place := s3test.Open(t, o)
		if serverName() != "minio" {
			err := place.Listen(t.Context(), func() {}, func(string) {})
			if !errors.Is(err, mover.ErrUnsupported) {
				t.Errorf("%s: %v", serverName(), err)
			}
			return
		}
		c := must.Get(catalog.Open(filepath.Join(t.TempDir(), "catalog"), catalog.Options{}))(t)
		t.Cleanup(func() {
			must.Tell(t, c.Close())
		})
		tree := catalog.Tree{Tier: "bucket"}
		keeper := &changefeed.Follower{Catalog: c, Tree: tree, Source: place, Feed: &s3events.Feed{Bucket: place, Window: 50 * time.Millisecond}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- keeper.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, mover.ErrUnsupported) {
				t.Errorf("the feed has ended: %v", err)
			}
		}()

		local, p := t.TempDir(), user(t, server)
		to := "s3://" + server.Bucket + "/" + o.Prefix
		names := []string{"a", "dir/b", "dir/deep/c d", "dir/deep/e&+%f=", "dir/ü", "dir/" + "\xff\xfe", "last"}
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 12 {
			for _, name := range names {
				at := filepath.Join(local, name)
				switch random.IntN(3) {
				case 0:
					must.Do(t, os.RemoveAll(at))
				default:
					must.Do(t, os.MkdirAll(filepath.Dir(at), 0o755))
					must.Do(t, os.WriteFile(at, []byte(fmt.Sprintf("%s %d", name, round)), 0o644))
				}
			}
			p.Do(t, 0, "sync", "-q", "--delete", local, to)
			if round%4 == 3 && !settled(t, c, tree, place, ended) {
				return
			}
		}
		if n := keeper.Progress(); n.Events < 30 || n.Scans != 1 {
			t.Errorf("%d events were heard, and it was scanned %d times", n.Events, n.Scans)
		}
	})
}

// settled waits until a catalog is what is there. False is a server that holds back what it has to tell: then the feed has ended, and says so.
func settled(t *testing.T, c *catalog.Catalog, tree catalog.Tree, src catalog.Source, ended chan error) bool {
	t.Helper()
	differs := ""
	for range 600 {
		if differs = feedtest.Difference(t, c, tree, src); differs == "" {
			return true
		}
		select {
		case err := <-ended:
			ended <- err
			if !errors.Is(err, mover.ErrUnsupported) {
				t.Errorf("the feed has ended: %v", err)
			}
			t.Log(err)
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Errorf("after a minute without changes: %s", differs)
	return false
}

// TestGlance: a glance tells of each name what a walk does but for the time, and nothing of what is not there.
func TestGlance(t *testing.T) {
	protocols(t, func(t *testing.T, server *s3test.Server) {
		o := server.Options(t)
		place := s3test.Open(t, o)
		local, p := t.TempDir(), user(t, server)
		for _, name := range []string{"a", "a-1", "a.d/x", "dir/b", "dir-b", "dir/deep/c d", "dir/deep/e&+%f=", "dir/ü", "dir/" + "\xff\xfe"} {
			at := filepath.Join(local, name)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(name), 0o644)))
		}
		must.Do(t, os.Symlink("a", filepath.Join(local, "link")))
		p.Do(t, 0, "copy", "-q", local+"/", "s3://"+server.Bucket+"/"+o.Prefix)
		seen := 0
		for want, err := range place.Walk(t.Context(), mover.WalkOptions{}) {
			must.Do(t, err)
			got, err := place.Glance(t.Context(), want.Name)
			want.Mtime, want.Brief, got.Brief = mover.Time{}, false, false
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q: %+v, %v\nwant %+v", want.Name, got, err, want)
			}
			seen++
		}
		if seen < 12 {
			t.Errorf("only %d names", seen)
		}
		for _, name := range []string{"b", "di", "dir/dee", "a/x", "dir/deep/c"} {
			if e, err := place.Glance(t.Context(), name); !errors.Is(err, mover.ErrNotExist) {
				t.Errorf("%q: %+v, %v", name, e, err)
			}
		}
	})
}
