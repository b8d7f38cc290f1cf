package catalog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover"
	"datamove.dev/tiering/dataset"
)

// Mark is where a feed of changes stands: what it needs to go on from there.
type Mark struct {
	Feed  string
	Value []byte
}

// lookers are how many names are looked at at the same time: most of the time is a server's.
const lookers = 16

// Look looks at names of a tree, because something may have happened to them, and brings what is known of them up to date. It scans a directory that is new, and
// one with a name that ends in a slash, because it was moved with all that it has. What was known of a name that may not be looked at stays. The mark is stored together with what was seen, or after it, and
// never before; one without a feed is none.
//
// mover.ErrNotExist means that the tree was never scanned; any error means that the names have to be looked at again.
func (c *Catalog) Look(ctx context.Context, tree Tree, src Source, names []string, mark Mark) error {
	done, err := c.hold(ctx, tree)
	if err != nil {
		return c.failed("look for", err)
	}
	defer done()
	l := &look{c: c, tree: tree, src: src, from: c.view(), to: newBatch(c), now: time.Now()}
	defer l.close()
	if err := l.run(ctx, names, mark); err != nil {
		return c.failed("look for", err)
	}
	return nil
}

// look is one look.
type look struct {
	c    *Catalog
	tree Tree
	src  Source
	root number
	from *view
	to   *batch
	now  time.Time
	dirs []found // to be read
}

func (l *look) close() {
	l.to.drop()
	l.from.close()
}

// sight is one name in a folder, and what was seen of it.
type sight struct {
	n    number // its folder
	name string
	deep bool         // if it is a directory, in it, too
	file dataset.File // the zero one: it is not there
	skip bool         // it may not be looked at
}

func (l *look) run(ctx context.Context, names []string, mark Mark) error {
	s, err := stateIn(l.from.txn, l.tree)
	if err != nil {
		return err
	}
	if s.Root == 0 {
		return &mover.Error{Op: "look into", Location: l.tree.String(), Err: mover.ErrNotExist}
	}
	l.root = number(s.Root)
	sights, err := l.resolve(names)
	if err != nil {
		return err
	}
	if err := l.see(ctx, sights); err != nil {
		return err
	}
	if err := l.merge(sights); err != nil {
		return err
	}
	if len(l.dirs) > 0 {
		if err := l.scan(ctx); err != nil {
			return err
		}
	}
	if mark.Feed != "" {
		if err := l.to.put(put(markKey(l.tree, mark.Feed), mark.Value)); err != nil {
			return err
		}
	}
	if err := l.to.commit(); err != nil {
		return err
	}
	return l.c.sweep(ctx)
}

// resolve finds the folders of names. Where one is not known, the first of those above it that is not is looked at instead. The times of a
// directory tell of what happens in it, so it is looked at with its names.
func (l *look) resolve(names []string) ([]*sight, error) {
	folders := map[string]number{"": l.root}
	asked := map[string]*sight{"": {}}
	var sights []*sight
	for _, asks := range names {
		name, deep := strings.CutSuffix(asks, "/")
		if !mover.ValidName(name) {
			continue
		}
		for asked[name] == nil {
			asked[name] = &sight{name: name}
			dir, _ := mover.Parent(name)
			n, err := l.folder(folders, dir)
			if err != nil {
				return nil, err
			}
			if n != 0 {
				asked[name].n = n
				sights = append(sights, asked[name])
			}
			name = dir
		}
		if deep {
			asked[strings.TrimSuffix(asks, "/")].deep = true
		}
	}
	return sights, nil
}

// folder finds that of a directory, and remembers it; 0 is none.
func (l *look) folder(known map[string]number, dir string) (number, error) {
	if n, ok := known[dir]; ok {
		return n, nil
	}
	above, base := mover.Parent(dir)
	n, err := l.folder(known, above)
	if n != 0 && err == nil {
		n, err = l.from.child(n, base)
	}
	known[dir] = n
	return n, err
}

// see looks at the names.
func (l *look) see(ctx context.Context, sights []*sight) error {
	names := make([]string, len(sights))
	for i, s := range sights {
		names[i] = s.name
	}
	seen, err := See(ctx, l.src, names)
	if err != nil {
		return err
	}
	for i, s := range sights {
		switch e, err := seen[i].Entry, seen[i].Err; {
		case err == nil:
			e.Name = s.name
			s.file = dataset.FileOf(&e, l.now.Unix()).Proven()
		case errors.Is(err, mover.ErrPermission):
			s.skip = true
		case !errors.Is(err, mover.ErrNotExist):
			return err
		}
	}
	return nil
}

// fact is what is to be known of a name as it sorts: one that is a directory now is no file any more, and the other way round.
type fact struct {
	n    number
	name string
	file *dataset.File // nil: it is not there
	of   *sight
}

func factsOf(sights []*sight) (facts []fact) {
	for _, s := range sights {
		if s.skip {
			continue
		}
		_, base := mover.Parent(s.name)
		file, dir := fact{s.n, base, nil, s}, fact{s.n, base + "/", nil, s}
		switch s.file.Kind {
		case 0:
		case mover.Dir:
			dir.file = &s.file
		default:
			file.file = &s.file
		}
		facts = append(facts, file, dir)
	}
	slices.SortFunc(facts, func(a, b fact) int {
		return cmp.Or(cmp.Compare(a.n, b.n), strings.Compare(a.name, b.name))
	})
	return facts
}

// merge brings the folders up to date.
func (l *look) merge(sights []*sight) error {
	var m *merge
	for _, f := range factsOf(sights) {
		if m == nil || m.n != f.n {
			if m != nil {
				if err := m.end(true); err != nil {
					return err
				}
			}
			m = &merge{to: l.to, from: l.from, n: f.n, part: true}
			if err := m.load(bound{name: f.name}); err != nil {
				return err
			}
		}
		if err := l.set(m, f); err != nil {
			return err
		}
	}
	if m != nil {
		return m.end(true)
	}
	return nil
}

// set makes a fact of what a folder has. A directory that is another one under the same name is new, as is all that is in it.
func (l *look) set(m *merge, f fact) error {
	var was dataset.File
	var err error
	if f.file == nil {
		was, err = m.pass(f.name)
	} else {
		was, err = m.add(*f.file)
	}
	base, isDir := strings.CutSuffix(f.name, "/")
	if err != nil || !isDir {
		return err
	}
	n, err := l.from.child(f.n, base)
	if err != nil {
		return err
	}
	if n != 0 && f.file != nil && f.file.Ino == was.Ino {
		r, err := l.from.record(n)
		if (r.unread || f.of.deep) && err == nil { // unread: an earlier process was killed before
			l.dirs = append(l.dirs, found{f.of.name, n, r})
		}
		return err
	}
	if n != 0 {
		if err := l.to.put(detached(f.n, n, base)...); err != nil {
			return err
		}
	}
	if f.file == nil {
		return nil
	}
	if n, err = l.c.newNumber(); err != nil {
		return err
	}
	r := record{parent: f.n, base: base, unread: true}
	l.dirs = append(l.dirs, found{f.of.name, n, r})
	return l.to.put(attached(n, r)...)
}

// found is a directory that has to be read.
type found struct {
	name string
	n    number
	record
}

// scan reads the directories that were found.
func (l *look) scan(ctx context.Context) error {
	if err := l.to.commit(); err != nil {
		return err
	}
	for _, d := range l.dirs {
		s := l.c.newScan(l.tree, ScanOptions{Dir: d.name, Now: l.now})
		err := s.run(ctx, l.src)
		s.close()
		if errors.Is(err, mover.ErrNotExist) { // gone by now: the feed tells of it
			continue
		}
		d.unread = false
		if err == nil {
			err = l.to.put(put(recordKey(d.n), d.record.bytes()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func markKey(tree Tree, feed string) []byte {
	return append(marksOf(tree), feed...)
}

func marksOf(tree Tree) []byte { return append(append([]byte{keyMark}, tree.key()...), 0) }

// Mark returns where a feed of a tree stands; a nil value is nowhere.
func (c *Catalog) Mark(tree Tree, feed string) (Mark, error) {
	m := Mark{Feed: feed}
	err := c.db.View(func(txn *badger.Txn) (err error) {
		m.Value, err = get(txn, markKey(tree, feed))
		return err
	})
	if err != nil {
		return Mark{}, c.failed("read", err)
	}
	return m, nil
}
