package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/tiering/dataset"
)

// Source is what is scanned and looked at. A mover.Backend is one. Where Stat may tell what was true a while ago, as that of package posix does, it has
// to be a Glancer.
type Source interface {
	Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error]
	Stat(ctx context.Context, name string) (mover.Entry, error)
}

// Glancer tells what is true of a name at this moment.
type Glancer interface {
	Glance(ctx context.Context, name string) (mover.Entry, error)
}

// Seer looks at many names at once: a Source that is far away.
type Seer interface {
	// See returns what Glance would for each name, and an error when there is no answer.
	See(ctx context.Context, names []string) ([]StatResult, error)
}

// readsOf says how reads are recorded where a source is, which one that was received knows at its end.
func readsOf(src Source) mover.Reads {
	switch src := src.(type) {
	case *Received:
		return src.reads
	case interface{ Capabilities() mover.Capabilities }:
		return src.Capabilities().Reads
	}
	return mover.ReadsUnknown
}

// StatResult is what Glance has found.
type StatResult struct {
	Entry mover.Entry
	Err   error
}

// See looks at names of a source, so many at the same time as an answer takes.
func See(ctx context.Context, src Source, names []string) ([]StatResult, error) {
	if s, ok := mover.As[Seer](src); ok {
		return s.See(ctx, names)
	}
	stat := src.Stat
	if g, ok := mover.As[Glancer](src); ok {
		stat = g.Glance
	}
	sights := make([]StatResult, len(names))
	var g errgroup.Group
	g.SetLimit(lookers)
	for i, name := range names {
		g.Go(func() error {
			sights[i].Entry, sights[i].Err = stat(ctx, name)
			sights[i].Entry.Name = name
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	return sights, context.Cause(ctx)
}

// ScanOptions says what is scanned. The zero value scans all of a tree.
type ScanOptions struct {
	Dir  string                                  // only what is below
	Skip func(name string, kind mover.Kind) bool // is not there for the catalog; nil skips nothing
	Now  time.Time                               // zero is that of this host
	// Part scans so many entries, or some more, behind From, which is State.Rolled as the walking side knows it. The scan then moves State.Rolled: part after part the whole tree is
	// verified, and then from its beginning again. 0 is no part.
	Part int
	From string
	// Seen is told from time to time how far it is; nil is told nothing.
	Seen func(Tally)
}

// unreadMost are the names of directories that are kept of those that could not be read.
const unreadMost = 100

// Scan walks a tree, or a part of it, and brings what is known of it up to date. Directories that can not be read are
// counted, and named in the State; what is known of them stays, and the scan goes on. Any other error ends it: what it has seen by then
// counts, and what it has not, too.
func (c *Catalog) Scan(ctx context.Context, tree Tree, src Source, o ScanOptions) (Tally, error) {
	done, err := c.hold(ctx, tree)
	if err != nil {
		return Tally{}, c.failed("scan into", err)
	}
	defer done()
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	s := c.newScan(tree, o)
	defer s.close()
	if err := s.run(ctx, src); err != nil {
		return s.tally, c.failed("scan into", err)
	}
	return s.tally, nil
}

// scan is one scan.
type scan struct {
	c     *Catalog
	o     ScanOptions
	state State
	whole bool // of the tree
	from  *view
	to    *batch
	stack []*folder // the directories that the walk is in
	last  string    // of a part: the entry that came last, with a slash when it is a directory
	taken int       // of a part: entries
	spare []*folder // that were left, for their memory
	tally Tally
	told  int64
	start time.Time
}

// folder is a directory that the walk is in.
type folder struct {
	name string
	merge
	fresh  bool   // nothing was known of it
	record record // what is stored of it is unread until it was read as a whole, and this then; zero: it is not unread
	unread bool   // by the walk
}

func (c *Catalog) newScan(tree Tree, o ScanOptions) *scan {
	s := &scan{c: c, o: o, from: c.view(), to: newBatch(c), start: time.Now()}
	s.state.Tree = tree
	s.whole = o.Dir == "" && o.Part == 0
	s.to.done = func() { s.from.renew(c) }
	return s
}

func (s *scan) close() {
	s.to.drop()
	s.from.close()
}

func (s *scan) run(ctx context.Context, src Source) error {
	n, err := s.begin()
	if err != nil {
		return err
	}
	if err := s.enter(s.o.Dir, n, false); err != nil {
		return err
	}
	more := false
	if s.o.Part > 0 {
		if err := s.resume(s.o.From); err != nil {
			return err
		}
	}
	for e, err := range src.Walk(ctx, mover.WalkOptions{Dir: s.o.Dir, Skip: s.o.Skip, After: s.o.From}) {
		if err != nil {
			if err := s.unread(&e, err); err != nil {
				return err
			}
			continue
		}
		if more, err = s.enough(&e); err != nil {
			return err
		}
		if more {
			break
		}
		if err := s.take(&e); err != nil {
			return err
		}
	}
	s.state.Reads = readsOf(src)
	if s.o.Part > 0 {
		s.rolled(more)
	}
	if (s.whole || s.o.Part > 0 && s.state.Rolling.Equal(s.o.Now)) && s.tally == (Tally{}) && s.state.Scan != (Tally{}) {
		return &mover.Error{Op: "scan", Location: s.state.Tree.String(), Err: fmt.Errorf("%w: it is empty, and was not before: is it mounted? "+
			"If it has to be empty, put a file there", mover.ErrRefused)}
	}
	for len(s.stack) > 0 {
		if err := s.leave(); err != nil {
			return err
		}
	}
	return s.end(ctx)
}

// begin finds the folder that is scanned, and notes that the tree is.
func (s *scan) begin() (n number, err error) {
	if s.state, err = stateIn(s.from.txn, s.state.Tree); err != nil {
		return 0, err
	}
	changes := []change{}
	if s.state.Root == 0 {
		root, err := s.c.newNumber()
		if err != nil {
			return 0, err
		}
		s.state.Root = uint64(root)
		changes = append(changes, put(recordKey(root), record{base: s.state.Tree.key()}.bytes()))
	}
	if s.whole {
		s.state.Began = s.o.Now
	}
	changes = append(changes, put(treeKey(s.state.Tree), s.state.bytes()))
	if err := s.to.put(changes...); err != nil {
		return 0, err
	}
	if n, err = s.from.find(number(s.state.Root), s.o.Dir); err == nil && n == 0 {
		err = &mover.Error{Op: "scan", Location: s.state.Tree.String(), Name: s.o.Dir,
			Err: fmt.Errorf("%w: no such directory is in the catalog; scan the one that it is in", mover.ErrNotExist)}
	}
	return n, err
}

// find follows a name down from a folder; 0 is none.
func (v *view) find(n number, name string) (number, error) {
	for n != 0 && name != "" {
		var base string
		var err error
		base, name, _ = strings.Cut(name, "/")
		if n, err = v.child(n, base); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// enter begins with a directory.
func (s *scan) enter(name string, n number, fresh bool) error {
	f := &folder{}
	if k := len(s.spare); k > 0 {
		f, s.spare = s.spare[k-1], s.spare[:k-1]
	}
	*f = folder{name: name, fresh: fresh, merge: merge{to: s.to, from: s.from, n: n, new: f.new[:0], bound: bound{last: true}}}
	f.gone = func(old dataset.File) error { return s.gone(n, old) }
	s.stack = append(s.stack, f)
	if fresh {
		return nil
	}
	return f.begin()
}

// leave ends the innermost directory.
func (s *scan) leave() error {
	last := len(s.stack) - 1
	f := s.stack[last]
	s.stack, s.spare = s.stack[:last], append(s.spare, f)
	if err := f.end(f.unread); err != nil || f.record == (record{}) || f.unread {
		return err
	}
	return s.to.put(put(recordKey(f.n), f.record.bytes()))
}

// since is when an entry is first seen: now. In the first scan of a tree it is not known when an entry came. There it is when the entry was
// there at the latest: when its inode was changed, or its object written. A time that a user can set does not count.
func (s *scan) since(e *mover.Entry) int64 {
	now, came := s.o.Now.Unix(), int64(0)
	switch {
	case !s.state.Scanned.IsZero():
	case e.Known.Has(mover.FactCtime):
		came = e.Ctime.Sec
	case !e.Known.Has(mover.FactMtime): // it is that of the store
		came = e.Mtime.Sec
	}
	if came <= 0 || came > now {
		return now
	}
	return came
}

// take meets an entry of the walk.
func (s *scan) take(e *mover.Entry) error {
	f, err := s.within(e.Name)
	if err != nil {
		return err
	}
	if dir, _ := mover.Parent(e.Name); dir != f.name { // a store has names, and need not have what is above them
		segment, _, _ := strings.Cut(strings.TrimPrefix(dir[len(f.name):], "/"), "/")
		if err := s.take(&mover.Entry{Name: mover.Join(f.name, segment), Kind: mover.Dir}); err != nil {
			return err
		}
		return s.take(e)
	}
	file := dataset.FileOf(e, s.since(e)).Proven()
	was, err := f.add(file)
	if err != nil {
		return err
	}
	s.tally.add(file.Kind, file.Size, file.Stored)
	s.tell()
	if e.Kind != mover.Dir {
		return nil
	}
	return s.descend(f, e.Name, file.Base, was.Kind == mover.Dir && was.Ino != file.Ino)
}

// within leaves the directories that a name is not in.
func (s *scan) within(name string) (*folder, error) {
	for {
		f := s.stack[len(s.stack)-1]
		if mover.Within(name, f.name) && name != f.name {
			return f, nil
		}
		if len(s.stack) == 1 {
			return nil, fmt.Errorf("%w: the walk left its directory: %s", mover.ErrCorrupt, mover.Printable(name))
		}
		if err := s.leave(); err != nil {
			return nil, err
		}
	}
}

// descend enters a directory that the walk yielded in f. One that is another under the same name is unread, as a new one is: what was known of it may be gone,
// and a [Catalog.Look] that comes before the end of it would see the same directory as we did, and look no further.
func (s *scan) descend(f *folder, name, base string, another bool) (err error) {
	var n number
	if !f.fresh {
		if n, err = s.from.child(f.n, base); err != nil {
			return err
		}
	}
	fresh, unread := n == 0, record{f.n, base, true}
	switch {
	case fresh:
		if n, err = s.c.newNumber(); err != nil {
			return err
		}
		err = s.to.put(attached(n, unread)...)
	case another:
		err = s.to.put(put(recordKey(n), unread.bytes()))
	default:
		return s.enter(name, n, false)
	}
	if err != nil {
		return err
	}
	if err := s.enter(name, n, fresh); err != nil {
		return err
	}
	s.stack[len(s.stack)-1].record = record{parent: f.n, base: base}
	return nil
}

// gone meets what was known and is not there any more.
func (s *scan) gone(parent number, old dataset.File) error {
	if old.Kind != mover.Dir {
		return nil
	}
	n, err := s.from.child(parent, old.Base)
	if n == 0 || err != nil {
		return err
	}
	return s.to.put(detached(parent, n, old.Base)...)
}

// unread meets a directory that the walk could not read; e has its name. Any other error is the scan's.
func (s *scan) unread(e *mover.Entry, err error) error {
	if e.Kind != mover.Dir || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for i := len(s.stack) - 1; i >= 0; i-- {
		if f := s.stack[i]; f.name == e.Name {
			f.unread = true
		}
	}
	if e.Name == s.o.Dir {
		return err
	}
	if s.tally.Unread == 0 {
		s.state.Unread = nil
	}
	s.tally.Unread++
	if len(s.state.Unread) < unreadMost {
		s.state.Unread = append(s.state.Unread, mover.Printable(e.Name))
	}
	return nil
}

// tellEvery is the number of entries between two calls of Seen.
const tellEvery = 10_000

func (s *scan) tell() {
	if s.told++; s.told%tellEvery == 0 && s.o.Seen != nil {
		s.o.Seen(s.tally)
	}
}

// end notes that the scan came to its end, and removes what it found to be gone.
func (s *scan) end(ctx context.Context) error {
	if s.o.Part > 0 {
		if err := s.to.put(put(treeKey(s.state.Tree), s.state.bytes())); err != nil {
			return err
		}
	}
	if s.whole {
		s.state.Scanned, s.state.Began = s.state.Began, time.Time{}
		s.state.Verified, s.state.Rolled = s.state.Scanned, ""
		s.state.Took, s.state.Scan = time.Since(s.start), s.tally
		if s.tally.Unread == 0 {
			s.state.Unread = nil
		}
		if err := s.to.put(put(treeKey(s.state.Tree), s.state.bytes())); err != nil {
			return err
		}
	}
	if err := s.to.commit(); err != nil {
		return err
	}
	return s.c.sweep(ctx)
}
