// Package checksum is the checksum that everything we move is hashed with, and its
// arithmetic.
//
// The checksum is CRC-64/NVME: polynomial 0xAD93D23594C93659, reflected, all ones
// at the start and inverted at the end; "123456789" gives 0xAE8B14860A799888. The
// NVM Command Set specification 1.0 (5.2.1.3.4) defines it, and S3 stores it for
// whole objects as x-amz-checksum-crc64nvme. Hashing itself is minio/crc64nvme.
// This package has the algebra: the checksum of two pieces one behind the other
// ([Combine]), and of a run of zeros without reading it ([Zeros]).
//
// A checksum tells damage, never identity: the digest of its manifest names a
// content.
//
// The functions are pure. TestCombine and FuzzCombine hold the algebra to hashing
// the whole.
package checksum

import "github.com/minio/crc64nvme"

// poly is the polynomial in reflected order: bit 63-i is the coefficient of x^i,
// and that of x^64 is implied.
const poly = 0x9a6c9329ac4bc9b5

// Update returns the checksum of what crc covers, followed by p. The checksum of
// nothing is 0.
func Update(crc uint64, p []byte) uint64 { return crc64nvme.Update(crc, p) }

// Combine returns the checksum of two pieces one behind the other, from the
// checksum of each and the length of the second in bytes. It takes O(log lenB).
// A negative length panics.
func Combine(a, b uint64, lenB int64) uint64 { return mul(a, shift(lenB)) ^ b }

// Zeros returns the checksum of what crc covers, followed by n zero bytes, in
// O(log n). A negative n panics.
func Zeros(crc uint64, n int64) uint64 { return ^mul(^crc, shift(n)) }

// mul multiplies two polynomials over GF(2) modulo poly. It has no branch that
// depends on the values, so it takes the same time for all.
func mul(a, b uint64) uint64 {
	var product uint64
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 63)
		b = b>>1 ^ poly&-(b&1)
	}
	return product
}

// one is the polynomial 1: x^0 is the highest bit.
const one = 1 << 63

// powers[k][d] is x^(8·d·16^k): what d·16^k zero bytes multiply a checksum with.
var powers = func() (t [16][16]uint64) {
	step := uint64(one >> 8) // x^8 is one byte
	for k := range t {
		t[k][0] = one
		for d := 1; d < 16; d++ {
			t[k][d] = mul(t[k][d-1], step)
		}
		step = mul(t[k][15], step)
	}
	return t
}()

// shift returns x^(8n), by the hexadecimal digits of n.
func shift(n int64) uint64 {
	if n < 0 {
		panic("crc: negative length")
	}
	factor := uint64(one)
	for k := 0; n != 0; k, n = k+1, n>>4 {
		if d := n & 15; d != 0 {
			factor = mul(factor, powers[k][d])
		}
	}
	return factor
}
