package aws

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	lookFirst = 5 * time.Second // the first pause between two looks
	lookMost  = time.Minute     // and the longest
)

// Await looks again and again, with growing pauses, of which a third is chance so that many callers do not come at once, until look says that it is over, or ctx ends.
func (a *Account) Await(ctx context.Context, look func(context.Context) (over bool, err error)) error {
	for pause := lookFirst; ; pause = min(lookMost, pause*3/2) {
		over, err := look(ctx)
		if over || err != nil {
			return err
		}
		t := time.NewTimer(pause*2/3 + rand.N(pause/3))
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}
