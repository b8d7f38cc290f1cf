package load

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
)

// noise is what the files of a tree contain: AES-CTR of nothing, under a key of the run and the tree, from a counter of the file and the offset.
type noise struct{ block cipher.Block }

// newNoise is that of a tree.
func newNoise(seed uint64, tree string) noise {
	key := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), tree...))
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		panic(err) // 16 bytes are a key
	}
	return noise{block}
}

// zeros is what noise is made of, a piece at a time: small enough for the cache of a processor.
var zeros [32 << 10]byte

// fill makes the bytes of a file from an offset on, that is a multiple of 16.
func (n noise) fill(b []byte, file uint64, off int64) {
	stream := n.stream(file, off)
	for len(b) > 0 {
		piece := min(len(b), len(zeros))
		stream.XORKeyStream(b[:piece], zeros[:piece])
		b = b[piece:]
	}
}

// is says whether these are the bytes of a file from an offset on. It needs room for as much as zeros has.
func (n noise) is(b, room []byte, file uint64, off int64) bool {
	stream := n.stream(file, off)
	for len(b) > 0 {
		piece := min(len(b), len(zeros))
		stream.XORKeyStream(room[:piece], zeros[:piece])
		if !bytes.Equal(b[:piece], room[:piece]) {
			return false
		}
		b = b[piece:]
	}
	return true
}

func (n noise) stream(file uint64, off int64) cipher.Stream {
	var counter [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[:8], file)
	binary.BigEndian.PutUint64(counter[8:], uint64(off/aes.BlockSize))
	return cipher.NewCTR(n.block, counter[:])
}
