package metered_test

import (
	"context"
	"io"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/metered"
	"datamove.dev/test/must"
)

// idle is a place of which each call costs nothing, so that what is left is the counting.
type idle struct{ mover.Backend }

func (idle) Open(context.Context, mover.Entry) (mover.Content, error) { return &idleContent{}, nil }
func (idle) Draft(context.Context, mover.Entry, mover.Hints) (mover.Draft, error) {
	return &idleDraft{}, nil
}

type idleContent struct {
	mover.Content
	read bool
}

func (*idleContent) Check(context.Context) error { return nil }
func (*idleContent) Close() error                { return nil }
func (c *idleContent) Range(context.Context, int64, int64) (io.ReadCloser, error) {
	return c, nil
}

func (c *idleContent) Read(p []byte) (int, error) {
	if c.read {
		return 0, io.EOF
	}
	c.read = true
	return len(p), nil
}

type idleDraft struct{ mover.Draft }

func (*idleDraft) Clone(context.Context, mover.Content) (bool, error)         { return false, nil }
func (*idleDraft) Finish(context.Context, mover.Entry, []mover.Receipt) error { return nil }
func (*idleDraft) Close() error                                               { return nil }
func (*idleDraft) WritePart(_ context.Context, _ mover.Part, f mover.Feed) (mover.Receipt, error) {
	var b [8]byte
	for {
		if _, err := f.Read(b[:]); err != nil {
			return mover.Receipt{}, nil
		}
	}
}

type idleFeed struct {
	mover.Feed
	io.Reader
}

func (f *idleFeed) Read(p []byte) (int, error) { return f.Reader.Read(p) }

// BenchmarkSmallFile is what a small file costs with and without counting, on all cores:
// go test -run xxx -bench SmallFile -cpu 1,2 ./mover/backend/metered
func BenchmarkSmallFile(b *testing.B) {
	for name, p := range map[string]mover.Backend{"plain": idle{}, "counted": metered.New(idle{}, new(metered.Counter))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					smallFile(b, p)
				}
			})
		})
	}
}

// smallFile does with a place what transfer does with a small file.
func smallFile(b *testing.B, p mover.Backend) {
	ctx, e := context.Background(), mover.Entry{Name: "f", Kind: mover.File, Size: 4096}
	c, openErr := p.Open(ctx, e)
	d, draftErr := p.Draft(ctx, e, mover.Hints{})
	if openErr != nil || draftErr != nil {
		b.Fatal(openErr, draftErr)
	}
	if cloner, ok := mover.As[mover.Cloner](d); ok {
		_, _ = cloner.Clone(ctx, c)
	}
	r, err := c.Range(ctx, 0, e.Size)
	if err == nil {
		_, err = d.WritePart(ctx, mover.Part{Length: e.Size}, &idleFeed{Reader: r})
	}
	if err == nil {
		err = r.Close()
	}
	if err == nil {
		err = c.Check(ctx)
	}
	if err == nil {
		err = d.Finish(ctx, e, nil)
	}
	must.Do(b, err)
	_, _ = c.Close(), d.Close()
}
