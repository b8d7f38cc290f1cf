package checkpoint

import (
	"context"
	"iter"
	"os"
	"slices"
	"strings"
)

// Each yields what is or could be a checkpoint in a folder, the newest first, and looks into one after the other: memory is that of one, and who
// stops early has not looked into the rest. A set in whose files something speaks against it ([Torn]) is not complete. The
// view has the trackers, and of the sets the one that is yielded.
func Each(ctx context.Context, f Folder, p Profile) iter.Seq2[Found, error] {
	return each(ctx, f, p, f.Peek)
}

// Glance is Each without a look into files: who looks again and again looks into them once nothing changes any more.
func Glance(ctx context.Context, f Folder, p Profile) iter.Seq2[Found, error] {
	return each(ctx, f, p, nil)
}

func each(ctx context.Context, f Folder, p Profile, peek Peek) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		top, err := f.Top(ctx)
		if err != nil {
			yield(Found{}, err)
			return
		}
		for _, e := range newestFirst(top) {
			found, is, err := look(ctx, f, p, top, e.Name, peek)
			if err != nil {
				yield(Found{}, err)
				return
			}
			if is && !yield(found, nil) {
				return
			}
		}
	}
}

// Found is a set, and what can be seen beside it.
type Found struct {
	Set
	View View
	Tree Tree
}

// Made is when what is in the set was written: by its record, which goes with it, or as its files say. ns.
func (f Found) Made() (when int64) {
	if f.Commit != nil {
		for _, file := range f.Commit.Files {
			when = max(when, file.Modified)
		}
		if when == 0 {
			when = f.Commit.Created.UnixNano()
		}
		return when
	}
	for _, e := range f.Tree.under(f.Name) {
		if e.Kind == File {
			when = max(when, e.Modified)
		}
	}
	return when
}

// newestFirst are the entries that could be sets.
func newestFirst(top Tree) []Entry {
	all := slices.DeleteFunc(top.top(), func(e Entry) bool { return e.Kind != Dir && e.Kind != File })
	slices.SortFunc(all, func(a, b Entry) int {
		return older(Set{Name: b.Name, Step: StepOf(b.Name), Modified: b.Modified}, Set{Name: a.Name, Step: StepOf(a.Name), Modified: a.Modified})
	})
	return all
}

// look looks into one.
func look(ctx context.Context, f Folder, p Profile, top Tree, name string, peek Peek) (found Found, is bool, err error) {
	names := []string{name}
	if len(forms[p].trackers) > 0 { // it is compared with the set that the tracker names
		if at := top.tracked(p, forms[p].trackers[0]); at != "" && at != name && comparesWith(p) {
			names = append(names, at)
		}
	}
	tree, err := f.Deep(ctx, top, names...)
	if err != nil {
		return found, false, err
	}
	if p == Orbax {
		tree.habit(name, f.Peek)
	}
	v := Find(p, tree)
	s, is := v.Set(name)
	if is && strings.HasSuffix(s.Why, rewritten) {
		if tree, err = f.Own(ctx, tree, name); err != nil {
			return found, false, err
		}
		v = Find(p, tree)
		s, is = v.Set(name)
	}
	if is && s.Complete && peek != nil {
		if s.Why = Torn(tree, s, peek); s.Why != "" {
			s.Complete = false
		}
	}
	return Found{s, v, tree}, is, nil
}

// neighbours bounds how many others are asked whether Orbax says by a file that they are complete.
const neighbours = 16

// habit looks whether one of the newest others has such a file: then a set without one is not complete (byFile).
func (t *Tree) habit(name string, peek Peek) {
	left := neighbours
	for _, e := range newestFirst(*t) {
		if e.Kind != Dir || e.Name == name || !orbaxStep().MatchString(e.Name) {
			continue
		}
		if left--; left < 0 {
			return
		}
		file := e.Name + "/" + orbaxCommit
		if _, err := peek(file, 0, make([]byte, 1)); err != nil || t.under(e.Name) == nil {
			continue
		}
		i, found := slices.BinarySearchFunc(t.Entries, file, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
		if !found {
			t.Entries = slices.Insert(slices.Clone(t.Entries), i, Entry{Name: file, Kind: File})
		}
		return
	}
}

// comparesWith says whether sets of a profile are compared with the one that the tracker names.
func comparesWith(p Profile) bool { return p == Megatron || p == DeepSpeed }

// Look looks into the set of a name. is says whether there is one.
func Look(ctx context.Context, f Folder, p Profile, name string) (found Found, is bool, err error) {
	top, err := f.Top(ctx)
	if err != nil || top.under(name) == nil {
		return found, false, err
	}
	return look(ctx, f, p, top, name, f.Peek)
}

// Newest finds the newest complete set in a directory, and looks into no more than it has to. "" is none. Of sets that nothing in them says
// to be complete it takes those that a tracker names, since trackers are copied last: [View.Resumable].
func Newest(ctx context.Context, dir *os.File, p Profile, l Limits) (string, error) {
	for found, err := range Each(ctx, OnDisk(dir, l), p) {
		if err != nil {
			return "", err
		}
		if found.View.Resumable(found.Set) {
			return found.Name, nil
		}
	}
	return "", nil
}

// Resumable says whether a set can be gone on from where it was copied to: it is complete, and there is a mark in it, or a tracker that names it
// or has named it. Of a copy that goes on both come last.
func (v View) Resumable(s Set) bool {
	if !s.Complete || !Speakable(s.Name) {
		return false
	}
	return s.Mark != "" || slices.ContainsFunc(v.Trackers, func(t Tracker) bool {
		return t.Names == s.Name || strings.HasPrefix(t.Name, "latest") && t.Names != "" && StepOf(t.Names) > StepOf(s.Name)
	})
}
