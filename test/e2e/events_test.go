package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/s3/s3test"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/feed"
	"datamove.dev/tiering/feed/bucket"
	"datamove.dev/tiering/feed/feedtest"
)

// TestEvents: what a server tells of a bucket keeps a catalog equal to it, whatever is put there, replaced and removed; one that tells nobody says so.
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
		c, err := catalog.Open(filepath.Join(t.TempDir(), "catalog"), catalog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		tree := catalog.Tree{Tier: "bucket"}
		keeper := &feed.Keeper{Catalog: c, Tree: tree, Source: place, Feed: &bucket.Feed{Bucket: place, Window: 50 * time.Millisecond}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = keeper.Run(ctx) }()
		defer func() { stop(); <-ended }()

		local, p := t.TempDir(), user(t, server)
		to := "s3://" + server.Bucket + "/" + o.Prefix
		names := []string{"a", "dir/b", "dir/deep/c d", "dir/deep/e&+%f=", "dir/ü", "dir/" + "\xff\xfe", "last"}
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 12 {
			for _, name := range names {
				at := filepath.Join(local, name)
				switch random.IntN(3) {
				case 0:
					if err := os.RemoveAll(at); err != nil {
						t.Fatal(err)
					}
				default:
					if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(at, []byte(fmt.Sprintf("%s %d", name, round)), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			p.Do(t, 0, "sync", "-q", "--delete", local, to)
			if round%4 == 3 {
				feedtest.Settled(t, c, tree, place)
			}
		}
		if n := keeper.Progress(); n.Events < 30 || n.Scans != 1 {
			t.Errorf("%d events were heard, and it was scanned %d times", n.Events, n.Scans)
		}
	})
}
