// Package mem is a backend in memory: all kinds, all facts, drafts, strays, locks.
//
// A [Tree] is the medium: it outlives the backends that are opened on it, as a disk
// outlives a process. A [Backend] is one process's view of it. [Backend.Crash] ends
// that view as kill -9 would. Its lock is gone, its drafts are left as strays, and
// a new Backend on the same Tree can adopt or drop them.
//
// A tree behaves like a POSIX directory, or with [Options.ObjectStore] like a
// bucket: no inodes but ETags, no directory that is needed before its entries, no
// holes and links, and a checksum that is compared. Names are as long as there. Time is a counter that moves
// with each change, so two runs of one program see the same times. A backend tells of it what Capabilities.Times leaves.
//
// It is more lenient than a disk where another package shows the difference. A batch is published in one step. Package faulty
// has a process that ends in the middle of one; posix and s3 have other orders, under the same contract tests. Nothing is mounted below the
// root of a tree (mover/backend/posix, tests with namespaces).
//
// All methods may be called from many goroutines; one mutex per tree orders them,
// so each is atomic to the others, Publish of a whole batch too. The package
// leaves faults to the package fault. Its contract is shown by TestContract, its own
// ways by the other tests.
package mem

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"datamove.dev/mover"
)

// Options says what kind of place it is. The zero value is like a POSIX
// directory without reflinks.
type Options struct {
	ObjectStore bool   // behave like a bucket
	Reflinks    bool   // let Clone share content between all trees
	Address     string // what String returns; "" is "mem:"
	// Adjust may change the traits; nil leaves them.
	Adjust func(*mover.Capabilities)
}

// Backend is a mover.Backend on a Tree.
type Backend struct {
	tree   *Tree
	opts   Options
	traits mover.Capabilities
	dead   error // guarded by tree.mu; why nothing works any more, nil while it does
}

var _ mover.Backend = (*Backend)(nil)

var (
	errClosed  = errors.New("place is closed")
	errCrashed = errors.New("process was killed")
)

// New opens a place on t, or on a fresh tree when t is nil.
func New(t *Tree, o Options) *Backend {
	if t == nil {
		t = NewTree()
	}
	p := &Backend{tree: t, opts: o, traits: posixTraits()}
	if o.ObjectStore {
		p.traits = objectTraits()
	}
	if o.Adjust != nil {
		o.Adjust(&p.traits)
	}
	return p
}

// keepsAll is all that can be set. The ctime is only compared.
const keepsAll = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime | mover.FactsOfObject

func posixTraits() mover.Capabilities {
	return mover.Capabilities{
		System: "memory",
		Keeps:  keepsAll | mover.FactXattrs | mover.FactLinks | mover.FactHoles,
		Level:  mover.Written, DirDrafts: true,
		SmallBytes: 16 << 10, BatchFiles: 64, BatchBytes: 256 << 10,
		PartBytes: 64 << 10, PartMin: 1, PartAlign: 1, MaxParts: 1 << 20,
		Parallel: 4, MaxParallel: 16,
	}
}

// objectTraits has small parts, so that small tests have many of them.
func objectTraits() mover.Capabilities {
	t := posixTraits()
	t.System = "objects in memory"
	t.Keeps = keepsAll | mover.FactCRC
	t.Level, t.Remote, t.NeedsManifest, t.FileAndDirShareName, t.DirDrafts = mover.Server, true, true, true, false
	t.PartBytes, t.PartMin, t.MaxParts = 16<<10, 4<<10, 10000
	t.MaxBytes = t.PartMin * 64 * int64(t.MaxParts)
	return t
}

// Tree returns the medium of the place.
func (p *Backend) Tree() *Tree { return p.tree }

func (p *Backend) String() string {
	if p.opts.Address == "" {
		return "mem:"
	}
	return p.opts.Address
}

// Capabilities implements mover.Source.
func (p *Backend) Capabilities() mover.Capabilities { return p.traits }

// Close ends the use of the place and gives up its lock.
func (p *Backend) Close() error { p.end(errClosed); return nil }

// Crash makes every call on the place, its drafts and its contents fail, and
// leaves what was drafted, as the death of a process does.
func (p *Backend) Crash() { p.end(errCrashed) }

func (p *Backend) end(why error) {
	p.tree.mu.Lock()
	defer p.tree.mu.Unlock()
	if p.dead == nil {
		p.dead = why
	}
	maps.DeleteFunc(p.tree.locks, func(_ string, l *lock) bool { return l.place == p })
}

// enter takes the tree's mutex for a call; leave with p.tree.mu.Unlock when the
// error is nil. "" is a valid name only where root says so.
func (p *Backend) enter(ctx context.Context, op, name string, root bool) error {
	if !mover.ValidName(name) || name == "" && !root {
		return p.fail(op, name, fmt.Errorf("bad name: %w", mover.ErrUsage))
	}
	if ctx.Err() != nil {
		return p.fail(op, name, context.Cause(ctx))
	}
	p.tree.mu.Lock()
	if p.dead != nil {
		err := p.dead
		p.tree.mu.Unlock()
		return p.fail(op, name, err)
	}
	return nil
}

func (p *Backend) fail(op, name string, err error) error {
	return &mover.Error{Op: op, Location: p.String(), Name: name, Err: err}
}

// Stat implements mover.Source.
func (p *Backend) Stat(ctx context.Context, name string) (mover.Entry, error) {
	if err := p.enter(ctx, "stat", name, true); err != nil {
		return mover.Entry{}, err
	}
	defer p.tree.mu.Unlock()
	n := p.tree.find(name)
	if n == nil {
		return mover.Entry{}, p.fail("stat", name, mover.ErrNotExist)
	}
	return p.full(name, n), nil
}

// Spelled implements mover.Speller.
func (p *Backend) Spelled(ctx context.Context, name string) error {
	if err := p.enter(ctx, "look at", name, false); err != nil {
		return err
	}
	defer p.tree.mu.Unlock()
	parent, base, err := p.parent(name)
	if err == nil {
		err = p.tree.namesake(parent, base)
	}
	if err != nil {
		return p.fail("look at", name, err)
	}
	return nil
}

// lock is a held lock: the backend and the run that hold it.
type lock struct {
	place *Backend
	owner mover.WriterID
}

// Lock implements mover.Target.
func (p *Backend) Lock(ctx context.Context, name string, holder mover.WriterID) (context.Context, func() error, error) {
	if err := p.enter(ctx, "lock", name, true); err != nil {
		return nil, nil, err
	}
	defer p.tree.mu.Unlock()
	if l := p.tree.locks[name]; l != nil {
		return nil, nil, p.fail("lock", name, &mover.HeldError{By: l.owner, Text: l.owner.String()})
	}
	mine := &lock{p, holder}
	p.tree.locks[name] = mine
	return ctx, func() error {
		p.tree.mu.Lock()
		defer p.tree.mu.Unlock()
		if p.tree.locks[name] == mine {
			delete(p.tree.locks, name)
		}
		return nil
	}, nil
}

// BreakLock implements mover.LockBreaker.
func (p *Backend) BreakLock(ctx context.Context, name string, over mover.WriterID) error {
	if err := p.enter(ctx, "unlock", name, true); err != nil {
		return err
	}
	defer p.tree.mu.Unlock()
	if l := p.tree.locks[name]; l != nil && l.owner == over {
		delete(p.tree.locks, name)
	}
	return nil
}

// Mkdir implements mover.Target.
func (p *Backend) Mkdir(ctx context.Context, e mover.Entry) error {
	if err := p.enter(ctx, "mkdir", e.Name, true); err != nil {
		return err
	}
	defer p.tree.mu.Unlock()
	if e.Kind != mover.Dir {
		return p.fail("mkdir", e.Name, fmt.Errorf("%v: %w", e.Kind, mover.ErrUsage))
	}
	if err := p.makeDir(e); err != nil {
		return p.fail("mkdir", e.Name, err)
	}
	return nil
}

// makeDir leaves the facts of an existing directory as they are.
func (p *Backend) makeDir(e mover.Entry) error {
	if e.Name == "" {
		return nil
	}
	parent, base, err := p.parent(e.Name)
	if err != nil {
		return err
	}
	if err := p.tree.namesake(parent, base); err != nil {
		return err
	}
	if n := parent.children[base+"/"]; n != nil {
		if n.implied {
			n.implied = false
			p.tree.setFacts(n.inode, &e, p.traits.Keeps)
		}
		return nil
	}
	if parent.children[base] != nil && !p.opts.ObjectStore {
		return fmt.Errorf("not a directory: %w", mover.ErrConflict)
	}
	e.Mode |= 0o700 // usable for us
	n := p.tree.newNode(mover.Dir)
	p.tree.setFacts(n.inode, &e, p.traits.Keeps)
	defer p.untouched(parent)()
	p.tree.link(parent, base, n)
	return nil
}

// The longest segment of a POSIX directory (NAME_MAX), and the longest key of a bucket.
const (
	segmentBytes = 255
	keyBytes     = 1024
)

// parent finds the directory of name. An object store makes it up.
func (p *Backend) parent(name string) (*node, string, error) {
	dir, base := mover.Parent(name)
	n := p.tree.findDir(dir)
	switch {
	case p.opts.ObjectStore && len(name) > keyBytes:
		return nil, "", fmt.Errorf("its key has %d bytes, and keys end at %d: %w", len(name), keyBytes, mover.ErrUnsupported)
	case !p.opts.ObjectStore && len(base) > segmentBytes:
		return nil, "", fmt.Errorf("its last segment has %d bytes, and segments end at %d: %w", len(base), segmentBytes, mover.ErrUnsupported)
	case n != nil:
		return n, base, nil
	case p.opts.ObjectStore:
		return p.tree.imply(dir), base, nil
	case p.tree.blocked(dir):
		return nil, "", fmt.Errorf("%s is not a directory: %w", mover.Printable(dir), mover.ErrConflict)
	}
	return nil, "", fmt.Errorf("directory %s: %w", mover.Printable(dir), mover.ErrNotExist)
}

// Update implements mover.Target.
func (p *Backend) Update(ctx context.Context, e mover.Entry) error {
	if err := p.enter(ctx, "update", e.Name, true); err != nil {
		return err
	}
	defer p.tree.mu.Unlock()
	n := p.tree.findKind(e.Name, e.Kind)
	if n == nil {
		return p.fail("update", e.Name, p.tree.absent(e.Name))
	}
	n.implied = false
	p.tree.setFacts(n.inode, &e, p.traits.Keeps)
	return nil
}

// Remove implements mover.Target.
func (p *Backend) Remove(ctx context.Context, e mover.Entry, _ mover.WriterID) error {
	if err := p.enter(ctx, "remove", e.Name, false); err != nil {
		return err
	}
	defer p.tree.mu.Unlock()
	n := p.tree.findKind(e.Name, e.Kind)
	switch {
	case n == nil:
		return p.fail("remove", e.Name, p.tree.absent(e.Name))
	case !p.isThe(e, n):
		return p.fail("remove", e.Name, mover.ErrChanged)
	case len(n.children) > 0:
		return p.fail("remove", e.Name, fmt.Errorf("directory is not empty: %w", mover.ErrConflict))
	}
	dir, _ := mover.Parent(e.Name)
	defer p.untouched(p.tree.findDir(dir))()
	p.tree.unlink(e.Name, n)
	return nil
}

// untouched returns what gives a directory its times back after a change in it:
// the object that stands for a directory of a bucket is not changed by others.
func (p *Backend) untouched(dir *node) func() {
	if !p.opts.ObjectStore {
		return func() {}
	}
	mtime, ctime := dir.entry.Mtime, dir.entry.Ctime
	return func() { dir.entry.Mtime, dir.entry.Ctime = mtime, ctime }
}

// isThe reports whether n is still what e says. What a directory contains, and
// the other names of a hard link, change times but not identity; a listing of an
// object store knows less than a look at the object.
func (p *Backend) isThe(e mover.Entry, n *node) bool {
	now := p.brief(e.Name, n, false)
	was, is := e.Identity(), now.Identity()
	switch {
	case p.opts.ObjectStore:
		return e.Kind == now.Kind && e.Size == now.Size && e.ETag == now.ETag
	case e.Kind == mover.Dir:
		return now.Kind == mover.Dir && now.Dev == e.Dev && now.Ino == e.Ino
	case e.Nlink > 1:
		was.Ctime = is.Ctime
	}
	return was == is
}

// Sync implements mover.Target. Memory has nothing more stable than itself.
func (p *Backend) Sync(ctx context.Context) error {
	if err := p.enter(ctx, "sync", "", true); err != nil {
		return err
	}
	p.tree.mu.Unlock()
	return nil
}

// entry is n as a place tells of it that keeps no more of times than its traits say.
func (p *Backend) entry(name string, n *node) mover.Entry {
	e := n.entry
	e.Name = name
	for _, t := range []*mover.Time{&e.Mtime, &e.Atime, &e.Ctime} {
		*t = cut(*t, p.traits.Times)
	}
	return e
}

// cut is what is left of a time: the seconds nearest to it that there are, and whole grains.
func cut(t mover.Time, r mover.TimeRange) mover.Time {
	if r.First != 0 || r.Last != 0 {
		if sec := min(max(t.Sec, r.First), r.Last); sec != t.Sec {
			t = mover.Time{Sec: sec}
		}
	}
	switch {
	case r.Grain >= time.Second:
		sec := int64(r.Grain / time.Second)
		t = mover.Time{Sec: t.Sec - (t.Sec%sec+sec)%sec}
	case r.Grain > 0:
		t.Nsec -= t.Nsec % int32(r.Grain)
	}
	return t
}

// full is all that the place knows of n.
func (p *Backend) full(name string, n *node) mover.Entry {
	e := p.entry(name, n)
	if p.opts.ObjectStore {
		e = objectEntry(&e, n)
		if e.Kind == mover.File {
			e.CRC = n.blob.crc()
			e.Known |= mover.FactCRC
		}
		return e
	}
	e.Nlink, e.Stored, e.Data = n.links, n.blob.stored(), n.blob.segments()
	return e
}

// brief is the entry of n in a walk. A listing has extended attributes only on request, and no
// map of holes; that of an object store has only names, kinds, sizes and ETags.
func (p *Backend) brief(name string, n *node, xattrs bool) mover.Entry {
	e := p.entry(name, n)
	e.Brief = true
	if p.opts.ObjectStore {
		e.Known, e.Target = 0, ""
		return objectEntry(&e, n)
	}
	e.Nlink, e.Stored = n.links, n.blob.stored()
	e.Known &^= mover.FactHoles
	if !xattrs {
		e.Known &^= mover.FactXattrs
		e.Xattrs = nil
	}
	return e
}

// objectEntry is the part of e that an object store has.
func objectEntry(e *mover.Entry, n *node) mover.Entry {
	o := mover.Entry{Name: e.Name, Kind: e.Kind, Size: e.Size, Target: e.Target, Rdev: e.Rdev, Brief: e.Brief, Stored: e.Size}
	if !n.implied {
		copyFacts(&o, e, e.Known&objectTraits().Keeps)
	}
	if !n.implied && e.Kind != mover.Dir {
		o.ETag = fmt.Sprintf("\"%d\"", n.version)
	}
	return o
}
