package hardware

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/mover/checksum"
)

const (
	blockMost  = 64 << 20 // what a worker copies, or hashes, at a time: more than its share of the caches
	memoryMost = 4 << 30  // of all of them together
)

func (o Options) block() int { return min(blockMost, memoryMost/2/o.workers()) }

// Memory measures how fast all processors together copy memory: each byte is read once and written once.
func Memory(ctx context.Context, o Options) (Ceiling, error) {
	rates, err := o.repeat(ctx, func() (int64, time.Duration, error) {
		done, took := o.together(ctx, func(to, from []byte) { copy(to, from) })
		return done, took, nil
	})
	if err != nil {
		return Ceiling{}, err
	}
	return of("memory", bytesPerSecond, fmt.Sprintf("%d workers copy blocks of %d MiB", o.workers(), o.block()>>20), rates), nil
}

// Hash measures how fast all processors together compute the checksum of what they have in memory.
func Hash(ctx context.Context, o Options) (Ceiling, error) {
	var sink atomic.Uint64
	rates, err := o.repeat(ctx, func() (int64, time.Duration, error) {
		done, took := o.together(ctx, func(_, from []byte) { sink.Add(checksum.Update(0, from)) })
		return done, took, nil
	})
	if err != nil {
		return Ceiling{}, err
	}
	return of("hash", bytesPerSecond, fmt.Sprintf("%d workers compute CRC-64/NVME of blocks of %d MiB", o.workers(), o.block()>>20), rates), nil
}

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// together has all workers do something with blocks of their own until the time is over. What they have begun by then they end, and it counts, as does its time.
func (o Options) together(ctx context.Context, do func(to, from []byte)) (done int64, took time.Duration) {
	var group sync.WaitGroup
	var all atomic.Int64
	ready, begin := make(chan struct{}, o.workers()), make(chan struct{})
	var end time.Time
	for i := range o.workers() {
		group.Go(func() {
			from, to := make([]byte, o.block()), make([]byte, o.block())
			noise(from, uint64(i))
			copy(to, from) // its pages are there
			ready <- struct{}{}
			<-begin
			for ctx.Err() == nil && time.Now().Before(end) {
				do(to, from)
				all.Add(int64(o.block()))
			}
		})
	}
	for range o.workers() {
		<-ready
	}
	begun := time.Now()
	end = begun.Add(o.time())
	close(begin)
	group.Wait()
	return all.Load(), time.Since(begun)
}

// noise fills a block with what does not compress.
func noise(b []byte, seed uint64) {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	_, _ = rand.NewChaCha8(key).Read(b) // it has no errors
}
