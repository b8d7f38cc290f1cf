package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
)

// Each yields what is or could be a checkpoint in a folder, the newest first, and looks into one after the other. Memory is that of one, and a caller that
// stops early has not looked into the rest. A set with a file that speaks against it ([Check]) is not complete. The
// view has the trackers, and of the sets the one that is yielded.
func Each(ctx context.Context, f Folder, p Profile) iter.Seq2[Found, error] {
	return each(ctx, f, p, true)
}

// Glance is Each without a look into files: a caller that looks again and again looks into them once nothing changes any more.
func Glance(ctx context.Context, f Folder, p Profile) iter.Seq2[Found, error] {
	return each(ctx, f, p, false)
}

func each(ctx context.Context, f Folder, p Profile, inside bool) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		top, err := f.Top(ctx)
		if err != nil {
			yield(Found{}, err)
			return
		}
		all, err := inOrder(ctx, f, p, top)
		if err != nil {
			yield(Found{}, err)
			return
		}
		for i, at := range all {
			found, is, err := look(ctx, f, p, top, at.name, inside)
			if err != nil {
				yield(Found{}, err)
				return
			}
			found.Saved, found.Current, found.Beyond = at.saved, at.current, beyond(all[i:])
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

	// Current orders the sets of a folder, the newest has the most: when it was saved, or when the tracker was written that names it. Each has it. ns.
	Current int64
	// Beyond are sets of the same run that were saved before it, and have a later step: the run was rolled back. Each has it.
	Beyond []string
}

// moment is when something that could be a set was saved.
type moment struct {
	name           string
	step           int64
	saved, current int64
}

// inOrder are the entries that could be sets, the newest first.
func inOrder(ctx context.Context, f Folder, p Profile, top Tree) ([]moment, error) {
	entries := newestFirst(top)
	all := make([]moment, len(entries))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(ownAtOnce)
	for i, e := range entries {
		asking.Go(func() error {
			when, err := e.Modified, error(nil)
			if e.Kind == Dir || forms[p].file != nil && forms[p].file(e.Name) {
				when, err = f.Saved(ctx, p, top, e.Name)
			}
			if unseen(err) { // a look at it says so, where it comes to that
				when, err = e.Modified, nil
			}
			all[i] = moment{e.Name, StepOf(e.Name), when, max(when, top.trackedAt(p, e.Name))}
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b moment) int {
		return -older(Set{Name: a.name, Step: a.step, Saved: a.current}, Set{Name: b.name, Step: b.step, Saved: b.current})
	})
	return all, nil
}

// unseen says whether an error is of something that is not for us, or too large.
func unseen(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, mover.ErrPermission) || errors.Is(err, mover.ErrRefused)
}

// trackedAt is when a tracker was written that names a set as the newest; 0 is never. A store says when it came there, and that of a framework which
// reads it is believed nevertheless: what it has not come to is not complete.
func (t Tree) trackedAt(p Profile, set string) (when int64) {
	for _, name := range forms[p].trackers {
		if t.Loose && p != DeepSpeed && name != megatronTracker {
			continue
		}
		if e := t.under(name); e != nil && name != universalTracker && t.tracked(name) == set {
			when = max(when, e[0].Modified)
		}
	}
	return when
}

// beyond are those of the run of the first that come behind it in the order, and have a later step.
func beyond(all []moment) (names []string) {
	first := all[0]
	for _, at := range all[1:] {
		if first.step >= 0 && at.step > first.step && withoutStep(at.name) == withoutStep(first.name) {
			names = append(names, at.name)
		}
	}
	return names
}

// newestFirst are the entries that could be sets, by their steps: a guess at which are the newest.
func newestFirst(top Tree) []Entry {
	all := slices.DeleteFunc(top.top(), func(e Entry) bool { return e.Kind != Dir && e.Kind != File })
	slices.SortFunc(all, func(a, b Entry) int {
		return -cmp.Or(cmp.Compare(StepOf(a.Name), StepOf(b.Name)), cmp.Compare(a.Modified, b.Modified), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// savedLast are files that frameworks write in a save, at its end where there is one: what comes into the set later does not make it a younger one.
var savedLast = map[Profile][]string{
	Plain:     {"_SUCCESS", ".complete", orbaxCommit},
	DCP:       {".metadata"},
	Megatron:  {".metadata", "mp_rank_00/" + megatronStates, "mp_rank_00_000/" + megatronStates},
	DeepSpeed: {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt"},
	Orbax:     {orbaxMetadata, orbaxCommit, "_METADATA"},
	HF:        {"trainer_state.json"},
	NeMo:      {"weights/.metadata", "model_weights/.metadata", "model/.metadata", ".metadata"},
}

// savedAt is when a set was saved, and the file of it that says so; "" is its record.
func (t Tree) savedAt(p Profile, set string) (file string, when int64) {
	inside := t.under(set)
	if len(inside) == 0 {
		return "", 0
	}
	p = profileIn(p, t, inside)
	c, listed := t.Commits[set]
	if !listed || c.Torn != "" {
		return savedAt(p, inside, nil)
	}
	return savedAt(p, inside, &c)
}

// savedAt is that of savedLast which is there, or the youngest file. The record of a copy has the times that its source had.
func savedAt(p Profile, inside []Entry, c *Commit) (file string, when int64) {
	last := savedLast[p]
	if c != nil {
		inside = nil
		for _, f := range c.Files {
			inside = append(inside, Entry{Name: "/" + f.Name, Kind: File, Modified: f.Modified})
		}
	}
	first := len(last)
	for _, e := range inside {
		_, name, _ := strings.Cut(e.Name, "/")
		at := slices.Index(last, name)
		switch {
		case e.Kind != File || name == Committed || e.Modified == 0:
		case at >= 0 && at < first:
			file, when, first = e.Name, e.Modified, at
		case first == len(last) && e.Modified > when:
			file, when = e.Name, e.Modified
		}
	}
	switch {
	case c != nil && when == 0:
		return "", c.Created.UnixNano()
	case c != nil:
		return "", when
	case when == 0 && len(inside) > 0:
		return "", inside[0].Modified
	}
	return file, when
}

// look looks into one.
func look(ctx context.Context, f Folder, p Profile, top Tree, name string, inside bool) (found Found, is bool, err error) {
	tree, err := f.Deep(ctx, top, name)
	if err != nil {
		return found, false, err
	}
	tree.looks = true
	if p == Orbax || p == Mixed && orbaxStep().MatchString(name) {
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
	found = Found{Set: s, View: v, Tree: tree}
	if is && s.Complete && inside {
		if found.Why, err = Check(ctx, f, found); found.Why != "" || err != nil {
			found.Complete, found.Sealed = false, false
		}
	}
	return found, is, err
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
	return look(ctx, f, p, top, name, true)
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
