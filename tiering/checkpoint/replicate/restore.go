package replicate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// Want says which checkpoint is wanted. The zero value wants the newest that is complete.
type Want struct {
	Name     string // "" is any
	Step     int64  // 0 is any
	Verified bool   // only a copy that was checked
}

// Candidate is a checkpoint that can be restored, and where it is.
type Candidate struct {
	*Folder
	checkpoint.Found
}

// At is where it is.
func (c Candidate) At() location.Location { return c.child(c.Name) }

// Passed is told why a checkpoint, or with no name all that is in a folder, is passed over.
type Passed func(f *Folder, name, why string)

// Candidates yields what is wanted, the newest first, and of each the nearest first: what is on a file system before what is in a store, and then as the folders are
// given. No more is looked at than is asked for. Folders that can not be read are passed over.
func Candidates(ctx context.Context, folders []*Folder, w Want, passed Passed) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		var all []*stream
		for i, f := range folders {
			next, stop := iter.Pull2(checkpoint.Each(ctx, f, f.Profile))
			defer stop()
			st := &stream{folder: f, rank: i, next: next}
			if f.root == nil {
				st.rank += len(folders)
			}
			st.advance(w, passed)
			all = append(all, st)
		}
		for {
			all = slices.DeleteFunc(all, func(s *stream) bool { return s.over })
			if len(all) == 0 || ctx.Err() != nil {
				return
			}
			first := slices.MinFunc(all, func(a, b *stream) int {
				return cmp.Or(newerFirst(a.head, b.head), cmp.Compare(a.rank, b.rank))
			})
			if !yield(Candidate{first.folder, first.head}) {
				return
			}
			first.advance(w, passed)
		}
	}
}

// newerFirst orders checkpoints as [checkpoint.Each] does, unless they are the same.
func newerFirst(a, b checkpoint.Found) int {
	if a.Name == b.Name && SaveOf(a) == SaveOf(b) {
		return 0
	}
	return -cmp.Or(cmp.Compare(a.Current, b.Current), cmp.Compare(a.Step, b.Step))
}

// stream is what comes out of one folder.
type stream struct {
	folder *Folder
	rank   int // the nearer the less
	next   func() (checkpoint.Found, error, bool)
	head   checkpoint.Found
	over   bool
}

// advance comes to the next that is wanted.
func (s *stream) advance(w Want, passed Passed) {
	for {
		found, err, more := s.next()
		if !more || err != nil {
			if err != nil {
				passed(s.folder, "", err.Error())
			}
			s.over = true
			return
		}
		if w.Name != "" && found.Name != w.Name || w.Step != 0 && found.Step != w.Step {
			continue
		}
		switch {
		case !found.Complete:
			passed(s.folder, found.Name, found.Why)
		case w.Verified && (found.Commit == nil || !found.Commit.Verified()):
			passed(s.folder, found.Name, "no copy of it was verified")
		default:
			s.head = found
			return
		}
	}
}

// Restored is what has come back.
type Restored struct {
	Candidate
	Result
	Decided time.Duration // that the choice took
}

// Restore brings what is wanted to a directory, from the nearest place that has it. When that fails, or its bytes are not those of its record, the next place is asked, and then
// the next older one. What has its name there, and is another save or not verified, is kept aside as Aside does, or the error is ErrTaken. Trackers of the framework name what has come.
func (s *Site) Restore(ctx context.Context, folders []*Folder, w Want, to *Folder, passed Passed) (r Restored, err error) {
	began, errs := time.Now(), []error{}
	for c := range Candidates(ctx, folders, w, passed) {
		if r.Decided == 0 {
			r.Decided = time.Since(began)
		}
		r.Candidate = c
		r.Result, err = s.restore(ctx, c, to)
		if err == nil {
			return r, s.pointTo(ctx, c, to)
		}
		if ctx.Err() != nil || errors.Is(err, ErrTaken) {
			return r, err
		}
		passed(c.Folder, c.Name, err.Error())
		errs = append(errs, err)
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if len(errs) > 0 {
		return r, errors.Join(errs...)
	}
	return r, None(folders, w)
}

// None is the error of nothing that is wanted.
func None(folders []*Folder, w Want) error {
	what, where := "no checkpoint that is complete", []string{}
	if w.Verified {
		what = "no checkpoint that is verified"
	}
	switch {
	case w.Name != "":
		what += " is called " + mover.Printable(w.Name)
	case w.Step != 0:
		what += fmt.Sprintf(" has step %d", w.Step)
	}
	for _, f := range folders {
		where = append(where, f.String())
	}
	return fmt.Errorf("%s in %s: %w", what, strings.Join(where, ", "), mover.ErrNotExist)
}

// pointTo makes the tracker of a framework that has one name what was restored.
func (s *Site) pointTo(ctx context.Context, c Candidate, to *Folder) error {
	if tracker, text := checkpoint.TrackerFor(c.Found.Profile, c.Name); tracker != "" {
		return s.point(ctx, to, Pointer{Name: tracker, Text: text})
	}
	return nil
}
