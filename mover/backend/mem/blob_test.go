package mem

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover/backend/backendtest"
	_ "datamove.dev/test/seed/property" // of rapid
)

// A blob is its bytes, however they are stored and whichever range is asked for.
func TestBlobIsItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := blob{size: rapid.Int64Range(0, 200).Draw(t, "size")}
		plain := make([]byte, b.size)
		stored := make([]bool, b.size+1)
		for off := int64(0); off < b.size; {
			off += rapid.Int64Range(0, 20).Draw(t, "hole")
			data := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "data")
			if data = data[:max(0, min(int64(len(data)), b.size-off))]; len(data) == 0 {
				break
			}
			b.runs = append(b.runs, run{off, data})
			off += int64(copy(plain[off:], data))
		}
		for _, r := range b.runs {
			for i := range r.data {
				stored[r.off+int64(i)] = true
			}
		}
		off := rapid.Int64Range(0, 210).Draw(t, "off")
		p := make([]byte, rapid.IntRange(0, 60).Draw(t, "n"))
		n := b.readAt(p, off)
		want := plain[min(off, b.size):min(off+int64(len(p)), b.size)]
		if !bytes.Equal(p[:n], want) {
			t.Fatalf("at %d: %x, want %x", off, p[:n], want)
		}
		if b.crc() != backendtest.Sum(plain) {
			t.Fatalf("CRC %x", b.crc())
		}
		covered := make([]bool, b.size+1)
		for _, s := range b.segments() {
			for i := s.Start; i < s.End; i++ {
				covered[i] = true
			}
		}
		for i := range stored {
			if stored[i] != covered[i] {
				t.Fatalf("byte %d: stored %v, in a segment %v", i, stored[i], covered[i])
			}
		}
	})
}
