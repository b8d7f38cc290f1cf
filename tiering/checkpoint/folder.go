package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Folder is a directory that has checkpoints, on a disk or in a store. Names are those of its trees.
type Folder interface {
	// Top is what is directly in it.
	Top(ctx context.Context) (Tree, error)
	// Deep is top, and what is in some of its directories. One that is gone is empty.
	Deep(ctx context.Context, top Tree, names ...string) (Tree, error)
	// Own is t with the times that the files of a set, and what is beside all sets, have of their own, where all of them were written before an export that
	// has ended ([Limits]). In a store those of Deep are of their arrival, and an export (a data repository of FSx for Lustre) brings files in any order.
	Own(ctx context.Context, t Tree, set string) (Tree, error)
	// Saved is when a set was saved, as savedAt says, and without a look at all of it where that can be. ns.
	Saved(ctx context.Context, p Profile, top Tree, set string) (int64, error)
	// Peek reads a part of a file.
	Peek(name string, off int64, p []byte) (int, error)
}

// OnDisk is a directory as [Read] reads it.
func OnDisk(dir *os.File, l Limits) Folder { return &onDisk{dir, l} }

type onDisk struct {
	dir    *os.File
	limits Limits
}

func (d *onDisk) Top(ctx context.Context) (Tree, error) {
	fd, err := open(d.dir, ".", unix.O_DIRECTORY) // it is read from its beginning each time
	if err != nil {
		return Tree{}, err
	}
	dir := os.NewFile(uintptr(fd), d.dir.Name())
	defer dir.Close()
	r := newReader(ctx, d.limits)
	err = r.read(dir, "", 1, false)
	return r.tree(), err
}

func (d *onDisk) Deep(ctx context.Context, top Tree, names ...string) (Tree, error) {
	return d.into(ctx, top, true, names...)
}

// into is Deep, or only what is directly in the directories.
func (d *onDisk) into(ctx context.Context, top Tree, deep bool, names ...string) (Tree, error) {
	r := newReader(ctx, d.limits)
	r.found = top.clone()
	for _, name := range names {
		if e := top.under(name); e == nil || e[0].Kind != Dir {
			continue
		}
		fd, err := open(d.dir, name, unix.O_DIRECTORY)
		if passing(err) != nil {
			return Tree{}, err
		}
		if err != nil {
			continue
		}
		sub := os.NewFile(uintptr(fd), name)
		err = r.read(sub, name+"/", 2, deep)
		_ = sub.Close()
		if err != nil {
			return Tree{}, err
		}
	}
	return r.tree(), nil
}

func (d *onDisk) Own(_ context.Context, t Tree, _ string) (Tree, error) { return t, nil }

func (d *onDisk) Saved(ctx context.Context, p Profile, top Tree, set string) (int64, error) {
	for _, name := range savedLast[p] {
		if when, is := modified(d.dir, set+"/"+name); is {
			return when, nil
		}
	}
	tree, err := d.into(ctx, top, false, set)
	if err != nil {
		return 0, err
	}
	if inside := tree.under(set); inside != nil && inside[0].Kind == Dir && forms[p].holds(set, direct(inside)) && (p == Megatron || p == NeMo || p == Mixed) { // their files lie deeper
		if tree, err = d.Deep(ctx, top, set); err != nil {
			return 0, err
		}
	}
	_, when := tree.savedAt(p, set)
	return when, nil
}

func (d *onDisk) Peek(name string, off int64, p []byte) (int, error) {
	return peek(d.dir, name, off, p)
}

// clone is a tree that may grow.
func (t Tree) clone() Tree {
	return Tree{Entries: slices.Clone(t.Entries), Texts: t.Texts, Commits: maps.Clone(t.Commits), Loose: t.Loose, looks: t.looks}
}

// InPlace is a place that is not a directory here: a bucket. What it says of its contents is bounded as on a disk.
func InPlace(ctx context.Context, place mover.Source, l Limits) Folder {
	return &inPlace{ctx: ctx, place: place, limits: l}
}

type inPlace struct {
	ctx    context.Context // of Peek
	place  mover.Source
	limits Limits
}

func (p *inPlace) Top(ctx context.Context) (Tree, error) {
	t := Tree{Texts: map[string]string{}, Commits: map[string]Commit{}, Loose: p.place.Capabilities().NeedsManifest}
	left := p.limits.Entries
	if left == 0 {
		left = entriesMost
	}
	shallow := mover.WalkOptions{Skip: func(name string, _ mover.Kind) bool { return strings.Contains(name, "/") }}
	if err := p.walk(ctx, &t, shallow, &left); err != nil {
		return t, err
	}
	for _, e := range t.Entries {
		if e.Kind != File || e.Size >= textMost || !tracks(e.Name) || len(t.Texts) >= textsMost {
			continue
		}
		b := make([]byte, textMost)
		if n, err := p.Peek(e.Name, 0, b[:e.Size]); err == nil {
			t.Texts[e.Name] = string(b[:n])
		}
	}
	return t, nil
}

func (p *inPlace) Deep(ctx context.Context, top Tree, names ...string) (Tree, error) {
	t, left := top.clone(), p.limits.Entries
	if left == 0 {
		left = entriesMost
	}
	for _, name := range names {
		if e := top.under(name); e == nil || e[0].Kind != Dir {
			continue
		}
		if err := p.walk(ctx, &t, mover.WalkOptions{Dir: name}, &left); err != nil {
			return t, err
		}
	}
	slices.SortFunc(t.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range names {
		at := t.under(name)
		if at == nil || at[0].Kind == Dir && !has(at, Committed) || at[0].Kind != Dir && t.under(name+besideIt) == nil {
			continue
		}
		c, err := p.commit(ctx, RecordOf(name, at[0].Kind == Dir))
		if err != nil {
			return t, err
		}
		t.Commits[name] = c
	}
	return t, nil
}

// ownAtOnce is how many objects are asked for their times at once.
const ownAtOnce = 16

func (p *inPlace) Own(ctx context.Context, t Tree, set string) (Tree, error) {
	if p.limits.Exported.IsZero() {
		return t, nil
	}
	own, last := t.clone(), p.limits.Exported.UnixNano()-slack
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(ownAtOnce)
	var later atomic.Bool // shards of what was written since may be on their way
	for i, e := range t.Entries {
		if e.Kind != File || strings.Contains(e.Name, "/") && !strings.HasPrefix(e.Name, set+"/") {
			continue
		}
		asking.Go(func() error {
			now, err := p.place.Stat(ctx, e.Name)
			if errors.Is(err, mover.ErrNotExist) {
				later.Store(true) // it is being changed
				return nil
			}
			if err != nil {
				return err
			}
			own.Entries[i].Modified = now.Mtime.Std().UnixNano()
			if own.Entries[i].Modified > last {
				later.Store(true)
			}
			return nil
		})
	}
	if err := asking.Wait(); err != nil || later.Load() {
		return t, err
	}
	return own, nil
}

// walk adds what a walk yields.
func (p *inPlace) walk(ctx context.Context, t *Tree, o mover.WalkOptions, left *int) error {
	ctx, cancel := context.WithCancel(ctx) // the walk reads ahead
	defer cancel()
	for e, err := range p.place.Walk(ctx, o) {
		if errors.Is(err, mover.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if *left--; *left < 0 {
			return fmt.Errorf("%w: there are more files in it than one look may see", mover.ErrRefused)
		}
		if e.Name == "" || strings.HasPrefix(e.Name[strings.LastIndexByte(e.Name, '/')+1:], mover.TempPrefix) {
			continue
		}
		t.Entries = append(t.Entries, entryOf(e))
		if e.Kind == mover.Symlink && !strings.Contains(e.Name, "/") && len(t.Texts) < textsMost {
			t.Texts[e.Name] = e.Target
		}
	}
	slices.SortFunc(t.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return ctx.Err()
}

func entryOf(e mover.Entry) Entry {
	kinds := map[mover.Kind]Kind{mover.File: File, mover.Dir: Dir, mover.Symlink: Link}
	out := Entry{Name: e.Name, Kind: kinds[e.Kind], Size: e.Size, Inode: e.Ino, Modified: e.Mtime.Std().UnixNano(), Changed: e.Ctime.Std().UnixNano()}
	if e.Mtime == (mover.Time{}) {
		out.Modified = 0
	}
	if e.Ctime == (mover.Time{}) {
		out.Changed = 0
	}
	if e.ETag != "" { // an object is another one when its name for its content is
		h := fnv.New64a()
		_, _ = h.Write([]byte(e.ETag + "\x00" + e.Version))
		out.Inode = h.Sum64()
	}
	return out
}

func (p *inPlace) Saved(ctx context.Context, profile Profile, top Tree, set string) (int64, error) {
	tree, err := p.Deep(ctx, top, set)
	if err != nil {
		return 0, err
	}
	file, when := tree.savedAt(profile, set)
	if !tree.Loose || file == "" {
		return when, nil
	}
	e, err := p.place.Stat(ctx, file) // it may keep the time of its source
	if errors.Is(err, mover.ErrNotExist) {
		return when, nil
	}
	return e.Mtime.Std().UnixNano(), err
}

func (p *inPlace) Peek(name string, off int64, b []byte) (int, error) {
	return readAt(p.ctx, p.place, name, off, b)
}

// readAt reads a part of a file in a place.
func readAt(ctx context.Context, place mover.Source, name string, off int64, b []byte) (n int, err error) {
	e, err := place.Stat(ctx, name)
	if err != nil {
		return 0, err
	}
	n = int(max(0, min(int64(len(b)), e.Size-off)))
	if e.Kind != mover.File || n == 0 {
		return 0, nil
	}
	content, err := place.Open(mover.Ranged(ctx), e)
	if err != nil {
		return 0, err
	}
	defer content.Close()
	r, err := content.Range(ctx, off, int64(n))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return io.ReadFull(r, b[:n])
}

func (p *inPlace) commit(ctx context.Context, name string) (Commit, error) {
	e, err := p.place.Stat(ctx, name)
	if errors.Is(err, mover.ErrNotExist) || err == nil && e.Size >= commitMost {
		return Commit{Torn: torn}, nil
	}
	if err != nil {
		return Commit{}, err
	}
	b := make([]byte, e.Size)
	n, err := readAt(ctx, p.place, name, 0, b)
	if err != nil {
		return Commit{}, err
	}
	return ParseCommit(b[:n]), nil
}
