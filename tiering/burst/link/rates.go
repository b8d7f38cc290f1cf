package link

import (
	"cmp"
	"context"
	"math"
	"time"

	"datamove.dev/mover/fairshare"
	"datamove.dev/mover/limit"
)

// Rates are what bytes move within: a rate of their own, and others by the time of the week. The least of them holds.
type Rates struct {
	Own     int64 // bytes per second; 0 is unlimited
	Windows []*fairshare.Windows
}

// At is the rate at a time, in bytes per second; 0 is unlimited.
func (r *Rates) At(now time.Time) int64 {
	least := cmp.Or(r.Own, math.MaxInt64)
	for _, w := range r.Windows {
		least = min(least, cmp.Or(w.Rate(now).Bytes, math.MaxInt64))
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// unlimited is a rate that holds nothing back.
const unlimited = 1 << 50 // bytes per second

// Bandwidth has the rate of each moment until ctx ends; nil is unlimited for good.
func (r *Rates) Bandwidth(ctx context.Context) *limit.Bandwidth {
	if len(r.Windows) == 0 {
		return limit.NewBandwidth(r.Own)
	}
	b := limit.NewBandwidth(cmp.Or(r.At(time.Now()), unlimited))
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				b.SetRate(cmp.Or(r.At(time.Now()), unlimited))
			}
		}
	}()
	return b
}
