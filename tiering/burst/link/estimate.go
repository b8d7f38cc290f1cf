package link

import (
	"context"
	"fmt"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
)

// Measure counts what there is to send from one location to another, as [Link.Measure] does.
type Measure func(ctx context.Context, from, to location.Location) (burst.Measured, error)

// Estimate measures what a burst has to send, and says what it will take, at the prices of a book. find has what a location of the declaration is.
// Nothing is asked of AWS but what the bucket has already.
func Estimate(ctx context.Context, b *burst.Burst, measure Measure, find func(text string) (location.Location, error), book *pricing.Book, now time.Time) (burst.Estimate, error) {
	var sizes []burst.Measured
	for _, d := range b.Spec.Data {
		m := burst.Measured{Files: d.Files, Bytes: int64(d.Size)}
		if d.Size == 0 {
			from, err := find(d.From)
			if err != nil {
				return burst.Estimate{}, fmt.Errorf("%s: %w", mover.Printable(d.From), err)
			}
			to, err := find(b.Location(d.To))
			if err != nil {
				return burst.Estimate{}, err
			}
			if m, err = measure(ctx, from, to); err != nil {
				return burst.Estimate{}, err
			}
		}
		sizes = append(sizes, m)
	}
	return b.Estimate(sizes, book, nil, now)
}
