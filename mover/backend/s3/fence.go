package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
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
func (s seen) fence(w *s3api.Put, profile *Profile) bool {
	switch {
	case !s.looked:
	case w.Multipart && !profile.GuardsWhole:
	case s.etag == "" && profile.CreatesOnce:
		w.IfNoneMatch = true
		return true
	case s.etag != "" && profile.MatchesPut:
		w.IfMatch, w.BareMatch = s.etag, profile.BareMatch
		return true
	}
	return false
}

// fenced is what a conditional put has come to: one that was refused may have been
// done by an earlier try with a lost answer.
func (d *draft) fenced(ctx context.Context, w *s3api.Put, err error) (s3api.Stored, error) {
	if !errors.Is(err, mover.ErrChanged) {
		return s3api.Stored{}, err
	}
	o, lookErr := d.place.store.Head(ctx, w.Key, "")
	if lookErr != nil && !errors.Is(lookErr, mover.ErrNotExist) {
		return s3api.Stored{}, lookErr
	}
	if lookErr == nil {
		same, lookErr := d.place.has(ctx, w, &o)
		if lookErr != nil {
			return s3api.Stored{}, lookErr
		}
		if same {
			return s3api.Stored{ETag: o.ETag, Version: o.Version, CRC: w.CRC}, nil
		}
	}
	return s3api.Stored{}, fmt.Errorf("another writer has written it meanwhile: %w", err)
}

// has reports whether an object has the content of w, which is in memory. Where the
// server keeps no checksum, the object is read.
func (p *Backend) has(ctx context.Context, w *s3api.Put, o *s3api.Object) (bool, error) {
	if o.Size != int64(len(w.Data)) || o.HasCRC {
		return o.Size == int64(len(w.Data)) && s3api.EncodeCRC(o.CRC) == w.CRC, nil
	}
	body, _, err := p.store.Get(ctx, s3api.Get{Key: w.Key, IfMatch: o.ETag, N: -1})
	if err != nil {
		return false, err
	}
	defer body.Close()
	chunk := make([]byte, min(len(w.Data), compareChunk))
	for rest := w.Data; len(rest) > 0; {
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
