package loadgen

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
)

// noise is what the files of a tree contain: AES-CTR of nothing, under a key of the run and the tree, from a counter of the file and the offset. Its methods make the bytes of a file from
// an offset on, that is a multiple of 16. One rank uses it at a time: it goes on where it stopped when that is what comes next, as nearly always.
type noise struct {
	block  cipher.Block
	room   []byte // for what is compared
	stream cipher.Stream
	file   uint64 // where it is: the file, and the offset in it
	off    int64
}

// newNoise is that of a tree.
func newNoise(seed uint64, tree string) *noise {
	key := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), tree...))
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		panic(err) // 16 bytes are a key
	}
	return &noise{block: block, room: make([]byte, len(zeros))}
}

// zeros is what noise is made of, a piece at a time: small enough for the cache of a processor.
var zeros [32 << 10]byte

// fill makes the bytes.
func (n *noise) fill(b []byte, file uint64, off int64) {
	n.seek(file, off)
	for len(b) > 0 {
		b = b[n.piece(b):]
	}
}

// is says whether these are the bytes.
func (n *noise) is(b []byte, file uint64, off int64) bool {
	n.seek(file, off)
	for len(b) > 0 {
		piece := n.room[:min(len(b), len(n.room))]
		if n.piece(piece); !bytes.Equal(b[:len(piece)], piece) {
			return false
		}
		b = b[len(piece):]
	}
	return true
}

// piece makes the first bytes, and says how many.
func (n *noise) piece(b []byte) int {
	size := min(len(b), len(zeros))
	n.stream.XORKeyStream(b[:size], zeros[:size])
	n.off += int64(size)
	return size
}

// seek goes to an offset of a file.
func (n *noise) seek(file uint64, off int64) {
	if n.stream != nil && n.file == file && n.off == off {
		return
	}
	var counter [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[:8], file)
	binary.BigEndian.PutUint64(counter[8:], uint64(off/aes.BlockSize))
	n.stream, n.file, n.off = cipher.NewCTR(n.block, counter[:]), file, off
}
