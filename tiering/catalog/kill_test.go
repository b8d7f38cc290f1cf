package catalog_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
)

func TestMain(m *testing.M) {
	kill.Main(map[string]func(string) error{"follow": follow})
	os.Exit(m.Run())
}

// A feed is a file of names, each of which ends in a zero byte; its mark is how much of it was read.
func feedOf(dir string) string { return filepath.Join(dir, "feed") }

// telling asks at each entry that is walked, and each name that is looked at.
type telling struct{ *posix.Backend }

func (s telling) Glance(ctx context.Context, name string) (mover.Entry, error) {
	kill.Ask("glanced")
	return s.Backend.Glance(ctx, name)
}

func (s telling) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range s.Backend.Walk(ctx, o) {
			if kill.Ask("walked"); !yield(e, err) {
				return
			}
		}
	}
}

// follow scans where nothing was scanned, and looks at what the feed says, for ever.
func follow(dir string) error {
	ctx := context.Background()
	c, err := catalog.Open(filepath.Join(dir, "catalog"), catalog.Options{})
	if err != nil {
		return err
	}
	place, err := posix.Open(filepath.Join(dir, "tree"), posix.Options{})
	if err != nil {
		return err
	}
	src := telling{place}
	state, err := c.State(project)
	if err == nil && state.Scanned.IsZero() {
		_, err = c.Scan(ctx, project, src, catalog.ScanOptions{})
	}
	for err == nil {
		_, err = followOn(ctx, c, src, feedOf(dir))
		kill.Ask("took")
	}
	return err
}

// followOn takes some of a feed, if there is something.
func followOn(ctx context.Context, c *catalog.Catalog, src catalog.Source, feed string) (bool, error) {
	mark, err := c.Mark(project, "test")
	if err != nil {
		return false, err
	}
	at := markOf(mark)
	f, err := os.Open(feed)
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, at, 1<<20))
	if err != nil {
		return false, err
	}
	text = text[:bytes.LastIndexByte(text, 0)+1]
	if len(text) == 0 {
		return false, nil
	}
	names := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	mark.Value = binary.BigEndian.AppendUint64(nil, uint64(at)+uint64(len(text)))
	err = c.Look(ctx, project, src, names, mark)
	return err == nil, err
}

func markOf(m catalog.Mark) int64 {
	if len(m.Value) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(m.Value))
}

// churn changes a tree, and writes into the feed what it does.
type churn struct {
	t      *testing.T
	dir    string
	feed   *os.File
	random *rand.Rand
	n      int
}

func (c *churn) path(name string) string { return filepath.Join(c.dir, "tree", name) }

func (c *churn) some() string { return fmt.Sprintf("d%d/e%d", c.random.IntN(6), c.random.IntN(6)) }

// once does something. What is not there, or is in the way, makes it nothing.
func (c *churn) once() {
	c.n++
	var names []string
	switch dir := c.some(); c.random.IntN(10) {
	case 0:
		if os.RemoveAll(c.path(dir)) == nil {
			names = []string{dir + "/"} // one that is made anew may have the same inode
		}
	case 1:
		to := c.some()
		if os.Rename(c.path(dir), c.path(to)) == nil {
			names = []string{dir, to + "/"}
		}
	default:
		name := fmt.Sprintf("%s/f%d", dir, c.random.IntN(300))
		must.Do(c.t, os.MkdirAll(c.path(dir), 0o755))
		if c.random.IntN(4) == 0 {
			_ = os.Remove(c.path(name))
		} else {
			must.Do(c.t, os.WriteFile(c.path(name), make([]byte, c.random.IntN(2000)), 0o644))
		}
		names = []string{name}
	}
	for _, n := range names {
		_, err := c.feed.WriteString(n + "\x00")
		must.Do(c.t, err)
	}
}

// Killed while a tree changes, and while it is scanned for the first time, a catalog that follows a feed is at last what a fresh
// scan is.
//
//safety:4 the catalog is killed twenty times while a tree changes, and ends equal to it; a damaged one counts as not scanned; one with a disk that fills in the middle of a scan is as old as before
func TestKill(t *testing.T) {
	random := kill.Random(t)
	dir := t.TempDir()
	feed := must.Get(os.Create(feedOf(dir)))(t)
	defer feed.Close()
	c := &churn{t: t, dir: dir, feed: feed, random: rand.New(rand.NewPCG(7, 7))}
	for range 3000 {
		c.once()
	}
	live := func(kind string, n int) {
		lines := 0
		kill.AtLine(t, "follow", dir, kind, n, func(line string) {
			if lines++; lines%16 == 0 || line == "took" {
				c.once()
			}
		})
	}
	for range kill.Times(1, 5) {
		live("walked", 1+random.IntN(300)) // there are more
	}
	live("took", 1+random.IntN(30))
	for range kill.Times(2, 45) {
		live("glanced", 1+random.IntN(60))
	}
	end := must.Get(feed.Seek(0, io.SeekCurrent))(t)

	last := open(t, filepath.Join(dir, "catalog"))
	defer func() { must.Do(t, last.Close()) }()
	src := must.Get(posix.Open(filepath.Join(dir, "tree"), posix.Options{}))(t)
	defer src.Close()
	if state, err := last.State(project); err != nil || state.Scanned.IsZero() {
		t.Fatalf("it was never scanned whole: %+v, %v", state, err)
	}
	before := must.Get(last.Mark(project, "test"))(t)
	if markOf(before) == 0 {
		t.Fatal("nothing was followed")
	}
	for more := true; more; {
		more = must.Get(followOn(t.Context(), last, src, feedOf(dir)))(t)
	}
	t.Logf("%d changes, %d of %d bytes of the feed before the last opening", c.n, markOf(before), end)
	equal(t, last, project, src)
}

// A catalog whose files were cut, written over or lost is moved aside, and nothing counts as scanned: an empty catalog decides nothing.
//
//safety:4 with TestKill
func TestDamage(t *testing.T) {
	for name, harm := range map[string]func(path string, size int64) error{
		"cut":    func(path string, size int64) error { return os.Truncate(path, size/2) },
		"gone":   func(path string, _ int64) error { return os.Remove(path) },
		"zeroed": func(path string, size int64) error { return os.WriteFile(path, make([]byte, size), 0o600) },
	} {
		for _, pattern := range []string{"*.sst", "MANIFEST", "KEYREGISTRY"} {
			t.Run(name+" "+pattern, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "catalog")
				c := open(t, dir)
				fill(t, c)
				must.Do(t, c.Close())
				files, err := filepath.Glob(filepath.Join(dir, "store", pattern))
				must.Do(t, err)
				if len(files) == 0 {
					t.Fatal("there is no such file")
				}
				for _, path := range files {
					st := must.Get(os.Stat(path))(t)
					must.Do(t, harm(path, st.Size()))
				}
				c = open(t, dir)
				defer func() { must.Do(t, c.Close()) }()
				state, err := c.State(project)
				if err != nil || state.Scanned.IsZero() {
					return // it was moved aside, or says that it can not be read
				}
				for f, err := range c.Below(t.Context(), project, "") {
					if err != nil {
						if !errors.Is(err, mover.ErrCorrupt) {
							t.Fatal(err)
						}
						return
					}
					if f.Kind == 0 {
						t.Fatalf("%+v", f)
					}
				}
				if _, err := os.Stat(dir + ".damaged"); err != nil && pattern != "KEYREGISTRY" {
					t.Error("nobody saw the damage")
				}
			})
		}
	}
}
