package plan

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// world is a tree as the plan sees one: names, and inodes that names may share.
// With both, a file and a directory may have the same name.
type world struct {
	both    bool
	entries map[string]*mover.Entry // by key
	inodes  uint64
}

func newWorld() *world { return &world{entries: map[string]*mover.Entry{}, inodes: 100} }

// key makes files and directories of one name differ.
func key(name string, kind mover.Kind) string {
	if kind == mover.Dir {
		return name + "/"
	}
	return name
}

func (w *world) sorted() []mover.Entry {
	var all []mover.Entry
	for _, e := range w.entries {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b mover.Entry) int { return mover.Compare(&a, &b) })
	return all
}

func walk(entries []mover.Entry) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (w *world) walk() iter.Seq2[mover.Entry, error] { return walk(w.sorted()) }

// put makes e with a new inode; its parents must be there.
func (w *world) put(e mover.Entry) error {
	if dir, _ := mover.Parent(e.Name); dir != "" && w.entries[key(dir, mover.Dir)] == nil {
		return fmt.Errorf("%q is made before its directory", e.Name)
	}
	if twin := w.twin(e.Name, e.Kind); twin != nil && !w.both {
		return fmt.Errorf("%q is made beside a %v", e.Name, twin.Kind)
	}
	w.inodes++
	e.Dev, e.Ino = 2, w.inodes
	e.Nlink = 1
	w.entries[key(e.Name, e.Kind)] = &e
	return nil
}

func (w *world) twin(name string, kind mover.Kind) *mover.Entry {
	if kind == mover.Dir {
		return w.entries[name]
	}
	return w.entries[name+"/"]
}

// drop removes one name.
func (w *world) drop(e mover.Entry) error {
	if e.Kind == mover.Dir {
		for k := range w.entries {
			if k != e.Name+"/" && strings.HasPrefix(k, e.Name+"/") {
				return fmt.Errorf("directory %q is removed with %q in it", e.Name, k)
			}
		}
	}
	if w.entries[key(e.Name, e.Kind)] == nil {
		return fmt.Errorf("%q is removed and not there", e.Name)
	}
	delete(w.entries, key(e.Name, e.Kind))
	return nil
}

// apply does the actions: first all but removes, then the removes in reverse, then
// what had to wait for them.
func (w *world) apply(actions []Action, resolve func(Action) Action) error {
	var removes, later []Action
	for _, a := range actions {
		if a.Op == Compare {
			a = resolve(a)
		}
		switch {
		case a.Op == Remove:
			removes = append(removes, a)
		case (a.Op == Create || a.Op == Link) && a.Source.Kind != mover.Dir && a.Target.Kind == mover.Dir:
			later = append(later, a)
		case a.Op == Link && slices.ContainsFunc(later, func(l Action) bool { return l.Source.Name == a.Link }):
			later = append(later, a)
		default:
			if err := w.do(a); err != nil {
				return err
			}
		}
	}
	for _, a := range slices.Backward(removes) {
		if err := w.drop(a.Target); err != nil {
			return err
		}
	}
	for _, a := range later {
		if err := w.do(a); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) do(a Action) error {
	switch a.Op {
	case Keep, Conflict:
		return nil
	case Update:
		t := w.entries[key(a.Source.Name, a.Source.Kind)]
		if t == nil {
			return fmt.Errorf("%q is updated and not there", a.Source.Name)
		}
		for _, e := range w.entries { // other names of the inode change too
			if e.Ino == t.Ino {
				e.Mode, e.UID, e.GID, e.Mtime, e.Xattrs = a.Source.Mode, a.Source.UID, a.Source.GID, a.Source.Mtime, a.Source.Xattrs
			}
		}
		return nil
	case Create, Replace:
		if err := w.vacate(a); err != nil {
			return err
		}
		return w.put(a.Source)
	case Link:
		if err := w.vacate(a); err != nil {
			return err
		}
		return w.link(a)
	}
	return fmt.Errorf("%q: %v is no action to do", a.Name(), a.Op)
}

// vacate makes room for what a makes.
func (w *world) vacate(a Action) error {
	t := w.entries[key(a.Target.Name, a.Target.Kind)]
	there := w.entries[key(a.Source.Name, a.Source.Kind)]
	if a.Target.Kind == 0 && there != nil {
		return fmt.Errorf("%q: %v (%s), but it is there", a.Source.Name, a.Op, a.Why)
	}
	if a.Target.Kind == mover.Dir && a.Source.Kind != mover.Dir {
		if t != nil {
			return fmt.Errorf("%q takes the place of a directory that was not removed", a.Source.Name)
		}
		return nil
	}
	if a.Target.Kind != 0 {
		return w.drop(a.Target)
	}
	return nil
}

func (w *world) link(a Action) error {
	leader := w.entries[a.Link]
	if leader == nil {
		return fmt.Errorf("%q is linked to %q, which is not there", a.Source.Name, a.Link)
	}
	e := *leader
	e.Name = a.Source.Name
	w.entries[e.Name] = &e
	for _, other := range w.entries {
		if other.Ino == e.Ino {
			other.Nlink = e.Nlink + 1
		}
	}
	return nil
}

// genWorld draws trees with names that are close to each other: the traps are
// where one name begins with another, and the next byte sorts before the slash.
func genWorld(t *rapid.T, label string, both bool) *world {
	w := newWorld()
	w.both = both
	segment := rapid.SampledFrom([]string{"a", "a!", "a-", "a-b", "a.x", "a0", "b", "a!/a", "\xff", "\n", "ab"})
	for range rapid.IntRange(0, 14).Draw(t, label+" entries") {
		depth := rapid.IntRange(1, 3).Draw(t, "depth")
		var segments []string
		for range depth {
			segments = append(segments, segment.Draw(t, "segment"))
		}
		w.grow(t, strings.Join(segments, "/"))
	}
	return w
}

// grow adds name and its directories, where that is possible.
func (w *world) grow(t *rapid.T, name string) {
	for i := range len(name) {
		if name[i] == '/' && w.entries[name[:i]+"/"] == nil {
			if w.entries[name[:i]] != nil && !w.both {
				return
			}
			_ = w.put(genEntry(t, name[:i], mover.Dir))
		}
	}
	kind := rapid.SampledFrom([]mover.Kind{mover.File, mover.File, mover.File, mover.Dir, mover.Symlink, mover.FIFO, mover.CharDevice}).Draw(t, "kind")
	if w.entries[key(name, kind)] != nil || w.twin(name, kind) != nil && !w.both {
		return
	}
	if kind != mover.Dir && rapid.IntRange(0, 3).Draw(t, "hard link") == 0 {
		if leader := w.pick(t); leader != nil {
			must.Do(t, w.link(Action{Source: mover.Entry{Name: name}, Link: leader.Name}))
			return
		}
	}
	must.Do(t, w.put(genEntry(t, name, kind)))
}

// pick returns something that can be linked to.
func (w *world) pick(t *rapid.T) *mover.Entry {
	all := slices.DeleteFunc(w.sorted(), func(e mover.Entry) bool { return e.Kind == mover.Dir })
	if len(all) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(all)-1).Draw(t, "leader")
	return w.entries[all[i].Name]
}

const plainKnown = plainFacts | mover.FactLinks | mover.FactXattrs

func genEntry(t *rapid.T, name string, kind mover.Kind) mover.Entry {
	small := rapid.IntRange(0, 1)
	e := mover.Entry{Name: name, Kind: kind, Known: plainKnown}
	e.Mode = uint32(0o700 + small.Draw(t, "mode"))
	e.Mtime.Nsec = int32(small.Draw(t, "mtime"))
	e.UID = uint32(small.Draw(t, "uid"))
	switch kind {
	case mover.File:
		e.Size = int64(small.Draw(t, "size"))
	case mover.Symlink:
		e.Target = []string{"x", "y"}[small.Draw(t, "link target")]
	case mover.CharDevice:
		e.Rdev = uint64(small.Draw(t, "rdev"))
	}
	if small.Draw(t, "xattr") == 1 {
		e.Xattrs = []mover.Xattr{{Name: "user.a", Value: []byte{byte(small.Draw(t, "value"))}}}
	}
	return e
}

// facts prints what must be equal of an entry.
func facts(e *mover.Entry) string {
	mode := e.Mode
	if e.Kind == mover.Symlink {
		mode = 0
	}
	return fmt.Sprintf("%q %v size %d mode %o uid %d mtime %v -> %q rdev %d %v", e.Name, e.Kind, e.Size, mode, e.UID, e.Mtime, e.Target, e.Rdev, e.Xattrs)
}
