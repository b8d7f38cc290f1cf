package plan

import (
	"fmt"
	"iter"
	"strings"

	"datamove.dev/mover"
)

// Diff merges two walks, each in the order of mover.Compare, and yields what is to
// be done. It reads both as it goes, and stops reading when the caller stops.
//
// Actions come in the order of the walks, with one exception: an action on
// something that is not a directory may come later, but before any name that sorts
// behind "name/", when only the entries that sort before "name/" can tell whether
// the other side has a directory there.
//
// Diff removes nothing in a file system that is mounted in the target (mover.Entry.Elsewhere). Instead of the removals below a mount,
// one Conflict without a Source names the mount point.
//
// A source that is not a directory where the target has one is a Conflict. With
// Options.Delete it is a Create with the directory as its Target, followed by the
// Removes of the directory and of all below it. It has to wait for them. A
// directory that is Keep is yielded, also without Options.Keeps, before the first
// action that changes what is directly in it (WhyChildren). Its times have to
// be set again.
//
// An error of a walk that comes with an entry passes through, with the entry as
// the Source or Target of an empty action, and the merge goes on: nothing at or
// below such a name of the source is removed, and what is below such a directory
// of the target is created again (WhyTargetUnknown). Any other error, and a walk
// out of order, ends the sequence after it was yielded. After any error the caller
// must not remove anything, unless the Source of its action has a Key: such an object
// is all that is left out. With Options.Delete one of the target is removed. With Options.AnyKey there is no error of it.
func Diff(source, target iter.Seq2[mover.Entry, error], o Options) iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		next, stop := iter.Pull2(target)
		defer stop()
		m := merge{Options: o, yield: yield, next: next}
		m.links.limit = o.MaxLinks
		if !m.pull() {
			return
		}
		for e, err := range source {
			if err != nil && !m.holds(&e) {
				if !m.sourceError(&e, err) {
					return
				}
			} else if !m.source(&e) {
				return
			}
		}
		m.finish()
	}
}

// merge is the state of one Diff. Its methods that return a bool return false when
// the sequence is over.
type merge struct {
	Options
	yield func(Action, error) bool
	next  func() (mover.Entry, error, bool)

	head    mover.Entry // the target's next entry while more, or what headErr is about
	headErr error
	more    bool

	lastSource, lastTarget place // to notice a walk out of order

	waiting []waiting // entries that need to know of a later directory; each name begins with the one before
	files   []string  // source entries that are no directories, as far as such a directory may come
	kept    []kept    // directories on the way down that are Keep and were not yielded

	unknownSource, unknownTarget []string // names on the way down that could not be listed

	inConflict string  // a directory that is not made; "" is none
	mounts     []mount // where other file systems are mounted in the target, as far as it was read
	links      links
}

// mount is where another file system is mounted.
type mount struct {
	at   mover.Entry
	told bool // that something of it stays
}

// waiting is an entry, not a directory, that the other side has no such entry for
// but may have a directory of the same name.
type waiting struct {
	entry  mover.Entry
	source bool // it is of the source
}

// place is a position in a walk.
type place struct {
	name string
	kind mover.Kind
}

func placeOf(e *mover.Entry) place { return place{e.Name, e.Kind} }

func (p place) before(e *mover.Entry) bool {
	return p.kind == 0 || mover.CompareNames(p.name, p.kind == mover.Dir, e.Name, e.Kind == mover.Dir) < 0
}

// pull reads the target's next entry into head.
func (m *merge) pull() bool {
	m.head, m.headErr, m.more = m.next()
	if !m.more {
		return true
	}
	if m.holds(&m.head) {
		m.headErr = nil
	}
	if m.headErr != nil && m.head.Key == "" {
		if m.head.Name == "" {
			m.yield(Action{Target: m.head}, m.headErr)
			return false
		}
		return true
	}
	if !m.lastTarget.before(&m.head) {
		return m.outOfOrder("target", m.lastTarget.name, m.head.Name)
	}
	m.lastTarget = placeOf(&m.head)
	if n := len(m.mounts); m.head.Elsewhere && (n == 0 || !mover.Within(m.head.Name, m.mounts[n-1].at.Name)) {
		m.mounts = append(m.mounts, mount{at: m.head})
	}
	return true
}

// holds says whether an entry that no name leads to is as good as others. The content of a directory's marker is not: what makes the
// directory may replace it.
func (m *merge) holds(e *mover.Entry) bool {
	return m.AnyKey && e.Key != "" && !strings.HasSuffix(e.Key, "/")
}

func (m *merge) outOfOrder(side, before, after string) bool {
	m.yield(Action{}, fmt.Errorf("the walk of the %s is out of order: %q after %q", side, after, before))
	return false
}

// source merges one entry of the source.
func (m *merge) source(s *mover.Entry) bool {
	if !m.lastSource.before(s) {
		return m.outOfOrder("source", m.lastSource.name, s.Name)
	}
	m.lastSource = placeOf(s)
	if !m.targetsBefore(s) || !m.advance(s) {
		return false
	}
	var t *mover.Entry
	if m.more && m.headErr == nil && mover.Compare(s, &m.head) == 0 {
		found := m.head
		t = &found
		if !m.pull() {
			return false
		}
	}
	if goOn, conflict := m.conflict(s, t); conflict {
		return goOn
	}
	if t == nil {
		return m.sourceOnly(s)
	}
	return m.both(s, t)
}

// sourceError passes an error of the source through.
func (m *merge) sourceError(e *mover.Entry, err error) bool {
	if e.Key != "" {
		if !m.lastSource.before(e) {
			return m.outOfOrder("source", m.lastSource.name, e.Name)
		}
		m.lastSource = placeOf(e)
	}
	if e.Name != "" && !m.targetsBefore(e) {
		return false
	}
	if e.Key != "" && m.more && m.headErr != nil && m.head.Key == e.Key && !m.pull() { // the target has it as well, and keeps it
		return false
	}
	if !m.yield(Action{Source: *e}, err) || e.Name == "" {
		return false
	}
	m.unknownSource = append(m.unknownSource, e.Name)
	return true
}

// targetsBefore deals with what the target has before s, errors at s included.
func (m *merge) targetsBefore(s *mover.Entry) bool {
	for m.more {
		c := mover.Compare(&m.head, s)
		if c > 0 || c == 0 && (m.headErr == nil || m.head.Key != "" && m.head.Key == s.Key) {
			return true
		}
		if !m.targetNext(s) {
			return false
		}
	}
	return true
}

// finish deals with what is left when the source has ended well.
func (m *merge) finish() {
	for m.more {
		if !m.targetNext(nil) {
			return
		}
	}
	m.release(nil)
}

// targetNext deals with the head of the target, which the source has not. s is
// where the source is; nil is at its end.
func (m *merge) targetNext(s *mover.Entry) bool {
	t, err := m.head, m.headErr
	if err != nil && t.Key != "" { // nothing of the source can have it, and nothing else is unknown for it
		return m.advance(&t) && m.pull() && (!m.removable(&t) || m.emit(&Action{Op: Remove, Target: t, Why: WhyNotInSource}))
	}
	if err != nil {
		m.unknownTarget = append(m.unknownTarget, t.Name)
		return m.yield(Action{Target: t}, err) && m.pull()
	}
	return m.advance(&t) && m.pull() && m.targetOnly(&t, s)
}

// both decides about an entry that both sides have, directories or not.
func (m *merge) both(s, t *mover.Entry) bool {
	m.remember(s)
	op, why := m.decide(s, t)
	return m.emit(&Action{Op: op, Source: *s, Target: *t, Why: why})
}

// sourceOnly decides about an entry that the target has not, or not of this kind.
func (m *merge) sourceOnly(s *mover.Entry) bool {
	if s.Kind == mover.Dir {
		if w, ok := m.takeTwin(s, false); ok {
			return m.emit(&Action{Op: Create, Source: *s, Target: w, Why: WhyKind})
		}
		return m.create(s)
	}
	m.remember(s)
	if !m.Both && m.more && mayPrecede(s.Name, m.head.Name) {
		m.waiting = append(m.waiting, waiting{*s, true})
		return true
	}
	return m.create(s)
}

func (m *merge) create(s *mover.Entry) bool {
	why := WhyNew
	if within(s.Name, m.unknownTarget) {
		why = WhyTargetUnknown
	}
	return m.emit(&Action{Op: Create, Source: *s, Why: why})
}

// targetOnly decides about an entry that the source has not, or not of this kind.
func (m *merge) targetOnly(t, s *mover.Entry) bool {
	if t.Kind != mover.Dir {
		if !m.Both && s != nil && mayPrecede(t.Name, s.Name) {
			m.waiting = append(m.waiting, waiting{*t, false})
			return true
		}
		return m.remove(t)
	}
	file, ok := m.takeTwin(t, true)
	if !ok {
		return m.remove(t)
	}
	if !m.removable(t) {
		return m.emit(&Action{Op: Conflict, Source: file, Target: *t, Why: WhyDirInTheWay})
	}
	return m.emit(&Action{Op: Create, Source: file, Target: *t, Why: WhyKind}) && m.remove(t)
}

func (m *merge) removable(t *mover.Entry) bool {
	return m.Delete && !within(t.Name, m.unknownSource)
}

func (m *merge) remove(t *mover.Entry) bool {
	if t.Elsewhere && m.removable(t) {
		return m.spare(t)
	}
	return !m.removable(t) || m.emit(&Action{Op: Remove, Target: *t, Why: WhyNotInSource})
}

// spare tells once of a mounted file system that something of it stays. What is told of may lie behind what was read last.
func (m *merge) spare(t *mover.Entry) bool {
	for i := len(m.mounts) - 1; i >= 0; i-- {
		if at := &m.mounts[i]; mover.Within(t.Name, at.at.Name) {
			told := at.told
			at.told = true
			return told || m.emit(&Action{Op: Conflict, Target: at.at, Why: WhyMounted})
		}
	}
	return true // not reached: a mount is read before what is in it
}

// emit yields an action, after what the caller must know before it. Keep actions
// are yielded when they are asked for.
func (m *merge) emit(a *Action) bool {
	if keeps := m.compared().Has(mover.FactLinks); keeps || m.losesLinks() {
		m.links.apply(a, keeps)
	}
	if a.Op == Keep && !m.Keeps {
		if a.Source.Kind == mover.Dir {
			m.kept = append(m.kept, kept{a.Source, a.Target})
		}
		return true
	}
	return m.emitParent(a) && m.yield(*a, nil)
}
