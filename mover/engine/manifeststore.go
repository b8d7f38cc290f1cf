package engine

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/location"
	"datamove.dev/mover/manifest"
)

// manifestStore is a place that keeps a manifest beside its entries, hidden from walks.
// *s3.Place is one.
type manifestStore interface {
	OpenManifest(ctx context.Context) (io.ReadCloser, error)
	PutManifest(ctx context.Context, write func(io.Writer) error) error
	RemoveManifest(ctx context.Context) error
}

// lowShelf is a shelf that may lie below others.
type lowShelf interface {
	OpenManifestAbove(ctx context.Context) (r io.ReadCloser, below string, err error)
}

// highShelf is a shelf above others, of directories.
type highShelf interface {
	OpenManifestBelow(ctx context.Context, dir string) (io.ReadCloser, error)
}

// patient is a shelf that retries its calls, like those of its backend.
type patient struct {
	manifestStore
	retry.Options
}

func (p patient) OpenManifest(ctx context.Context) (io.ReadCloser, error) {
	return p.opens(ctx, func() (io.ReadCloser, error) { return p.manifestStore.OpenManifest(ctx) })
}

// nearest is the manifest of the place, or else of the nearest tree above it. It is a manifest.Opener.
func (p patient) nearest(ctx context.Context) (io.ReadCloser, error) {
	r, err := p.OpenManifest(ctx)
	low, ok := p.manifestStore.(lowShelf)
	if !ok || !errors.Is(err, mover.ErrNotExist) {
		return r, err
	}
	part := new(manifest.Part)
	part.ReadCloser, err = p.opens(ctx, func() (r io.ReadCloser, err error) {
		r, part.Below, err = low.OpenManifestAbove(ctx)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	return part, nil
}

// overlay is a place with what its manifests know: that which counts for it, and, for readers, those of directories in it.
func (p patient) overlay(place mover.Backend, reads bool) mover.Backend {
	high, ok := p.manifestStore.(highShelf)
	if !ok || !reads {
		return manifest.Overlay(place, p.nearest)
	}
	return manifest.Nested(place, p.nearest, func(ctx context.Context, dir string) (io.ReadCloser, error) {
		return p.opens(ctx, func() (io.ReadCloser, error) { return high.OpenManifestBelow(ctx, dir) })
	})
}

// finding is an opener of places of which single names are asked for.
func finding(open Opener) Opener {
	return func(ctx context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		place, err := open(ctx, l, o)
		if err != nil {
			return nil, err
		}
		s, ok := mover.As[manifestStore](place)
		if !ok {
			return place, nil
		}
		return manifest.Finding(place, patient{s, retry.Options{Logger: o.Logger}}.nearest), nil
	}
}

func (p patient) PutManifest(ctx context.Context, write func(io.Writer) error) error {
	return retry.Do(ctx, p.Options, "put", "manifest", func() error { return p.manifestStore.PutManifest(ctx, write) })
}

func (p patient) RemoveManifest(ctx context.Context) error {
	return retry.Do(ctx, p.Options, "remove", "manifest", func() error { return p.manifestStore.RemoveManifest(ctx) })
}

// writeManifest publishes the manifest of the target: what this run did and found,
// and what the last manifest says of entries that this run had no business with.
func (p *pair) writeManifest(ctx context.Context, rec *recorder) error {
	if old := p.oldManifest(ctx); !rec.changed && old.there {
		return old.close()
	} else if err := old.close(); err != nil {
		return err
	}
	return p.shelf.PutManifest(ctx, func(w io.Writer) error {
		old := p.oldManifest(ctx)
		return errors.Join(p.compose(w, merged(rec.all(), old.entries)), old.close())
	})
}

func (p *pair) compose(w io.Writer, entries iter.Seq2[mover.Entry, error]) error {
	m, err := manifest.NewWriter(w, manifest.Header{Created: time.Now().UTC(), Source: p.source.String()})
	if err != nil {
		return err
	}
	for e, err := range entries {
		if err != nil {
			return err
		}
		if err := m.Write(&e); err != nil {
			return err
		}
	}
	_, err = m.Close()
	return err
}

// oldManifest is the manifest of an earlier run. One that can not be read is not
// replaced: it may be all that knows of entries that this run had no business with.
type oldManifest struct {
	there   bool
	file    io.Closer
	entries iter.Seq2[mover.Entry, error]
}

func (p *pair) oldManifest(ctx context.Context) oldManifest {
	r, err := p.shelf.OpenManifest(ctx)
	if errors.Is(err, mover.ErrNotExist) {
		return oldManifest{entries: func(func(mover.Entry, error) bool) {}}
	}
	if err != nil {
		return oldManifest{entries: func(yield func(mover.Entry, error) bool) { yield(mover.Entry{}, err) }}
	}
	return oldManifest{true, r, manifest.Entries(r)}
}

func (o oldManifest) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

// merged yields what there is now: the new fates, and of the old entries those
// without one. Both come in the order of mover.Compare.
func merged(fates iter.Seq2[fate, error], old iter.Seq2[mover.Entry, error]) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		next, stop := iter.Pull2(old)
		defer stop()
		head, err, more := next()
		older := func(than *mover.Entry) bool { // yields the old entries before than
			for more && (err != nil || than == nil || mover.Compare(&head, than) < 0) {
				if !yield(head, err) || err != nil {
					return false
				}
				head, err, more = next()
			}
			if more && mover.Compare(&head, than) == 0 {
				head, err, more = next()
			}
			return true
		}
		for f, ferr := range fates {
			if ferr != nil {
				yield(mover.Entry{}, ferr)
				return
			}
			if !older(&f.Entry) || !f.Removed && !yield(f.Entry, nil) {
				return
			}
		}
		older(nil)
	}
}

// hashTree writes a manifest of all that is in a place, with the checksum of every file.
func hashTree(ctx context.Context, place mover.Backend, w io.Writer) error {
	m, err := manifest.NewWriter(w, manifest.Header{Created: time.Now().UTC(), Source: place.String()})
	if err != nil {
		return err
	}
	for e, err := range place.Walk(ctx, mover.WalkOptions{}) {
		if err == nil {
			e, err = hashed(ctx, place, e)
		}
		if err == nil {
			err = m.Write(&e)
		}
		if err != nil {
			return err
		}
	}
	_, err = m.Close()
	return err
}

func hashed(ctx context.Context, place mover.Backend, e mover.Entry) (mover.Entry, error) {
	c, err := place.Open(ctx, e)
	if err != nil {
		return e, err
	}
	defer c.Close()
	if e = c.Entry(); e.Kind != mover.File {
		return e, nil
	}
	if e.CRC, err = compare.Hash(ctx, c); err != nil {
		return e, err
	}
	e.Known |= mover.FactCRC
	return e, c.Check(ctx)
}

// writeManifest walks l, hashes every file, and writes what it finds.
func writeManifest(ctx context.Context, l location.Location, w io.Writer, open Opener) error {
	return Visit(ctx, l, open, func(place mover.Backend) error { return hashTree(ctx, place, w) })
}
