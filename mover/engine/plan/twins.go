package plan

import (
	"strings"

	"datamove.dev/mover"
)

// A file "a" sorts before "a.txt", and a directory "a" behind it: when the two
// sides have different kinds under one name, they meet at different places of the
// merge. What may have such a twin waits in merge.waiting until the merge comes to
// where the twin would be. Whatever waits is a prefix of the current name, so there
// are never more than a name has bytes.

// mayPrecede reports whether name is, or sorts before, a directory named as file
// is, given that it sorts behind that file.
func mayPrecede(file, name string) bool {
	return strings.HasPrefix(name, file) && (len(name) == len(file) || name[len(file)] < '/')
}

// spans reports whether name is dir, lies in it, or sorts between a file of the
// directory's name and the directory.
func spans(dir, name string) bool {
	return strings.HasPrefix(name, dir) && (len(name) == len(dir) || name[len(dir)] <= '/')
}

// advance forgets what the merge has passed when it comes to e.
func (m *merge) advance(e *mover.Entry) bool {
	if !m.release(e) {
		return false
	}
	for n := len(m.files); n > 0 && !mayPrecede(m.files[n-1], e.Name); n-- {
		m.files = m.files[:n-1]
	}
	for n := len(m.kept); n > 0 && !mover.Within(e.Name, m.kept[n-1].source.Name); n-- {
		m.kept = m.kept[:n-1]
	}
	m.unknownSource = passed(m.unknownSource, e.Name)
	m.unknownTarget = passed(m.unknownTarget, e.Name)
	if !mover.Within(e.Name, m.inConflict) {
		m.inConflict = ""
	}
	return true
}

// passed drops the names at the end of dirs that have nothing to do with name.
func passed(dirs []string, name string) []string {
	for n := len(dirs); n > 0 && !spans(dirs[n-1], name); n-- {
		dirs = dirs[:n-1]
	}
	return dirs
}

// within reports whether name is one of dirs, or below one.
func within(name string, dirs []string) bool {
	for _, dir := range dirs {
		if mover.Within(name, dir) {
			return true
		}
	}
	return false
}

// release decides about everything that waits and has no twin, now that the merge
// comes to e; nil is the end of both sides.
func (m *merge) release(e *mover.Entry) bool {
	for n := len(m.waiting); n > 0; n-- {
		w := &m.waiting[n-1]
		if e != nil && mayPrecede(w.entry.Name, e.Name) {
			return true
		}
		m.waiting = m.waiting[:n-1]
		if w.source && !m.create(&w.entry) || !w.source && !m.remove(&w.entry) {
			return false
		}
	}
	return true
}

// takeTwin returns what waits for the directory dir on the given side.
func (m *merge) takeTwin(dir *mover.Entry, source bool) (mover.Entry, bool) {
	n := len(m.waiting)
	if n == 0 || m.waiting[n-1].source != source || m.waiting[n-1].entry.Name != dir.Name {
		return mover.Entry{}, false
	}
	w := m.waiting[n-1]
	m.waiting = m.waiting[:n-1]
	return w.entry, true
}

// remember notes that the source has something at the name of s that is no
// directory.
func (m *merge) remember(s *mover.Entry) {
	if !m.Both && s.Kind != mover.Dir {
		m.files = append(m.files, s.Name)
	}
}

// conflict deals with a source that has a file and a directory of one name, when
// the target can not. The one that the target has already wins, or else the file;
// the other one, with everything below it, is a Conflict. It reports whether s was
// dealt with, and whether to go on.
func (m *merge) conflict(s, t *mover.Entry) (goOn, done bool) {
	if m.inConflict == "" {
		n := len(m.files)
		if s.Kind != mover.Dir || n == 0 || m.files[n-1] != s.Name {
			return true, false
		}
		file, waits := m.takeTwin(s, true)
		if waits && t != nil {
			ok := m.emit(&Action{Op: Conflict, Source: file, Target: *t, Why: WhyBothKinds})
			return ok, !ok
		}
		if waits && !m.create(&file) {
			return false, true
		}
		m.inConflict = s.Name
	}
	a := Action{Op: Conflict, Source: *s, Why: WhyBothKinds}
	if t != nil {
		a.Target = *t
	}
	return m.emit(&a), true
}

// kept is a directory that needs nothing done so far.
type kept struct{ source, target mover.Entry }

// emitParent yields the directory that a changes the entries of, if it was kept
// back because it is a Keep.
func (m *merge) emitParent(a *Action) bool {
	if len(m.kept) == 0 || !changesParent(a) {
		return true
	}
	dir, _ := mover.Parent(a.Name())
	for i := len(m.kept) - 1; i >= 0; i-- {
		k := m.kept[i]
		if k.source.Name != dir {
			continue
		}
		m.kept = append(m.kept[:i], m.kept[i+1:]...)
		return m.yield(Action{Op: Keep, Source: k.source, Target: k.target, Why: WhyChildren}, nil)
	}
	return true
}

// changesParent reports whether doing a may change the directory that a's name is in.
func changesParent(a *Action) bool {
	switch a.Op {
	case Create, Replace, Link, Remove:
		return true
	case Compare:
		return a.Source.Kind != mover.Dir
	}
	return false
}
