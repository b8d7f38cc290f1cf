package dataset

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Bounds of a lease. A holder that needs one for longer renews it.
const (
	MinTTL = time.Second
	MaxTTL = 7 * 24 * time.Hour
)

// TTL reads how long a lease is asked to last. None, or one beyond the bounds, is
// mover.ErrUsage.
func TTL(ask *durationpb.Duration) (time.Duration, error) {
	if err := ask.CheckValid(); err != nil {
		return 0, fmt.Errorf("the TTL of a lease can not be read: %w: %w", err, mover.ErrUsage)
	}
	if d := ask.AsDuration(); d >= MinTTL && d <= MaxTTL {
		return d, nil
	}
	return 0, fmt.Errorf("a lease lasts from %v to %v, and %v was asked for; renew it to keep it longer: %w", MinTTL, MaxTTL, ask.AsDuration(), mover.ErrUsage)
}

// Expired reports whether a lease has ended. It lasts up to but without the moment
// of its end. One that tells no end lasts: it is damaged, and a person drops it.
func Expired(l *datamovev1.Lease, now time.Time) bool {
	end := l.GetExpireTime()
	return end != nil && !now.Before(end.AsTime())
}

// Renewed returns when a lease ends that is renewed now. Renewing never makes it
// shorter, and never wakes one that has ended: mover.ErrNotExist.
func Renewed(l *datamovev1.Lease, now time.Time, ttl time.Duration) (time.Time, error) {
	if Expired(l, now) {
		return time.Time{}, &mover.Error{Op: "renew", Location: "lease " + l.GetId(),
			Err: fmt.Errorf("it ended at %s; acquire a new one: %w", moment(l.GetExpireTime().AsTime()), mover.ErrNotExist)}
	}
	end := now.Add(ttl)
	if had := l.GetExpireTime(); had != nil && had.AsTime().After(end) {
		end = had.AsTime()
	}
	return end, nil
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
