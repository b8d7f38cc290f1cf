package loadgen

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"datamove.dev/test/must"
)

// TestShuffle: each number comes once.
func TestShuffle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 5000).Draw(t, "n")
		s := newShuffle(n, rapid.Uint64().Draw(t, "seed"))
		seen := make([]bool, n)
		stays := 0
		for i := range n {
			x := s.at(i)
			if x < 0 || x >= n || seen[x] {
				t.Fatalf("%d of %d is %d", i, n, x)
			}
			seen[x] = true
			if x == i {
				stays++
			}
		}
		if n > 100 && stays > int(n/10) {
			t.Errorf("%d of %d stay where they are", stays, n)
		}
	})
}

// TestNoise: what is written does not compress, no block is there twice, and a block is known wherever it is read.
func TestNoise(t *testing.T) {
	n := newNoise(1, "large")
	all := make([]byte, 8<<20)
	n.fill(all, 5, 0)
	encoder := must.Get(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20)))(t)
	if small := len(encoder.EncodeAll(all, nil)); small < len(all) {
		t.Errorf("%d bytes are %d", len(all), small)
	}
	seen := map[[512]byte]bool{}
	for b := range len(all) / 512 {
		block := [512]byte(all[b*512:])
		if seen[block] {
			t.Fatalf("block %d was there before", b)
		}
		seen[block] = true
	}
	part := make([]byte, 100_000)
	for _, off := range []int64{0, 16, 65536, 47_008 * 3} {
		n.fill(part, 5, off)
		if !bytes.Equal(part, all[off:off+int64(len(part))]) || !n.is(part, 5, off) {
			t.Errorf("at %d it is something else", off)
		}
		if n.is(part, 6, off) || n.is(part, 5, off+16) || newNoise(2, "large").is(part, 5, off) || newNoise(1, "small").is(part, 5, off) {
			t.Errorf("what is at %d is somewhere else, too", off)
		}
		part[77_777]++
		if n.is(part, 5, off) {
			t.Errorf("a byte that is another is not seen")
		}
	}
}
