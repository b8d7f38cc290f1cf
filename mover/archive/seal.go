package archive

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"datamove.dev/mover"
)

// sealed is a backend that writes the checksum of its content with each new entry, where
// it does not remember the checksum by itself.
type sealed struct{ mover.Backend }

// Unwrap lets optional interfaces be found.
func (s *sealed) Unwrap() any { return s.Backend }

// remembers reports whether the place gives back the checksum of a whole content, which it
// has compared itself.
func (s *sealed) remembers() bool {
	t := s.Capabilities()
	return t.Keeps.Has(mover.FactCRC) && t.Level >= mover.Server
}

func (s *sealed) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := s.Backend.Draft(ctx, e, h)
	if err != nil || s.remembers() {
		return d, err
	}
	return &sealing{d}, nil
}

func (s *sealed) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	inner := make([]mover.Draft, len(batch))
	for i, d := range batch {
		inner[i] = d
		if mine, ok := d.(*sealing); ok {
			inner[i] = mine.Draft
		}
	}
	return s.Backend.Publish(ctx, inner)
}

// sealing is a draft of a sealed place.
type sealing struct{ mover.Draft }

// Unwrap lets optional interfaces be found.
func (d *sealing) Unwrap() any { return d.Draft }

func (d *sealing) Finish(ctx context.Context, e mover.Entry, receipts []mover.Receipt) error {
	if e.Kind != mover.File || !e.Known.Has(mover.FactCRC) {
		return d.Draft.Finish(ctx, e, receipts)
	}
	e.Xattrs = withAttribute(e.Xattrs, mover.XattrCRC, fmt.Sprintf("%016x", e.CRC))
	e.Known |= mover.FactXattrs
	return d.Draft.Finish(ctx, e, receipts)
}

// checked is a backend as a source of contents that have to be what they were sealed as.
type checked struct{ mover.Backend }

// Unwrap lets optional interfaces be found.
func (c *checked) Unwrap() any { return c.Backend }

// Stat implements mover.Source. The root has no facts that would be carried over.
func (c *checked) Stat(ctx context.Context, name string) (mover.Entry, error) {
	if name == "" {
		return mover.Entry{}, mover.ErrNotExist
	}
	return c.Backend.Stat(ctx, name)
}

func (c *checked) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	content, err := c.Backend.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	now := content.Entry()
	if err := know(&now); err != nil {
		return nil, errors.Join(err, content.Close())
	}
	return &known{content, now}, nil
}

// know gives an entry the checksum that its copy was sealed with.
func know(e *mover.Entry) error {
	text, ok := attribute(e, mover.XattrCRC)
	if !ok {
		if e.Known.Has(mover.FactCRC) {
			return nil
		}
		return fmt.Errorf("%w: the copy has no checksum", mover.ErrCorrupt)
	}
	sum, err := strconv.ParseUint(text, 16, 64)
	if err != nil || e.Known.Has(mover.FactCRC) && e.CRC != sum {
		return fmt.Errorf("%w: the copy was sealed as %q, and the store has %016x", mover.ErrCorrupt, text, e.CRC)
	}
	e.CRC, e.Known = sum, e.Known|mover.FactCRC
	return nil
}

// known is a content with a checksum that is known.
type known struct {
	mover.Content
	entry mover.Entry
}

func (k *known) Entry() mover.Entry { return k.entry }
