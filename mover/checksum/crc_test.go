package checksum

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	_ "datamove.dev/test/seed/property" // of rapid
)

//safety:2 with TestBitByBit
func TestCheckValue(t *testing.T) {
	if got := Update(0, []byte("123456789")); got != 0xAE8B14860A799888 {
		t.Fatalf("CRC-64/NVME of 123456789 is %#x", got)
	}
	if got := Update(0, nil); got != 0 {
		t.Fatalf("the checksum of nothing is %#x", got)
	}
}

// TestBitByBit compares with the definition, so that a faster library can not
// change what the checksum is.
//
//safety:2 CRC-64/NVME against its definition
func TestBitByBit(t *testing.T) {
	slow := func(p []byte) uint64 {
		crc := ^uint64(0)
		for _, b := range p {
			crc ^= uint64(b)
			for range 8 {
				crc = crc>>1 ^ poly&-(crc&1)
			}
		}
		return ^crc
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 3000 {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(random.Uint32())
		}
		if got, want := Update(0, p), slow(p); got != want {
			t.Fatalf("%d bytes: %#x, by the definition %#x", n, got, want)
		}
	}
}

func TestCombine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "a")
		b := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "b")
		whole := Update(Update(0, a), b)
		if got := Combine(Update(0, a), Update(0, b), int64(len(b))); got != whole {
			t.Fatalf("combined %#x, whole %#x", got, whole)
		}
	})
}

func TestCombineIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		crc := rapid.Uint64()
		length := rapid.Int64Range(0, math.MaxInt64/2)
		a, b, c := crc.Draw(t, "a"), crc.Draw(t, "b"), crc.Draw(t, "c")
		lenB, lenC := length.Draw(t, "lenB"), length.Draw(t, "lenC")
		left := Combine(Combine(a, b, lenB), c, lenC)
		right := Combine(a, Combine(b, c, lenC), lenB+lenC)
		if left != right {
			t.Fatalf("(a b) c is %#x, a (b c) is %#x", left, right)
		}
	})
}

func TestZeros(t *testing.T) {
	zeros := make([]byte, 70_000)
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "before")
		n := rapid.IntRange(0, len(zeros)).Draw(t, "n")
		crc := Update(0, before)
		if got, want := Zeros(crc, int64(n)), Update(crc, zeros[:n]); got != want {
			t.Fatalf("a hole of %d gives %#x, its zeros %#x", n, got, want)
		}
		if got, want := Combine(crc, Zeros(0, int64(n)), int64(n)), Zeros(crc, int64(n)); got != want {
			t.Fatalf("combined with zeros %#x, followed by zeros %#x", got, want)
		}
	})
}

// TestHugeHole adds up a hole that no test could read from two halves.
//
//safety:2 with FuzzCombine
func TestHugeHole(t *testing.T) {
	const half = math.MaxInt64 / 2
	if got, want := Zeros(Zeros(7, half), half+1), Zeros(7, math.MaxInt64); got != want {
		t.Fatalf("two halves give %#x, the whole %#x", got, want)
	}
}

func TestNegativeLength(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("a negative length was accepted")
		}
	}()
	Combine(1, 2, -1)
}

//safety:2 combined sums against hashing the whole; holes as runs of zeros
func FuzzCombine(f *testing.F) {
	f.Add([]byte("123456789"), uint(4), uint16(3))
	f.Add([]byte{}, uint(0), uint16(0))
	f.Fuzz(func(t *testing.T, p []byte, at uint, hole uint16) {
		at %= uint(len(p)) + 1
		a, b := p[:at], p[at:]
		if got := Combine(Update(0, a), Update(0, b), int64(len(b))); got != Update(0, p) {
			t.Fatalf("combined %#x, whole %#x", got, Update(0, p))
		}
		holed := Update(Update(Update(0, a), make([]byte, hole)), b)
		if got := Combine(Zeros(Update(0, a), int64(hole)), Update(0, b), int64(len(b))); got != holed {
			t.Fatalf("with a hole %#x, with its zeros %#x", got, holed)
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	p := make([]byte, 1<<20)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		Update(0, p)
	}
}

func BenchmarkUpdate4KiB(b *testing.B) {
	p := make([]byte, 4096)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		Update(0, p)
	}
}

func BenchmarkCombine(b *testing.B) {
	for b.Loop() {
		Combine(0x123456789abcdef, 0xfedcba987654321, 8<<20+12345)
	}
}

func BenchmarkZeros1TiB(b *testing.B) {
	for b.Loop() {
		Zeros(0x123456789abcdef, 1<<40-1)
	}
}
