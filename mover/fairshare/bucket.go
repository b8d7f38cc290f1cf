package fairshare

import (
	"context"
	"fmt"
	"sync"
	"time"

	"datamove.dev/mover"
)

// Rate is what may pass in a second; 0 is unlimited.
type Rate struct {
	Bytes int64
	Ops   int64
}

// Bucket holds what passes to a rate, bytes and operations each on their own. A piece
// passes in whole when what passed before it is paid for, first come first, so pieces
// may be large; in any time no more passes than the rate gives in it, a tenth of a
// second's worth and one piece. The zero value is unlimited.
type Bucket struct{ bytes, ops meter }

// SetRate changes the rate, also for those that wait.
func (b *Bucket) SetRate(r Rate) {
	b.bytes.setRate(r.Bytes)
	b.ops.setRate(r.Ops)
}

// Wait returns when the cost may be spent, with the time that it waited. If ctx ends
// before, it returns why, and nothing is charged.
func (b *Bucket) Wait(ctx context.Context, c Cost) (waited time.Duration, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return waitAll(ctx, b.join(nil, c))
}

// join appends the charges of a cost to those that there are.
func (b *Bucket) join(charges []*charge, c Cost) []*charge {
	if c.Bytes > 0 {
		charges = append(charges, b.bytes.join(c.Bytes))
	}
	if c.Ops > 0 {
		charges = append(charges, b.ops.join(c.Ops))
	}
	return charges
}

// Direction is one way to or from an endpoint.
type Direction struct {
	Endpoint string // a tier, or s3://bucket
	Write    bool
}

// Charge is what a piece of work takes of one direction.
type Charge struct {
	Endpoint string
	Write    bool
	Bytes    int64
	Ops      int64
}

const maxBuckets = 4096

// Buckets are the buckets of the directions that have a limit. The zero value limits
// nothing.
type Buckets struct {
	mu  sync.Mutex // guards set
	set map[Direction]*Bucket
}

// Set replaces all rates. A direction that is not there any more is unlimited, and callers
// that wait for it go on. More than 4,096 are refused ([mover.ErrRefused]).
func (b *Buckets) Set(rates map[Direction]Rate) error {
	if len(rates) > maxBuckets {
		return fmt.Errorf("%d limits of endpoints, and %d are possible: %w; limit fewer endpoints", len(rates), maxBuckets, mover.ErrRefused)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	next := make(map[Direction]*Bucket, len(rates))
	for d, r := range rates {
		if next[d] = b.set[d]; next[d] == nil {
			next[d] = &Bucket{}
		}
		next[d].SetRate(r)
	}
	for d, old := range b.set {
		if next[d] == nil {
			old.SetRate(Rate{})
		}
	}
	b.set = next
	return nil
}

// Wait returns when all charges may be spent, with the time that it waited. If ctx ends
// before, it returns why, and nothing is charged.
func (b *Buckets) Wait(ctx context.Context, charges []Charge) (waited time.Duration, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return waitAll(ctx, b.join(charges))
}

// join holds the lock all the way, so that no bucket is limited again that Set let go.
func (b *Buckets) join(charges []Charge) (joined []*charge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range charges {
		if bucket := b.set[Direction{c.Endpoint, c.Write}]; bucket != nil {
			joined = bucket.join(joined, Cost{c.Bytes, c.Ops})
		}
	}
	return joined
}
