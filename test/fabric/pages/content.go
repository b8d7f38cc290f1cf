package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
)

// bucket is what is served: folders × objects, all of one size.
type bucket struct {
	name             string
	folders, objects int
	size             int64
}

func (b *bucket) check() error {
	switch {
	case !mover.ValidBucket(b.name):
		return fmt.Errorf("%q is not the name of a bucket", b.name)
	case b.folders < 1 || b.folders > 1000 || b.objects < 1 || b.objects > 100_000:
		return errors.New("there are 1 to 1000 folders with 1 to 100000 objects each")
	case b.size < 0 || b.size > 5<<40:
		return errors.New("an object has at most 5 TiB")
	}
	return nil
}

func (b *bucket) count() int { return b.folders * b.objects }

// key returns the i-th key in the order of bytes.
func (b *bucket) key(i int) string { return fmt.Sprintf("%03d/%05d.bin", i/b.objects, i%b.objects) }

// has reports whether there is an object of that key.
func (b *bucket) has(key string) bool {
	folder, name, _ := strings.Cut(key, "/")
	i, err1 := strconv.Atoi(folder)
	j, err2 := strconv.Atoi(strings.TrimSuffix(name, ".bin"))
	return err1 == nil && err2 == nil && i >= 0 && i < b.folders && j >= 0 && j < b.objects && b.key(i*b.objects+j) == key
}

// from returns the number of the first key that is not before key.
func (b *bucket) from(key string) int {
	return sort.Search(b.count(), func(i int) bool { return b.key(i) >= key })
}

// pageBytes is odd, so that equal distances in two files or parts give different
// bytes, and small enough to stay in the cache of a core.
const pageBytes = 1<<20 - 3

// page is what all contents are made of.
var page = func() []byte {
	p := make([]byte, pageBytes)
	_, _ = rand.NewChaCha8([32]byte([]byte("datamove: a page of random bytes"))).Read(p) // never fails
	return p
}()

// object is one key, and where in the page its content begins.
type object struct {
	key  string
	size int64
	at   int64
	etag string
}

func newObject(key string, size int64) object {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", key, size))
	return object{key: key, size: size, at: int64(binary.BigEndian.Uint64(sum[:]) % pageBytes), etag: fmt.Sprintf("%x-1", sum[16:])}
}

// write sends the bytes from off up to off+n.
func (o *object) write(w io.Writer, off, n int64) error {
	for at := (o.at + off) % pageBytes; n > 0; at = 0 {
		piece := page[at:min(at+n, pageBytes)]
		if _, err := w.Write(piece); err != nil {
			return err
		}
		n -= int64(len(piece))
	}
	return nil
}

// crc returns the checksum of the whole object, without looking at all of it.
func (o *object) crc() uint64 {
	head := min(o.size, pageBytes-o.at)
	sum := checksum.Update(0, page[o.at:o.at+head])
	rest := o.size - head
	for full, count := pageCRC, rest/pageBytes; count > 0; count >>= 1 { // full is of 2^k pages
		if count&1 == 1 {
			sum = checksum.Combine(sum, full.sum, full.bytes)
		}
		full = pages{checksum.Combine(full.sum, full.sum, full.bytes), 2 * full.bytes}
	}
	tail := rest % pageBytes
	return checksum.Combine(sum, checksum.Update(0, page[:tail]), tail)
}

// pages is the checksum of some whole pages.
type pages struct {
	sum   uint64
	bytes int64
}

var pageCRC = pages{checksum.Update(0, page), pageBytes}
