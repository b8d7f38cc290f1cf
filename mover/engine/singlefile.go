package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"syscall"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/location"
)

// openSource opens what a location names: a tree, or one entry of the tree
// around it.
func openSource(ctx context.Context, l location.Location, open Opener, o OpenOptions) (mover.Backend, error) {
	if l.InStore() && !l.TrailingSlash {
		if one, err := openOne(ctx, l, open, o); err == nil || !errors.Is(err, mover.ErrNotExist) {
			return one, err
		}
	}
	tree, err := open(ctx, l, o)
	if err == nil || l.InStore() || l.TrailingSlash {
		return tree, err
	}
	if one, oneErr := openOne(ctx, l, open, o); oneErr == nil { // a file, or a link that leads nowhere
		return one, nil
	}
	return nil, err
}

// openOne opens the tree around l and shows the entry of l's name alone.
func openOne(ctx context.Context, l location.Location, open Opener, o OpenOptions) (mover.Backend, error) {
	parent, base, ok := l.Parent()
	if !ok {
		return nil, mover.ErrNotExist
	}
	around, err := open(ctx, parent, o)
	if err != nil {
		return nil, err
	}
	var e mover.Entry
	err = retry.Do(ctx, retry.Options{Logger: o.Logger}, "stat", base, func() (err error) { e, err = around.Stat(ctx, base); return err })
	if err == nil && e.Kind == mover.Dir {
		err = mover.ErrNotExist
	}
	if err != nil {
		_ = around.Close()
		return nil, err
	}
	return &singleFile{Backend: around, name: base, as: base}, nil
}

// openTarget opens the tree that source goes to: l itself, or, for one entry, the
// tree around l, which then has only the entry of that name.
func openTarget(ctx context.Context, source mover.Source, l location.Location, open Opener, o OpenOptions) (mover.Backend, error) {
	if err := notSpecial(l, ""); err != nil {
		return nil, err
	}
	from, single := source.(*singleFile)
	if !single {
		tree, err := open(ctx, l, o)
		if !o.Write && isAbsent(err) {
			return absent{location: l, why: err}, nil
		}
		return tree, err
	}
	into := l.TrailingSlash
	if !into && !l.InStore() {
		if tree, err := open(ctx, l, OpenOptions{StateDir: o.StateDir, Logger: o.Logger}); err == nil {
			into = true
			_ = tree.Close()
		}
	}
	base := from.as
	if !into {
		parent, name, ok := l.Parent()
		if !ok {
			return nil, fmt.Errorf("%w: %s can not become a file", mover.ErrUsage, l)
		}
		l, base = parent, name
	}
	from.as = base
	if err := notSpecial(l, base); err != nil {
		return nil, err
	}
	tree, err := open(ctx, l, o)
	if !o.Write && isAbsent(err) {
		return absent{location: l, why: err}, nil
	}
	if err != nil {
		return nil, err
	}
	return &singleFile{Backend: tree, name: base, as: base, target: true, named: !into}, nil
}

// isAbsent reports whether a target is one that a copy would make. None makes a bucket.
func isAbsent(err error) bool {
	var said interface{ Cause() string } // as package remedy has it
	return errors.Is(err, mover.ErrNotExist) && !(errors.As(err, &said) && said.Cause() == "NoSuchBucket")
}

// notSpecial refuses a device, FIFO or socket as a target, as what a target is to lie in, or as the name that one entry is to have, also behind a link:
// a copy publishes files and their facts, and would put a file in the place of /dev/null. In a tree what is there is replaced.
func notSpecial(l location.Location, base string) error {
	if !l.IsPath() {
		return nil
	}
	path := filepath.Join(l.Path, base)
	if leadsOverProc(path) {
		return fmt.Errorf("%w: target %s: it leads to a file that a process has open, and a target has a path of its own; name that path", mover.ErrUsage, mover.Printable(path))
	}
	info, err := os.Stat(path)
	for errors.Is(err, syscall.ENOTDIR) {
		path = filepath.Dir(path)
		info, err = os.Stat(path)
	}
	if err != nil || info.Mode().IsRegular() || info.IsDir() {
		return nil // the call that opens the path reports the error
	}
	return fmt.Errorf("%w: target %s: it is a %s, and a target is a file or a directory; to read a source and keep nothing, use verify --write-manifest",
		mover.ErrUsage, mover.Printable(path), kindName(info.Mode()))
}

// leadsOverProc reports whether a path lies on a procfs, or is a link that leads there, as /dev/stdout and /dev/fd/1: what it leads to may well be a regular
// file, and a copy would put a file in the place of the link.
func leadsOverProc(path string) bool {
	const linksMost, procfs = 40, 0x9fa0 // path_resolution(7); statfs(2)
	for range linksMost {
		var system syscall.Statfs_t
		if syscall.Statfs(filepath.Dir(path), &system) == nil && system.Type == procfs {
			return true
		}
		to, err := os.Readlink(path)
		if err != nil {
			return false
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return false
}

func kindName(m os.FileMode) string {
	switch {
	case m&os.ModeNamedPipe != 0:
		return "FIFO"
	case m&os.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// singleFile is a tree with a single entry: the one called name of the tree around it,
// shown as as. Its root has no facts.
type singleFile struct {
	mover.Backend
	name, as string
	target   bool // an entry of another spelling is none of it
	named    bool // the location of the target names the entry, and not the tree around it
}

// Walk implements mover.Source. Only the directory around the entry is looked at,
// and that for strays alone.
func (o *singleFile) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		if opts.Stray != nil {
			for range o.Backend.Walk(ctx, mover.WalkOptions{Stray: opts.Stray, Skip: func(string, mover.Kind) bool { return true }}) {
				break
			}
		}
		e, err := o.Stat(ctx, o.as)
		if s, ok := mover.As[mover.Speller](o.Backend); ok && o.target && err == nil {
			err = s.Spelled(ctx, o.name)
		}
		switch {
		case errors.Is(err, mover.ErrNotExist), errors.Is(err, mover.ErrNamesake):
		case err != nil:
			yield(mover.Entry{}, err)
		default:
			yield(e, nil)
		}
	}
}

// Stat implements mover.Source.
func (o *singleFile) Stat(ctx context.Context, name string) (mover.Entry, error) {
	if name != o.as {
		return mover.Entry{}, mover.ErrNotExist
	}
	e, err := o.Backend.Stat(ctx, o.name)
	e.Name = o.as
	return e, err
}

// Open implements mover.Source.
func (o *singleFile) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	e.Name = o.name
	c, err := o.Backend.Open(ctx, e)
	if err != nil || o.name == o.as {
		return c, err
	}
	return renamed{c, o.as}, nil
}

// Lock implements mover.Target: other entries of the tree around are free.
func (o *singleFile) Lock(ctx context.Context, _ string, holder mover.WriterID) (context.Context, func() error, error) {
	return o.Backend.Lock(ctx, o.name, holder)
}

// BreakLock implements mover.LockBreaker.
func (o *singleFile) BreakLock(ctx context.Context, _ string, over mover.WriterID) error {
	if b, ok := mover.As[mover.LockBreaker](o.Backend); ok {
		return b.BreakLock(ctx, o.name, over)
	}
	return nil
}

// Recall implements mover.Recaller.
func (o *singleFile) Recall(ctx context.Context, entries []mover.Entry) error {
	r, ok := mover.As[mover.Recaller](o.Backend)
	if !ok {
		return mover.ErrUnsupported
	}
	own := make([]mover.Entry, len(entries))
	for i, e := range entries {
		e.Name = o.name
		own[i] = e
	}
	return r.Recall(ctx, own)
}

// Away implements mover.Recaller.
func (o *singleFile) Away(ctx context.Context, e mover.Entry) (bool, error) {
	r, ok := mover.As[mover.Recaller](o.Backend)
	if !ok {
		return false, nil
	}
	e.Name = o.name
	return r.Away(ctx, e)
}

// Unwrap lets optional interfaces of the tree be found.
func (o *singleFile) Unwrap() any { return o.Backend }

// renamed is a content that goes by another name.
type renamed struct {
	mover.Content
	as string
}

func (r renamed) Entry() mover.Entry {
	e := r.Content.Entry()
	e.Name = r.as
	return e
}

// Unwrap lets a target find a content of its own kind, to clone it.
func (r renamed) Unwrap() any { return r.Content }

// absent is a target that is not there yet, for a dry run. Only what is
// overridden here is called.
type absent struct {
	mover.Backend
	location location.Location
	why      error
}

func (a absent) String() string                 { return a.location.String() }
func (absent) Capabilities() mover.Capabilities { return mover.Capabilities{} }
func (absent) Close() error                     { return nil }
func (absent) Stat(context.Context, string) (mover.Entry, error) {
	return mover.Entry{}, mover.ErrNotExist
}
func (absent) Walk(context.Context, mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(func(mover.Entry, error) bool) {}
}
