package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"datamove.dev/mover"
)

// seen is what the run that drafts has seen under a name. Only that may be replaced,
// so that a writer after a long pause replaces nothing newer. The zero value does
// not look.
type seen struct {
	looked bool
	etag   string // "" is nothing
}

func seenOf(e *mover.Entry) seen {
	if e == nil {
		return seen{}
	}
	return seen{true, e.ETag}
}

// fence gives a call the condition that the bucket can check. It reports whether there
// is one.
func (s seen) fence(w *put, profile *Profile) bool {
	switch {
	case !s.looked:
	case w.parts && !profile.GuardsWhole:
	case s.etag == "" && profile.CreatesOnce:
		w.ifNoneMatch = true
		return true
	case s.etag != "" && profile.MatchesPut:
		w.ifMatch, w.bareMatch = s.etag, profile.BareMatch
		return true
	}
	return false
}

// fenced is what a conditional put has come to: one that was refused may have been
// done by an earlier try with a lost answer.
func (d *draft) fenced(ctx context.Context, w *put, err error) (stored, error) {
	if !errors.Is(err, mover.ErrChanged) {
		return stored{}, err
	}
	o, lookErr := d.place.store.head(ctx, w.key, "")
	if lookErr != nil && !errors.Is(lookErr, mover.ErrNotExist) {
		return stored{}, lookErr
	}
	if lookErr == nil {
		same, lookErr := d.place.has(ctx, w, &o)
		if lookErr != nil {
			return stored{}, lookErr
		}
		if same {
			return stored{etag: o.etag, version: o.version, crc: w.crc}, nil
		}
	}
	return stored{}, fmt.Errorf("somebody else has written it meanwhile: %w", err)
}

// has reports whether an object has the content of w, which is in memory. Where the
// server keeps no checksum, the object is read.
func (p *Backend) has(ctx context.Context, w *put, o *object) (bool, error) {
	if o.size != int64(len(w.data)) || o.hasCRC {
		return o.size == int64(len(w.data)) && encodeCRC(o.crc) == w.crc, nil
	}
	body, _, err := p.store.get(ctx, get{key: w.key, ifMatch: o.etag, n: -1})
	if err != nil {
		return false, err
	}
	defer body.Close()
	chunk := make([]byte, min(len(w.data), compareChunk))
	for rest := w.data; len(rest) > 0; {
		n, err := io.ReadFull(body, chunk[:min(len(rest), len(chunk))])
		if !bytes.Equal(chunk[:n], rest[:n]) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		rest = rest[n:]
	}
	return true, nil
}

// compareChunk is how much of an object is compared at a time.
const compareChunk = 256 << 10
