package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/bufpool"
)

// upload is a target with one entry: an open file that is empty and has no readers yet.
type upload struct {
	item    *Item
	buffers *bufpool.Pool
	jobs    int
}

const (
	sinkSmall = 1 << 20  // bytes up to which a content is one part
	sinkPart  = 16 << 20 // bytes of a part of a larger one
	sinkChunk = 1 << 20  // bytes of one write
)

var _ mover.Backend = (*upload)(nil)

func (s *upload) String() string { return "file://" + s.item.File.Name() }

func (s *upload) Capabilities() mover.Capabilities {
	return mover.Capabilities{
		Level: mover.Written, SmallBytes: sinkSmall, BatchFiles: 1, BatchBytes: sinkSmall,
		PartBytes: sinkPart, PartMin: 1, PartAlign: 1 << 20, MaxParts: 10_000, Parallel: s.jobs, MaxParallel: s.jobs,
	}
}

func (s *upload) Draft(_ context.Context, e mover.Entry, _ mover.Hints) (mover.Draft, error) {
	if e.Kind != mover.File {
		return nil, fmt.Errorf("%w: a %v in the place of a file", mover.ErrUnsupported, e.Kind)
	}
	return &pouring{s}, s.item.File.Truncate(0)
}

// Publish brings the file to stable storage.
func (s *upload) Publish(_ context.Context, batch []mover.Draft) []mover.Outcome {
	out := make([]mover.Outcome, len(batch))
	for i := range batch {
		out[i] = mover.Outcome{Level: mover.Written, Err: s.item.File.Sync()}
	}
	return out
}

// pouring is the file while it is filled.
type pouring struct{ *upload }

func (p *pouring) Token() mover.Token { return "file" }

func (p *pouring) WritePart(ctx context.Context, part mover.Part, feed mover.Feed) (mover.Receipt, error) {
	b, err := p.buffers.Get(ctx, int(min(max(part.Length, 1), sinkChunk)))
	if err != nil {
		return mover.Receipt{}, err
	}
	defer p.buffers.Put(b)
	off, end := part.Off, part.Off+part.Length
	for off < end && err == nil {
		if ctx.Err() != nil {
			return mover.Receipt{}, context.Cause(ctx)
		}
		n := feed.Hole() // nothing was written there
		if n == 0 {
			n, err = p.copy(b[:min(int64(len(b)), end-off)], off, feed)
		}
		off += n
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return mover.Receipt{}, err
	case off < end:
		return mover.Receipt{}, io.ErrUnexpectedEOF
	}
	return mover.Receipt{Part: part, CRC: feed.Sum()}, nil
}

// copy moves as much as fits into b.
func (p *pouring) copy(b []byte, off int64, feed mover.Feed) (int64, error) {
	n, err := feed.Read(b)
	if n == 0 {
		return 0, cmp.Or(err, io.ErrNoProgress)
	}
	if _, werr := p.item.File.WriteAt(b[:n], off); werr != nil {
		return 0, werr
	}
	p.item.moved(n)
	return int64(n), err
}

func (p *pouring) Finish(_ context.Context, e mover.Entry, _ []mover.Receipt) error {
	return p.item.File.Truncate(e.Size)
}

func (p *pouring) Suspend() error { return nil }
func (p *pouring) Close() error   { return nil }

// What a run with one file does not ask for.

func (s *upload) Walk(context.Context, mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(func(mover.Entry, error) bool) {}
}

func (s *upload) Stat(context.Context, string) (mover.Entry, error) {
	return mover.Entry{}, mover.ErrNotExist
}

func (s *upload) Open(context.Context, mover.Entry) (mover.Content, error) {
	return nil, mover.ErrUnsupported
}

func (s *upload) Lock(context.Context, string, mover.WriterID) (context.Context, func() error, error) {
	return nil, nil, mover.ErrUnsupported
}

func (s *upload) Adopt(context.Context, mover.Token) (mover.Draft, error) {
	return nil, mover.ErrUnsupported
}
func (s *upload) Drop(context.Context, mover.Token) error   { return nil }
func (s *upload) Mkdir(context.Context, mover.Entry) error  { return mover.ErrUnsupported }
func (s *upload) Update(context.Context, mover.Entry) error { return mover.ErrUnsupported }
func (s *upload) Remove(context.Context, mover.Entry, mover.WriterID) error {
	return mover.ErrUnsupported
}
func (s *upload) Sync(context.Context) error { return nil }
func (s *upload) Close() error               { return nil }
