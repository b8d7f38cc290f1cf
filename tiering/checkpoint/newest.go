package checkpoint

import (
	"context"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Newest finds the newest complete set in a directory, and looks into no more than it has to. "" is none. Of sets that nothing in them says
// to be complete it takes those that a tracker names, since trackers are copied last: [View.Resumable].
func Newest(ctx context.Context, dir *os.File, p Profile, l Limits) (string, error) {
	shallow := newReader(ctx, l)
	if err := shallow.read(dir, "", 1, false); err != nil {
		return "", err
	}
	top := shallow.tree()
	dirs := slices.DeleteFunc(top.top(), func(e Entry) bool { return e.Kind != Dir && e.Kind != File })
	slices.SortFunc(dirs, func(a, b Entry) int {
		return older(Set{Name: b.Name, Step: StepOf(b.Name), Modified: b.Modified}, Set{Name: a.Name, Step: StepOf(a.Name), Modified: a.Modified})
	})
	for _, e := range dirs {
		deep := newReader(ctx, l)
		deep.found.Entries, deep.found.Texts = slices.Clone(top.Entries), top.Texts
		if e.Kind == Dir {
			fd, err := open(dir, e.Name, unix.O_DIRECTORY)
			if passing(err) != nil {
				return "", err
			}
			if err != nil {
				continue
			}
			sub := os.NewFile(uintptr(fd), e.Name)
			err = deep.read(sub, e.Name+"/", 2, true)
			_ = sub.Close()
			if err != nil {
				return "", err
			}
		}
		v := Find(p, deep.tree())
		if s, ok := v.Set(e.Name); ok && v.Resumable(s) {
			return s.Name, nil
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
