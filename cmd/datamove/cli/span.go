package cli

import (
	"fmt"
	"time"

	"datamove.dev/mover/units"
)

const day = 24 * time.Hour

// ParseUntil reads a moment to come: a date, or how far away it is.
func ParseUntil(s string) (time.Time, error) {
	if d, err := units.ParseSpan(s); err == nil {
		return time.Now().Add(d), nil
	}
	t, err := units.ParseDate(s)
	if err == nil && !t.After(time.Now()) {
		err = fmt.Errorf("%s is over", s)
	}
	return t, err
}

// ParseSince reads a moment that is over: a date, or how long ago it was.
func ParseSince(s string) (time.Time, error) {
	if d, err := units.ParseSpan(s); err == nil {
		return time.Now().Add(-d), nil
	}
	return units.ParseDate(s)
}
