package lustre

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/client"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
	"datamove.dev/tiering/catalog/changefeed/feedtest"
)

// recorded is a directory whose changes are recorded as an MDT does.
type recorded struct {
	dir  string
	root string // of the tree in it, which stays

	mu      sync.Mutex // guards all below, and the directory
	log     []lustre.Change
	counted uint64
	cleared uint64
	denied  error
}

var mdt = lustre.Feed{Name: "lab-MDT0000"}

func (r *recorded) Feeds(context.Context) ([]lustre.Feed, error) {
	return []lustre.Feed{mdt}, r.denied
}

func (r *recorded) Last(context.Context, lustre.Feed) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counted, nil
}

func (r *recorded) Read(_ context.Context, _ lustre.Feed, after uint64) iter.Seq2[lustre.Change, error] {
	r.mu.Lock()
	all := slices.Clone(r.log)
	r.mu.Unlock()
	return func(yield func(lustre.Change, error) bool) {
		for _, c := range all {
			if c.Index <= after {
				continue
			}
			if after > 0 && c.Index > after+1 {
				yield(lustre.Change{}, lustre.ErrGap)
				return
			}
			after = c.Index
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (r *recorded) Clear(_ context.Context, _ lustre.Feed, reader string, upTo uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reader != "cl1" {
		return errors.Join(client.ErrNoReader, lustre.ErrGap)
	}
	if upTo > r.counted || upTo < r.cleared {
		return lustre.ErrGap
	}
	r.cleared = upTo
	r.log = slices.DeleteFunc(r.log, func(c lustre.Change) bool { return c.Index <= upTo })
	return nil
}

// Paths walks, as nobody has to who has link attributes.
func (r *recorded) Paths(_ context.Context, id lustre.FID) (paths []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = filepath.WalkDir(r.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if r.id(path) == id {
			name, err := filepath.Rel(r.dir, path)
			if name == "." {
				name = ""
			}
			paths = append(paths, name)
			return err
		}
		return nil
	})
	if err == nil && paths == nil {
		err = fs.ErrNotExist
	}
	return paths, err
}

// id names a file; the zero one is none.
func (r *recorded) id(path string) lustre.FID {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return lustre.FID{}
	}
	return lustre.FID{Seq: 1 + st.Ino>>32, OID: uint32(st.Ino)}
}

// record does something to a name, and writes it down.
func (r *recorded) record(what lustre.ChangeType, name string, do func(path string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := filepath.Join(r.dir, name)
	before := r.id(path)
	if do(path) != nil {
		return
	}
	c := lustre.Change{Type: what, File: cmp.Or(r.id(path), before)}
	if what != lustre.ChangeSetattr && what != lustre.ChangeClose {
		c.Parent, c.Name = r.id(filepath.Dir(path)), filepath.Base(path)
	}
	r.write(c)
}

func (r *recorded) rename(from, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, b := filepath.Join(r.dir, from), filepath.Join(r.dir, to)
	c := lustre.Change{Type: lustre.ChangeRename, File: r.id(b), Parent: r.id(filepath.Dir(b)), Name: filepath.Base(b), OldFile: r.id(a), OldParent: r.id(filepath.Dir(a)), OldName: filepath.Base(a)}
	if os.Rename(a, b) == nil {
		r.write(c)
	}
}

// write writes a record, as somebody who has r.mu.
func (r *recorded) write(c lustre.Change) {
	r.counted++
	c.Index, c.Time = r.counted, time.Now()
	r.log = append(r.log, c)
}

// anew is a log that was taken away, and counts from 1.
func (r *recorded) anew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log, r.counted, r.cleared = nil, 0, 0
}

// lose is a log of which what was not read is gone.
func (r *recorded) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.log) > 1 {
		r.log = r.log[len(r.log)-1:]
	}
}

var segments = []string{"a", "b", "a-", "c d", "\xff", strings.Repeat("n", 60)}

// some is a name, in the tree or beside it.
func (r *recorded) some(random *rand.Rand, depth int) string {
	var s []string
	if random.IntN(5) > 0 {
		s = append(s, r.root)
	}
	for range 1 + random.IntN(depth) {
		s = append(s, segments[random.IntN(len(segments))])
	}
	return strings.TrimPrefix(strings.Join(s, "/"), "/")
}

// churn changes something.
func (r *recorded) churn(random *rand.Rand) {
	name := r.some(random, 4)
	switch random.IntN(12) {
	case 0, 1:
		r.record(lustre.ChangeMkdir, name, func(p string) error { return os.Mkdir(p, 0o755) })
	case 2:
		r.record(lustre.ChangeUnlink, name, syscall.Unlink)
	case 3:
		r.record(lustre.ChangeRmdir, name, syscall.Rmdir)
	case 4, 5:
		r.rename(name, r.some(random, 4))
	case 6:
		r.rename(r.some(random, 2), r.some(random, 2))
	case 7:
		r.record(lustre.ChangeSymlink, name, func(p string) error { return os.Symlink("none", p) })
	case 8:
		r.record(lustre.ChangeSetattr, name, func(p string) error {
			return unix.Fchmodat(unix.AT_FDCWD, p, uint32(0o700|random.IntN(0o100)), unix.AT_SYMLINK_NOFOLLOW)
		})
	case 9:
		r.record(lustre.ChangeClose, name, func(p string) error {
			f, err := os.OpenFile(p, os.O_WRONLY|unix.O_NOFOLLOW, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(random.Int64N(3000))
		})
	default:
		r.record(lustre.ChangeCreate, name, func(p string) error {
			f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			return f.Close()
		})
	}
}

var lab = catalog.Tree{Tier: "lab"}

// A tree changes while its log is read, the reader is killed and begins again, records are lost, and the log is made anew: when nothing changes any more, the catalog is what
// a scan would make of it.
//
//safety:5 with tiering/catalog/changefeed/s3events TestQueued
func TestModel(t *testing.T) {
	first := seed.Of(t)
	for nth := range uint64(6) {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			random := rand.New(rand.NewPCG(first+nth, 0))
			r := &recorded{dir: t.TempDir()}
			if nth%2 == 0 {
				r.root = "tree"
				must.Do(t, os.Mkdir(filepath.Join(r.dir, r.root), 0o755))
			}
			c := must.Get(catalog.Open(t.TempDir(), catalog.Options{}))(t)
			defer c.Close()
			src := must.Get(posix.Open(filepath.Join(r.dir, r.root), posix.Options{}))(t)
			defer src.Close()
			var scans uint64
			for life := range 12 {
				ctx, kill := context.WithCancel(t.Context())
				k := &changefeed.Follower{Catalog: c, Tree: lab, Source: src, Feed: &Feed{Log: r, Root: r.root, Reader: "cl1", Settle: -1, Pause: time.Millisecond},
					Options: changefeed.Options{Retry: time.Millisecond, Logger: slog.New(slog.DiscardHandler)}}
				var g sync.WaitGroup
				g.Go(func() { _ = k.Run(ctx) })
				for range 150 {
					r.churn(random)
					if random.IntN(10) == 0 {
						time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
					}
				}
				if life%4 == 1 {
					r.lose()
				}
				if life%3 == 2 {
					r.churn(random)
					feedtest.Settled(t, c, lab, src)
				}
				kill()
				g.Wait()
				scans += k.Progress().Scans
				if life%4 == 3 { // a reader that is at work finds out when it tells that it is alive
					r.anew()
				}
			}
			if scans < 2 || scans > 12 {
				t.Errorf("%d scans", scans)
			}
		})
	}
}

// An empty log has no record to stand behind: what was lost since a reader began there can not be told from what never was.
func TestEmptyLog(t *testing.T) {
	r := &recorded{dir: t.TempDir()}
	f := &Feed{Log: r, Reader: "cl1", Settle: -1, Pause: time.Millisecond}
	var mark []byte
	for life, all := range []bool{true, true, false} {
		ctx, stop := context.WithCancel(t.Context())
		err := f.Run(ctx, func(string) ([]byte, error) { return mark, nil }, func(_ context.Context, b changefeed.Batch) error {
			if b.All != all {
				t.Errorf("from the mark %x: %+v", mark, b)
			}
			mark = b.Marks[0].Value
			stop()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, name := range []string{"a", "b"} {
			r.record(lustre.ChangeMkdir, name+fmt.Sprint(r.counted), func(p string) error { return os.Mkdir(p, 0o755) })
		}
		if life == 0 {
			r.lose()
		}
	}
}

// What no second try mends: somebody who may not read, a client without a log, a reader that is not registered.
func TestRefused(t *testing.T) {
	none := func(string) ([]byte, error) { return nil, nil }
	take := func(context.Context, changefeed.Batch) error { return nil }
	r := &recorded{dir: t.TempDir(), denied: fs.ErrPermission}
	if err := (&Feed{Log: r, Reader: "cl1"}).Run(t.Context(), none, take); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("who may not read: %v", err)
	}
	r.denied = nil
	if err := (&Feed{Log: r, Reader: "cl7"}).Run(t.Context(), none, take); !errors.Is(err, client.ErrNoReader) {
		t.Errorf("a reader that is none: %v", err)
	}
	if err := (&Feed{Log: without{r}, Reader: "cl1"}).Run(t.Context(), none, take); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no log: %v", err)
	}
}

type without struct{ Log }

func (without) Feeds(context.Context) ([]lustre.Feed, error) { return nil, nil }

// FuzzPlace: a mark that somebody damaged is none, or one.
func FuzzPlace(f *testing.F) {
	f.Add(place{7, time.Unix(3, 4)}.mark(mdt).Value)
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, known := readPlace(b)
		if again, same := readPlace(p.mark(mdt).Value); known && (!same || again.index != p.index || !again.time.Equal(p.time)) {
			t.Errorf("%v is %v", p, again)
		}
	})
}
