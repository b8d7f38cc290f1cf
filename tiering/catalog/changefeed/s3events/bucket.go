// Package s3events is the feed of a bucket on a server that tells of changes while it is listened to: MinIO. It has no memory: a Run begins by listening, and then says All. It
// ends with its connection, because changes before the next connection are not known. Buckets of AWS tell queues: [Queued] is the feed of those.
package s3events

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"datamove.dev/tiering/catalog/changefeed"
)

// Listener is a bucket: package s3 has one.
type Listener interface {
	// Listen tells of names that something happened to, until ctx or the connection ends. begun is called when it is heard what happens.
	Listen(ctx context.Context, begun func(), tell func(name string)) error
}

// Feed is the feed of a bucket.
type Feed struct {
	Bucket Listener
	Window time.Duration // how long names are gathered before they are handed over; 0 means 1 s
}

// Run implements changefeed.Feed.
func (f *Feed) Run(ctx context.Context, _ changefeed.Marks, take changefeed.Take) error {
	w := &changefeed.Window{Wait: f.Window}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.Hand(gctx, take) })
	g.Go(func() error {
		return f.Bucket.Listen(gctx, func() { w.Lose("what happened before this was not heard") }, w.Add)
	})
	return cmp.Or(g.Wait(), context.Cause(ctx))
}
