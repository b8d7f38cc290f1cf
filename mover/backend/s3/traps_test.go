package s3_test

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// TestTraps: parts of sizes at which SDKs and servers are known to fail arrive
// whole and compared, over each client and both protocols. The known failures: an
// unsigned trailer in one chunk above 16 MiB, trailers over plain http.
//
//safety:2 with TestFlippedByte
func TestTraps(t *testing.T) {
	sizes := []int64{16 << 20, 17 << 20}
	switch {
	case seed.Soak():
		sizes = append(sizes, 5<<20, 64<<20)
	case testing.Short():
		sizes = sizes[1:]
	}
	data := backendtest.Pattern(slices.Max(sizes) + 1000)
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			o := s3test.Start(t, w.tls).Options(t)
			o.Client = w.client
			p := s3test.Open(t, o)
			for _, part := range sizes {
				t.Run(fmt.Sprintf("%d MiB", part>>20), func(t *testing.T) { trap(t, p, data[:part+1000], part) })
			}
		})
	}
}

func trap(t *testing.T, p *s3.Backend, data []byte, part int64) {
	ctx := t.Context()
	e := mover.Entry{Name: "f", Kind: mover.File, Size: int64(len(data)), Known: mover.FactCRC, CRC: backendtest.Sum(data)}
	d, err := p.Draft(ctx, e, mover.Hints{By: mover.WriterID{Task: "trap"}, PartBytes: part})
	must.Do(t, err)
	defer d.Close()
	var receipts []mover.Receipt
	for _, q := range backendtest.Parts(e.Size, part) {
		r := must.Get(d.WritePart(ctx, q, backendtest.NewFeed(data[q.Off:q.Off+q.Length])))(t)
		receipts = append(receipts, r)
	}
	must.Do(t, d.Finish(ctx, e, receipts))
	out := p.Publish(ctx, []mover.Draft{d})[0]
	if out.Err != nil || out.Level != p.Capabilities().Level {
		t.Fatalf("outcome %+v, want level %v", out, p.Capabilities().Level)
	}
	got, err := p.Stat(ctx, "f")
	if err != nil || got.Size != e.Size || got.Known.Has(mover.FactCRC) && got.CRC != e.CRC {
		t.Fatalf("stored %+v, %v", got, err)
	}
	seam(t, p, got, data, part)
}

// seam reads the bytes around the boundary of two parts.
func seam(t *testing.T, p *s3.Backend, e mover.Entry, data []byte, part int64) {
	c := must.Get(p.Open(t.Context(), e))(t)
	defer c.Close()
	r := must.Get(c.Range(t.Context(), part-1000, 2000))(t)
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != string(data[part-1000:]) {
		t.Errorf("bytes at the seam differ: %v", err)
	}
}
