package engine

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// spotted is where something is: see mover.Locator. The zero value is not known.
type spotted struct{ volume, path string }

func (s spotted) known() bool { return s.volume != "" }

// holds reports whether other is s, or lies in it.
func (s spotted) holds(other spotted) bool {
	return s.known() && s.volume == other.volume && mover.Within(other.path, s.path)
}

// located says where a place is.
func located(place mover.Source) (at spotted) {
	if l, ok := mover.As[mover.Locator](place); ok {
		if volume, path, err := l.Located(); err == nil {
			at = spotted{volume, path}
		}
	}
	if one, ok := mover.As[*singleFile](place); ok && at.known() {
		at.path = mover.Join(at.path, one.name)
	}
	return at
}

// locatedAt says where a path is or will be, of which only what is above it may be there. Nothing is made.
func locatedAt(ctx context.Context, l location.Location, open Opener, o OpenOptions) (spotted, error) {
	o.Write, o.Backup = false, ""
	rest := ""
	for {
		place, err := open(ctx, l, o)
		if err == nil {
			at := located(place)
			if rest != "" {
				at.path = mover.Join(at.path, rest)
			}
			return at, place.Close()
		}
		parent, name, ok := l.Parent()
		if !ok || ctx.Err() != nil {
			return spotted{}, ctx.Err() // the call that opens the path reports the error
		}
		if l = parent; rest != "" {
			name = mover.Join(name, rest)
		}
		rest = name
	}
}

// apart refuses a target that the source would grow into, a delete that would reach the source, and a backup that would be written
// over it, by whatever names they go: text, links, mounts, two tiers of one bucket.
func (p *pair) apart(ctx context.Context, src, dst location.Location, open Opener, o OpenOptions) error {
	r := p.request
	if err := apartByName(src, dst, r.Delete); err != nil {
		return err
	}
	if !src.IsPath() || !dst.IsPath() {
		return nil // of buckets the places tell when both are open
	}
	from := located(p.source)
	if !from.known() {
		return nil
	}
	to, err := locatedAt(ctx, dst, open, o)
	if err == nil {
		err = apartByPlace(src, dst, from, to, r.Delete)
	}
	if err == nil && r.Backup != "" {
		var backup spotted
		backup, err = locatedAt(ctx, location.OfPath(r.Backup), open, o)
		if err == nil {
			err = apartFromBackup(src, r.Backup, from, backup)
		}
	}
	return err
}

// apartBuckets is apart for two buckets.
func (p *pair) apartBuckets(ctx context.Context, src, dst location.Location, open Opener, o OpenOptions) error {
	if !src.InStore() || !dst.InStore() {
		return nil
	}
	from, to := located(p.source), located(p.target)
	if p.request.Backup != "" {
		backup := spotted{to.volume, strings.Trim(p.request.Backup, "/")}
		if err := apartFromBackup(src, p.request.Backup, from, backup); err != nil {
			return err
		}
	}
	if err := apartByPlace(src, dst, from, to, p.request.Delete); err != nil || src.Bucket != dst.Bucket {
		return err
	}
	// Two hosts may be two names of one store: then what the source has is at the target, too.
	same := spotted{from.volume, to.path}
	err := apartByPlace(src, dst, from, same, p.request.Delete)
	if err == nil || from.volume == to.volume || from.path == to.path {
		return nil
	}
	through := dst
	through.Prefix, through.TrailingSlash = src.Prefix, src.TrailingSlash
	other, openErr := openSource(ctx, through, open, o)
	if openErr != nil {
		return nil // it is not there
	}
	defer other.Close()
	if shows(ctx, p.source, other) {
		return err
	}
	return nil
}

// looks is how many entries are compared to tell whether two places are one.
const looks = 3

// shows reports whether the first files of one place are in the other, byte for byte as their stores say.
func shows(ctx context.Context, a, b mover.Source) bool {
	seen := 0
	for e, err := range a.Walk(ctx, mover.WalkOptions{}) {
		if err != nil {
			return false
		}
		if e.Kind == mover.Dir {
			continue
		}
		other, err := b.Stat(ctx, e.Name)
		if err != nil || other.Size != e.Size || e.ETag != "" && other.ETag != e.ETag {
			return false
		}
		if seen++; seen == looks {
			break
		}
	}
	return seen > 0
}

func apartByPlace(src, dst location.Location, from, to spotted, deletes bool) error {
	if !from.known() || from.volume != to.volume {
		return nil
	}
	return refuseNested(src, dst, from.path, to.path, deletes)
}

func apartFromBackup(src location.Location, backup string, from, to spotted) error {
	switch {
	case from.holds(to):
		return fmt.Errorf("%w: the backup directory %s lies in the source %s, and would be written over it", mover.ErrUsage, mover.Printable(backup), src)
	case to.holds(from):
		return fmt.Errorf("%w: the source %s lies in the backup directory %s, which would be written over it", mover.ErrUsage, src, mover.Printable(backup))
	}
	return nil
}

// apartByName is apart as far as the words tell.
func apartByName(src, dst location.Location, deletes bool) error {
	if src.IsPath() != dst.IsPath() || !src.IsPath() && src.Root() != dst.Root() {
		return nil
	}
	a, b := src.Prefix, dst.Prefix
	if src.IsPath() {
		a, b = real(src.Path), real(dst.Path)
	}
	return refuseNested(src, dst, a, b, deletes)
}

// refuseNested refuses two paths of one volume of which one holds the other.
func refuseNested(src, dst location.Location, from, to string, deletes bool) error {
	switch {
	case from == to:
		return fmt.Errorf("%w: source and target are the same: %s%s", mover.ErrUsage, src, otherName(src, dst))
	case mover.Within(to, from):
		return fmt.Errorf("%w: the target %s lies inside the source %s", mover.ErrUsage, dst, src)
	case deletes && mover.Within(from, to):
		return fmt.Errorf("%w: the source %s lies inside the target %s, and a sync that deletes would remove it", mover.ErrUsage, src, dst)
	}
	return nil
}

func otherName(src, dst location.Location) string {
	if a, b := src.String(), dst.String(); a != b {
		return ", by another name " + b
	}
	return ""
}

// unmet ends a walk that comes by the root of the other side, which it should not hold: nothing that looks at names finds a file
// system that is mounted below.
func unmet(walk iter.Seq2[mover.Entry, error], root *mover.Entry, what string) iter.Seq2[mover.Entry, error] {
	if root.Ino == 0 || root.Dev == 0 {
		return walk
	}
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range walk {
			if err == nil && e.Kind == mover.Dir && e.Ino == root.Ino && e.Dev == root.Dev {
				yield(mover.Entry{}, fmt.Errorf("%w: %s, as %s", mover.ErrUsage, what, mover.Printable(e.Name)))
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// guarded keeps the walks of two file systems from each other.
func (p *pair) guarded(ctx context.Context, source, target iter.Seq2[mover.Entry, error]) (s, t iter.Seq2[mover.Entry, error]) {
	if p.system == "" {
		return source, target
	}
	if to, err := p.target.Stat(ctx, ""); err == nil {
		source = unmet(source, &to, "the target lies inside the source")
	}
	if from, err := p.source.Stat(ctx, ""); err == nil && p.request.Delete {
		target = unmet(target, &from, "the source lies inside the target, and a sync that deletes would remove it")
	}
	return source, target
}
