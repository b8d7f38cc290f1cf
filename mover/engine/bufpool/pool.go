// Package bufpool lends the memory that bytes travel through.
//
// A [Pool] owns aligned blocks of memory, lends them with Get, takes them back
// with Put and keeps them for the next one. What it has lent and what it keeps
// idle are together never more than its limit; when all of it is lent, Get
// waits, first come first served. One request that is larger than the limit is
// not refused: it waits until it is alone.
//
// All methods may be called from many goroutines. A caller that needs two buffers at
// once must not wait for the second while it holds the first. Two such callers can block
// each other. It takes one buffer of the summed length and cuts it.
//
// The memory is outside the garbage-collected heap where the system allows it,
// so that 128 MiB of buffers do not let the heap grow by another 128 MiB, and
// blocks of megabytes are asked for in huge pages. The bound on memory is shown by
// TestLimitHolds, fairness and cancellation by the other tests of the package.
package bufpool

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"

	"datamove.dev/mover"
)

const (
	// DefaultLimit is the limit of a pool in bytes when none is given.
	DefaultLimit = 128 << 20
	// Align is what every buffer begins at a multiple of, in bytes: enough for
	// direct I/O on devices with blocks of up to 4 KiB.
	Align = 4 << 10

	keepBytes = 64 << 20 // a larger block is given back at once
)

// Pool is a bounded stock of memory. A nil *Pool is the default pool of the
// process, of DefaultLimit bytes.
type Pool struct {
	limit int64
	room  *semaphore.Weighted // of limit bytes; what is lent, an oversized buffer counted as limit
	stock *stock
}

// stock is the memory of a pool. It is apart from the Pool so that idle memory
// can be given back when the Pool is no longer reachable.
type stock struct {
	mu    sync.Mutex // guards all below
	idle  map[int][][]byte
	lent  map[*byte]int // first byte of a lent block -> its length
	held  int64         // bytes idle
	inUse int64         // bytes lent
	peak  int64         // highest held + inUse
}

// New returns a pool that holds at most limit bytes; 0 means DefaultLimit.
func New(limit int64) *Pool {
	if limit <= 0 {
		limit = DefaultLimit
	}
	s := &stock{idle: map[int][][]byte{}, lent: map[*byte]int{}}
	p := &Pool{limit: limit, room: semaphore.NewWeighted(limit), stock: s}
	runtime.AddCleanup(p, (*stock).trimAll, s)
	return p
}

var process = sync.OnceValue(func() *Pool { return New(0) })

func (p *Pool) orDefault() *Pool {
	if p == nil {
		return process()
	}
	return p
}

// Get lends a buffer of length n that begins at a multiple of Align. What is in
// it is left from earlier use. It waits while the limit is reached, and gives up
// when ctx ends.
func (p *Pool) Get(ctx context.Context, n int) ([]byte, error) {
	p = p.orDefault()
	if n < 0 {
		return nil, fmt.Errorf("buffer of %d bytes: %w", n, mover.ErrUsage)
	}
	size := blockSize(n)
	if err := p.room.Acquire(ctx, p.charge(size)); err != nil {
		return nil, context.Cause(ctx)
	}
	b, err := p.stock.take(size, p.limit)
	if err != nil {
		p.room.Release(p.charge(size))
		return nil, err
	}
	return b[:n], nil
}

// Put takes back a buffer that Get lent, which may have been shortened but must
// begin where it began. It panics when the buffer is not lent, because then
// two users hold the same memory.
func (p *Pool) Put(b []byte) {
	p = p.orDefault()
	p.room.Release(p.charge(p.stock.takeBack(b)))
}

// InUse is how many bytes are lent now, in whole blocks.
func (p *Pool) InUse() int64 {
	s := p.orDefault().stock
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse
}

// Peak is the most bytes that the pool ever held, lent and idle.
func (p *Pool) Peak() int64 {
	s := p.orDefault().stock
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

// Trim gives back all memory that is not lent.
func (p *Pool) Trim() { p.orDefault().stock.trimAll() }

func (p *Pool) charge(size int) int64 { return min(int64(size), p.limit) }

// blockSize rounds n up to one of four sizes per power of two, so that blocks
// fit the next request too and at most a quarter is wasted.
func blockSize(n int) int {
	step := Align
	if n > 4*Align {
		step = 1 << (bits.Len(uint(n-1)) - 3)
	}
	return max(Align, (n+step-1)/step*step)
}

func (s *stock) take(size int, limit int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.block(size, limit)
	if err != nil {
		return nil, err
	}
	s.lent[&b[0]] = size
	s.inUse += int64(size)
	s.peak = max(s.peak, s.inUse+s.held)
	return b, nil
}

// block takes an idle block of that size or makes one, giving back as many
// others as the limit asks for.
func (s *stock) block(size int, limit int64) ([]byte, error) {
	if list := s.idle[size]; len(list) > 0 {
		b := list[len(list)-1]
		s.idle[size] = list[:len(list)-1]
		s.held -= int64(size)
		return b, nil
	}
	s.trim(max(0, limit-s.inUse-int64(size)))
	return allocate(size)
}

func (s *stock) takeBack(b []byte) int {
	b = b[:cap(b)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) == 0 || s.lent[&b[0]] != len(b) {
		panic("buffer: Put of memory that the pool has not lent")
	}
	size := len(b)
	delete(s.lent, &b[0])
	s.inUse -= int64(size)
	if size > keepBytes {
		release(b)
		return size
	}
	s.idle[size] = append(s.idle[size], b)
	s.held += int64(size)
	return size
}

func (s *stock) trimAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim(0)
}

// trim gives back idle blocks until at most keep bytes are idle.
func (s *stock) trim(keep int64) {
	for size, list := range s.idle {
		for len(list) > 0 && s.held > keep {
			release(list[len(list)-1])
			list = list[:len(list)-1]
			s.held -= int64(size)
		}
		s.idle[size] = list
	}
}
