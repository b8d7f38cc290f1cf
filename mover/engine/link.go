package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
)

// openNamed is openSource for what is named to be copied: a link at the end of the name is followed, and what it leads to goes by the name of
// the link. A link in a tree is an entry like others.
func openNamed(ctx context.Context, l location.Location, open Opener, o OpenOptions) (mover.Backend, error) {
	if l.InStore() && !l.TrailingSlash {
		if one, err := openOne(ctx, l, finding(open), o); err == nil || !errors.Is(err, mover.ErrNotExist) {
			return one, err
		}
		return open(ctx, l, o)
	}
	at, err := followed(l)
	if err != nil {
		return nil, err
	}
	if at == l {
		return openSource(ctx, l, open, o)
	}
	place, err := openOne(ctx, at, open, o)
	if err != nil {
		return nil, err
	}
	if file, ok := place.(*singleFile); ok {
		file.as = l.Base()
	}
	return place, nil
}

// followed is where a link leads that a location names; a folder is opened through its link.
func followed(l location.Location) (location.Location, error) {
	if !l.IsPath() || l.TrailingSlash {
		return l, nil
	}
	info, err := os.Lstat(l.Path)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		return l, nil //nolint:nilerr // its opening tells what is wrong
	}
	to, err := filepath.EvalSymlinks(l.Path)
	if err == nil {
		info, err = os.Stat(to)
	}
	if err != nil {
		return l, &mover.Error{Op: "follow the link", Location: l.String(), Err: fmt.Errorf("%w; name the folder around it to copy the link itself", leadsNowhere(l.Path, err))}
	}
	if !info.Mode().IsRegular() {
		return l, nil
	}
	l.Path = to
	return l, nil
}

// leadsNowhere is why a link can not be followed.
func leadsNowhere(link string, err error) error {
	to, _ := os.Readlink(link)
	to = mover.Printable(to)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: it leads to %s", mover.ErrNotExist, to)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: it leads to %s", mover.ErrPermission, to)
	}
	return fmt.Errorf("%w: it leads to %s, and that back to it", mover.ErrUsage, to) // filepath.EvalSymlinks counts 255 links, and stat(2) 40
}

// outward counts links that were copied as links, and lead out of the tree that was copied.
type outward struct {
	links int64
	first string // what one is like
}

// add counts the link of a result.
func (l *outward) add(op plan.Op, e *mover.Entry) {
	if e.Kind != mover.Symlink || op != plan.Create && op != plan.Replace || !leaves(e.Name, e.Target) {
		return
	}
	if l.links++; l.links == 1 {
		l.first = mover.Printable(e.Name) + " -> " + mover.Printable(e.Target)
	}
}

// leaves reports whether the target of a link lies outside of the tree by its text.
func leaves(name, target string) bool {
	if path.IsAbs(target) {
		return true
	}
	dir, _ := mover.Parent(name)
	to := path.Join(dir, target)
	return to == ".." || strings.HasPrefix(to, "../")
}

func (l *outward) notes() []string {
	if l.links == 0 {
		return nil
	}
	return []string{fmt.Sprintf("links that lead out of the source, copied without what they lead to: %d, of which the first is %s", l.links, l.first)}
}
