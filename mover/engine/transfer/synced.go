package transfer

import (
	"context"
	"sync"
)

// unsynced holds the results of what was done outside of Publish: updates, removals,
// directories. They are told when a Sync has brought it to stable storage.
type unsynced struct {
	mu      sync.Mutex
	results []Result // guarded by mu; at most unsyncedMost
}

// done reports what is done, when it is durable too.
func (r *run) done(ctx context.Context, res Result) error {
	if r.atOnce() {
		r.result(res)
		return nil
	}
	u := &r.unsynced
	u.mu.Lock()
	u.results = append(u.results, res)
	full := len(u.results) >= unsyncedMost
	u.mu.Unlock()
	if !full {
		return nil
	}
	return r.sync(ctx)
}

// atOnce says whether nothing has to wait for stable storage at the target: what is
// done is durable, or never will be.
func (r *run) atOnce() bool { return r.to.CommitBytes == 0 && r.to.CommitEvery == 0 }

// sync brings everything to stable storage and tells what waited for that.
func (r *run) sync(ctx context.Context) error {
	u := &r.unsynced
	u.mu.Lock()
	results := u.results
	u.results = nil
	u.mu.Unlock()
	if err := r.target.Sync(ctx); err != nil {
		return err
	}
	for i := range results {
		r.result(results[i])
	}
	return nil
}
