package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// foreign is a store that has objects, too, that no name leads to, as package s3 tells of them. Of the first level only.
type foreign struct {
	mover.Backend
	anyKey bool

	mu    sync.Mutex
	sizes map[string]int64 // by key; guarded by mu
}

func (f *foreign) Capabilities() mover.Capabilities {
	t := f.Backend.Capabilities()
	t.AnyKey = f.anyKey
	return t
}

func (f *foreign) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		f.mu.Lock()
		sizes := maps.Clone(f.sizes)
		f.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(sizes)) {
			e := mover.Entry{Name: "\x01" + strings.ReplaceAll(key, "/", "%2F"), Kind: mover.File, Key: key, Size: sizes[key]}
			if !o.Behind(e.Name, e.Kind) || o.Skip != nil && o.Skip(key, 0) {
				continue
			}
			if !yield(e, &mover.Error{Op: "walk", Location: "s3://store", Name: key, Err: fmt.Errorf("%w: it names no file", mover.ErrUnsupported)}) {
				return
			}
		}
		for e, err := range f.Backend.Walk(ctx, o) {
			if !yield(e, err) {
				return
			}
		}
	}
}

func (f *foreign) Remove(ctx context.Context, e mover.Entry, by mover.WriterID) error {
	if e.Key == "" {
		return f.Backend.Remove(ctx, e, by)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if size, there := f.sizes[e.Key]; !there || size != e.Size {
		return mover.ErrChanged
	}
	delete(f.sizes, e.Key)
	return nil
}

func (*foreign) Close() error { return nil } // it is opened again

// TestNameless: an object that no name leads to is told by its key, counted and removed, and keeps nothing else from being done.
func TestNameless(t *testing.T) {
	source, target := location.Location{Scheme: location.S3, Bucket: "source", TrailingSlash: true}, location.Location{Scheme: location.S3, Bucket: "target", TrailingSlash: true}
	at := func(files map[string]string, sizes map[string]int64) *foreign {
		return &foreign{Backend: mem.New(mem.NewTree().Files(files), mem.Options{ObjectStore: true}), sizes: sizes}
	}
	odd := func() map[string]int64 { return map[string]int64{"a//b": 3, "../up": 4} }
	excluded := must.Get(plan.NewFilter([]plan.Rule{{Pattern: "b"}, {Pattern: "up"}}, nil))(t)
	for _, row := range []struct {
		name     string
		from, to map[string]int64
		anyKey   bool // of both places: these have what a key leads to in their walks only
		r        Request
		failed   int64
		err      error
		left     []string // of the target
	}{
		{"copy leaves them out", odd(), nil, false, Request{Work: Copy}, 2, mover.ErrUnsupported, []string{"extra", "new", "same"}},
		{"copy minds none at the target", nil, odd(), false, Request{Work: Copy}, 0, nil, []string{"../up", "a//b", "extra", "new", "same"}},
		{"an exclude takes them out", odd(), nil, false, Request{Work: Copy, Filter: excluded}, 0, nil, []string{"extra", "new", "same"}},
		{"a sync deletes beside them", odd(), nil, false, Request{Work: Sync, Delete: true}, 2, mover.ErrUnsupported, []string{"new", "same"}},
		{"a sync deletes those of the target", nil, odd(), false, Request{Work: Sync, Delete: true}, 0, nil, []string{"new", "same"}},
		{"but those that the source has", map[string]int64{"a//b": 3}, odd(), false, Request{Work: Sync, Delete: true}, 1, mover.ErrUnsupported, []string{"a//b", "new", "same"}},
		{"and those that are excluded", nil, odd(), false, Request{Work: Sync, Delete: true, Filter: excluded}, 0, nil, []string{"../up", "a//b", "new", "same"}},
		{"a verify tells of them", nil, odd(), false, Request{Work: Verify}, 4, mover.ErrCorrupt, []string{"../up", "a//b", "extra", "same"}},
		{"a store that can not read them deletes beside them", odd(), nil, true, Request{Work: Sync, Delete: true}, 2, mover.ErrNotExist, []string{"new", "same"}},
		{"a store deletes those of another one", nil, odd(), true, Request{Work: Sync, Delete: true}, 0, nil, []string{"new", "same"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			places := map[string]*foreign{
				"source": at(map[string]string{"same": "s", "new": "n"}, row.from), "target": at(map[string]string{"same": "s", "extra": "e"}, row.to),
			}
			places["source"].anyKey, places["target"].anyKey = row.anyKey, row.anyKey
			open := func(_ context.Context, l location.Location, _ OpenOptions) (mover.Backend, error) {
				return places[l.Bucket], nil
			}
			r := row.r
			r.Source, r.Target, r.StateDir, r.CompareBy = source, target, t.TempDir(), plan.ByContent
			task := must.Get(Start(t.Context(), r, open))(t)
			report, err := task.Wait()
			if !errors.Is(err, row.err) || report.Failed != row.failed {
				t.Errorf("%d failed: %v, %+v", report.Failed, err, report.Failures)
			}
			for _, f := range report.Failures {
				if row.from != nil && (row.from[f.Name] == 0 || !row.anyKey && !strings.Contains(f.Err.Error(), f.Name)) {
					t.Errorf("told of %q: %v", f.Name, f.Err)
				}
			}
			if left := keysOf(t, places["target"]); !slices.Equal(left, row.left) {
				t.Errorf("the target has %q, want %q", left, row.left)
			}
		})
	}
	store := at(map[string]string{"d/f": "12345"}, odd())
	open := func(context.Context, location.Location, OpenOptions) (mover.Backend, error) { return store, nil }
	if sum, err := Usage(t.Context(), source, open); err != nil || sum.Files != 3 || sum.Bytes != 12 {
		t.Errorf("usage: %+v, %v", sum, err)
	}
	r := Request{StateDir: t.TempDir(), MaxDelete: MaxDelete{Set: true, Entries: 4}}
	if report, err := RemoveAll(t.Context(), source, r, open); err != nil || report.Failed != 0 || len(keysOf(t, store)) != 0 {
		t.Errorf("remove: %+v, %v; left %q", report, err, keysOf(t, store))
	}
}

// keysOf lists all files of a store.
func keysOf(t *testing.T, store *foreign) (keys []string) {
	t.Helper()
	open := func(context.Context, location.Location, OpenOptions) (mover.Backend, error) { return store, nil }
	for e, err := range List(t.Context(), location.Location{Scheme: location.S3, Bucket: "b", TrailingSlash: true}, true, open) {
		must.Do(t, err)
		if e.Kind == mover.File {
			keys = append(keys, e.Name)
		}
	}
	slices.Sort(keys)
	return keys
}
