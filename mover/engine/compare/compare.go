// Package compare decides by a look at both sides, which plan leaves open: at the facts of the opened contents, and where these do not decide, at the bytes.
//
// It also has the checksum of a content (CRC-64/NVME), which is read by all processors when it is large. Memory: 256 KiB for each of them. All functions
// may be called from many goroutines, and write nothing. Errors are those of the places. TestComparedNamesStayLinked of package transfer and test/simulation/engine show it.
package compare

import (
	"cmp"
	"context"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
	"datamove.dev/mover/engine/plan"
)

// stripBytes is how much of a content one goroutine reads, and lookBytes how much
// of it is held at once.
const (
	stripBytes = 64 << 20
	lookBytes  = 256 << 10
)

// Resolve looks at both sides of a Compare action and returns what is to be done
// in its place. Where that takes the contents, both are read, and passed hears of the bytes
// of the source; nil hears nothing. Nothing is written.
func Resolve(ctx context.Context, source, target mover.Source, a plan.Action, o plan.Options, passed func(bytes int64)) (plan.Action, error) {
	s, err := source.Open(ctx, a.Source)
	if err != nil {
		return a, err
	}
	defer s.Close()
	t, err := target.Open(ctx, a.Target)
	if err != nil {
		return a, err
	}
	defer t.Close()
	se, te := s.Entry(), t.Entry()
	if o.CompareBy == plan.ByContent { // what a store says of itself does not count here
		se.Known, te.Known = se.Known&^mover.FactCRC, te.Known&^mover.FactCRC
	}
	if a = o.Resolve(a, se, te); a.Op != plan.Compare {
		return a, nil
	}
	if a.Source.CRC, a.Target.CRC, err = look(ctx, s, t, passed); err == nil {
		err = cmp.Or(s.Check(ctx), t.Check(ctx))
	}
	if err != nil {
		return a, err
	}
	a.Source.Known |= mover.FactCRC
	a.Target.Known |= mover.FactCRC
	return o.Resolve(a, a.Source, a.Target), nil
}

// look returns the checksums of both contents, which have the same size; where they
// differ, of as much as was read until that was plain.
func look(ctx context.Context, s, t mover.Content, passed func(int64)) (sums, sumt uint64, err error) {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { sums, err = hash(gctx, s, passed); return err })
	g.Go(func() (err error) { sumt, err = Hash(gctx, t); return err })
	err = g.Wait()
	return sums, sumt, err
}

// Hash reads the whole of a content, with all processors when it is large, and
// returns its CRC-64/NVME.
func Hash(ctx context.Context, c mover.Content) (uint64, error) { return hash(ctx, c, nil) }

func hash(ctx context.Context, c mover.Content, passed func(int64)) (uint64, error) {
	size := c.Entry().Size
	sums := make([]uint64, max(1, (size+stripBytes-1)/stripBytes)) // one of no bytes, too
	strip := func(i int) (off, n int64) { off = int64(i) * stripBytes; return off, min(stripBytes, size-off) }
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range sums {
		g.Go(func() (err error) {
			off, n := strip(i)
			sums[i], err = hashRange(gctx, c, off, n, passed)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	sum := uint64(0)
	for i := range sums {
		_, n := strip(i)
		sum = checksum.Combine(sum, sums[i], n)
	}
	return sum, nil
}

// HashPart returns the CRC-64/NVME of a part of a content.
func HashPart(ctx context.Context, c mover.Content, p mover.Part) (uint64, error) {
	return hashRange(ctx, c, p.Off, p.Length, nil)
}

func hashRange(ctx context.Context, c mover.Content, off, n int64, passed func(int64)) (sum uint64, err error) {
	body, err := c.Range(ctx, off, n)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	buf := make([]byte, min(n, lookBytes))
	for left := n; left > 0; {
		b := buf[:min(left, int64(len(buf)))]
		if _, err := io.ReadFull(body, b); err != nil {
			return 0, err
		}
		sum = checksum.Update(sum, b)
		left -= int64(len(b))
		if passed != nil {
			passed(int64(len(b)))
		}
	}
	return sum, ctx.Err()
}
